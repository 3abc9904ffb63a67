//! What must hold whatever a place that processes share holds: the bodies of the fuzz targets in
//! `fuzz/`, and of the property tests that the ordinary run makes of them.
//!
//! No part of the interface: it may change or go with any version. A body panics when the rule that
//! it states is broken.

use std::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::driver::file::{Expires, Lease, Published};
use crate::election::LeaderInformation;
use crate::guard::{Base, Fence, LineageRecord, PrunedRecord, decode, encode, seal};

/// Records of the guard, as they come and with a checksum that fits: one that is read is written again
/// as bytes that are the same record.
///
/// # Panics
/// When they are not.
pub fn guard(bytes: &[u8]) {
    let sealed = seal(bytes.to_vec());
    for bytes in [bytes, &sealed] {
        record::<Fence>(bytes);
        record::<Base>(bytes);
        record::<LineageRecord>(bytes);
        record::<PrunedRecord>(bytes);
    }
}

fn record<T: Serialize + DeserializeOwned + PartialEq + Debug>(bytes: &[u8]) {
    if let Ok(record) = decode::<T>("fuzzed", bytes) {
        let written = encode("fuzzed", &record).expect("what was decoded can be encoded");
        let again = decode::<T>("fuzzed", &written).expect("what was encoded can be decoded");
        assert_eq!(again, record);
    }
}

/// What an election leaves behind: the lease files, and the leader's information that lies in
/// ZooKeeper, etcd and Kubernetes. What is read is written again as JSON that is the same.
///
/// # Panics
/// When it is not.
pub fn election(bytes: &[u8]) {
    json::<Lease>(bytes);
    json::<Expires>(bytes);
    json::<Published>(bytes);
    json::<LeaderInformation>(bytes);
}

fn json<T: Serialize + DeserializeOwned>(bytes: &[u8]) {
    if let Ok(value) = serde_json::from_slice::<T>(bytes) {
        let written = serde_json::to_vec(&value).expect("what was decoded can be encoded");
        let again = serde_json::from_slice::<T>(&written).expect("what was encoded can be decoded");
        let twice = serde_json::to_vec(&again).expect("what was decoded can be encoded");
        assert_eq!(twice, written);
    }
}
