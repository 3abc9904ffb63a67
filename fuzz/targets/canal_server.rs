//! A Canal server's packets in their frames.
#![no_main]

lockkeeper_fuzz::target!(lockkeeper_canal::fuzzing::server);
