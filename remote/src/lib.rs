//! lockkeeper-core calls over TCP.
