//! Messages of a queue, flat and protobuf.
#![no_main]

lockkeeper_fuzz::target!(lockkeeper_canal::fuzzing::queue);
