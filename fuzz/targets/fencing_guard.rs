//! Records of the guard: fences, bases, lineages.
#![no_main]

lockkeeper_fuzz::target!(lockkeeper_fencing::fuzzing::guard);
