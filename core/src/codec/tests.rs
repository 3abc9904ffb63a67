//! What survives the codec, and what hostile bytes may not do.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::*;

#[test]
fn none_unit_and_nested_results_survive() {
    let value: (Option<u8>, (), Result<u8, String>) = (None, (), Err("no".into()));
    assert_eq!(
        decode::<(Option<u8>, (), Result<u8, String>)>(&encode(&value).unwrap()),
        Ok(value)
    );
}

/// Each of serde's shapes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Shapes {
    numbers: (bool, i8, i16, i32, i64, u8, u16, u32, u64, f32, f64),
    wide: (i128, u128),
    text: (char, String, Vec<char>),
    choices: Vec<Choice>,
    table: BTreeMap<String, Option<Wrapped>>,
    nothing: (Unit, ()),
    any: Vec<Untagged>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Choice {
    Unit,
    New(Box<Choice>),
    Pair(u8, Option<i64>),
    Fields { of: String },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Wrapped(Vec<u8>);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Unit;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Untagged {
    Number(i64),
    Text(String),
    List(Vec<i64>),
}

#[test]
fn every_shape_survives() {
    let value = Shapes {
        numbers: (
            true,
            -1,
            -300,
            -70_000,
            i64::MIN,
            1,
            300,
            70_000,
            u64::MAX,
            1.5,
            1e300,
        ),
        wide: (i128::MIN, i128::MAX.unsigned_abs()),
        text: ('ä', "text".into(), vec!['x']),
        choices: vec![
            Choice::Unit,
            Choice::New(Box::new(Choice::Unit)),
            Choice::Pair(1, None),
            Choice::Fields { of: "x".into() },
        ],
        table: [("a".into(), None), ("b".into(), Some(Wrapped(vec![1, 2])))].into(),
        nothing: (Unit, ()),
        any: vec![
            Untagged::Number(-7),
            Untagged::Text("x".into()),
            Untagged::List(vec![1]),
        ],
    };
    let encoded = encode(&value).unwrap();
    assert_eq!(decode::<Shapes>(&encoded), Ok(value));
    for end in 0..encoded.len() {
        assert!(decode::<Shapes>(&encoded[..end]).is_err(), "{end}");
    }
}

#[test]
fn trailing_bytes_are_refused() {
    assert!(
        decode::<u8>(&[1, 2])
            .unwrap_err()
            .contains("1 bytes follow")
    );
}

/// Nests in arrays.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Arrays(Vec<Arrays>);

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Maps(BTreeMap<u8, Maps>);

/// Nests without a byte for it: any value but nil is another one within.
#[derive(Debug, Deserialize)]
#[expect(dead_code, reason = "only its shape matters")]
struct Options(Option<Box<Options>>);

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Enums {
    End,
    New(Box<Enums>),
    Tuple(u8, Box<Enums>),
    Fields { within: Box<Enums> },
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its shape matters")]
enum AnyOf {
    Number(u8),
    More(Vec<AnyOf>),
}

const LEVELS: usize = 100_000;

fn too_deep<T: serde::de::DeserializeOwned + std::fmt::Debug>(bytes: &[u8]) {
    let error = decode::<T>(bytes).unwrap_err();
    assert!(error.contains("128 levels"), "{error}");
}

#[test]
fn every_kind_of_nesting_is_counted_before_the_stack_ends() {
    too_deep::<Arrays>(&[0x91].repeat(LEVELS));
    too_deep::<Maps>(&[0x81, 0x01].repeat(LEVELS));
    too_deep::<Options>(&[0x01]);
    too_deep::<Options>(&[0x91].repeat(LEVELS));
    too_deep::<Enums>(&b"\x81\xa3New".repeat(LEVELS));
    too_deep::<Enums>(&[0x81, 0x01].repeat(LEVELS));
    too_deep::<Enums>(&b"\x81\xa5Tuple\x92\x01".repeat(LEVELS));
    too_deep::<Enums>(&b"\x81\xa6Fields\x91".repeat(LEVELS));
    too_deep::<Enums>(&b"\x81\xa6Fields\x81\xa6within".repeat(LEVELS));
    // What nobody reads, and what is kept to be read twice, nests too.
    too_deep::<serde::de::IgnoredAny>(&[0x91].repeat(LEVELS));
    assert!(decode::<AnyOf>(&[0x91].repeat(LEVELS)).is_err());
}

#[test]
fn a_value_within_the_limit_is_read() {
    let nested =
        |levels: usize| (0..levels).fold(Enums::End, |within, _| Enums::New(Box::new(within)));
    // The innermost takes a level too.
    let deep = nested(MAX_DEPTH - 1);
    assert_eq!(decode::<Enums>(&encode(&deep).unwrap()), Ok(deep));
    too_deep::<Enums>(&encode(&nested(MAX_DEPTH)).unwrap());
}

#[test]
fn an_announced_length_that_cannot_be_true_is_refused() {
    let huge = |marker| [marker, 0xFF, 0xFF, 0xFF, 0xFF];
    let announced = |error: String| {
        assert!(error.contains("4294967295 elements"), "{error}");
    };
    announced(decode::<Vec<u64>>(&huge(0xDD)).unwrap_err());
    // Of no size in memory: the count alone would keep the thread.
    announced(decode::<Vec<()>>(&huge(0xDD)).unwrap_err());
    announced(decode::<BTreeMap<u8, u8>>(&huge(0xDF)).unwrap_err());
    assert!(decode::<String>(&huge(0xDB)).is_err());
    assert!(decode::<Vec<u8>>(&huge(0xC6)).is_err());
    assert!(decode::<serde::de::IgnoredAny>(&[huge(0xC9).as_slice(), &[1]].concat()).is_err());
}
