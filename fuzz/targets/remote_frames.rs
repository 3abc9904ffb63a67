//! A stream of frames.
#![no_main]

lockkeeper_fuzz::target!(lockkeeper_remote::fuzzing::frames);
