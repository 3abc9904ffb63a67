//! What must hold whatever bytes this crate's decoders are given: the bodies of the fuzz targets in
//! `fuzz/`, and of the property tests that the ordinary run makes of them.
//!
//! No part of the interface: it may change or go with any version. A body panics when the rule that
//! it states is broken.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{FencingToken, RpcAddress, RpcError, codec};

/// Each of serde's shapes, nested in each other to any depth.
#[derive(Debug, Serialize, Deserialize)]
enum Shape {
    Unit,
    Newtype(Box<Shape>),
    Tuple(bool, i64, u128, f64, Option<Box<Shape>>),
    Struct {
        text: String,
        character: char,
        list: Vec<Shape>,
        map: BTreeMap<String, Shape>,
    },
    Untagged(Vec<Untagged>),
    Nothing((), UnitStruct, [u8; 3]),
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Untagged {
    Number(i64),
    Text(String),
    List(Vec<Untagged>),
}

#[derive(Debug, Serialize, Deserialize)]
struct UnitStruct;

/// Payloads of calls: a value or an error. A value is written again as bytes that are the same value.
///
/// # Panics
/// When they are neither.
pub fn payload(bytes: &[u8]) {
    read_and_written_again::<Shape>(bytes);
    read_and_written_again::<(Result<u64, String>, Vec<i8>)>(bytes);
    read_and_written_again::<RpcError>(bytes);
    read_and_written_again::<FencingToken>(bytes);
    read_and_written_again::<RpcAddress>(bytes);
}

fn read_and_written_again<T: Serialize + DeserializeOwned>(bytes: &[u8]) {
    let Ok(value) = codec::decode::<T>(bytes) else {
        return;
    };
    let written = codec::encode(&value).expect("what was decoded can be encoded");
    let again = codec::decode::<T>(&written).expect("what was encoded can be decoded");
    // Compared as bytes: a NaN differs from itself.
    assert_eq!(codec::encode(&again).as_ref(), Ok(&written));
}
