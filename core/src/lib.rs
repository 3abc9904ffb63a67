//! Typed calls between actix actors.
