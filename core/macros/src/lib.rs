//! The derive macro of lockkeeper-core.
