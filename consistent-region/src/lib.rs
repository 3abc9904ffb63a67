//! Consistent regions over actix actors.
