//! What a stranger says first: preface and proofs.
#![no_main]

lockkeeper_fuzz::target!(lockkeeper_remote::fuzzing::handshake);
