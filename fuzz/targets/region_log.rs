//! Entries of a region's log with their manifests, and savepoints.
#![no_main]

lockkeeper_fuzz::target!(lockkeeper_consistent_region::fuzzing::log);
