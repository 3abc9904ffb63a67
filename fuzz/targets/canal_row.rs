//! The content of a row change, and every column as every type.
#![no_main]

lockkeeper_fuzz::target!(lockkeeper_canal::fuzzing::row);
