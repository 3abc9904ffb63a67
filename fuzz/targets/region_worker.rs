//! What coordinator and workers send to each other, and tuples.
#![no_main]

lockkeeper_fuzz::target!(lockkeeper_consistent_region::fuzzing::worker);
