//! Lease files, and the leader's information.
#![no_main]

lockkeeper_fuzz::target!(lockkeeper_fencing::fuzzing::election);
