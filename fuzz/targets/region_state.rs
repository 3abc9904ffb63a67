//! The state in checkpoint objects.
#![no_main]

lockkeeper_fuzz::target!(lockkeeper_consistent_region::fuzzing::state);
