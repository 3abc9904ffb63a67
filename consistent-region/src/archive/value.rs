//! State of any operator as JSON, as far as its bytes say what they are.

use std::fmt;
use std::io::Cursor;

use lockkeeper_core::codec::MAX_DEPTH;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Reads JSON, or MessagePack; one value or several in a row. `None` when it is neither as a whole.
pub(crate) fn read(state: &[u8]) -> Option<Vec<Value>> {
    let json: Result<Vec<Value>, _> = serde_json::Deserializer::from_slice(state)
        .into_iter()
        .collect();
    json.ok().or_else(|| read_message_pack(state))
}

/// Reads one value of MessagePack; one that is none, or goes on behind its end, as its bytes.
pub(crate) fn one(bytes: &[u8]) -> Value {
    match read_message_pack(bytes).map(<[Value; 1]>::try_from) {
        Some(Ok([value])) => value,
        _ => in_hex(bytes),
    }
}

fn read_message_pack(state: &[u8]) -> Option<Vec<Value>> {
    let mut values = Vec::new();
    let mut cursor = Cursor::new(state);
    while cursor.position() < state.len() as u64 {
        let mut deserializer = rmp_serde::Deserializer::new(&mut cursor);
        deserializer.set_max_depth(MAX_DEPTH);
        values.push(Any::default().deserialize(&mut deserializer).ok()?);
    }
    Some(values)
}

/// How deep keys may lie within keys. A key that is no text becomes the text of its JSON, and what is
/// quoted in it doubles with each level; what goes deeper is not read, and shown as its bytes.
const KEYS_WITHIN_KEYS: u8 = 4;

/// Any value that describes itself.
#[derive(Clone, Copy, Default)]
struct Any {
    keys_around: u8,
}

impl<'de> DeserializeSeed<'de> for Any {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Any {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(
        self,
        deserializer: D,
    ) -> Result<Value, D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        // what JSON has no number for is text
        Ok(Number::from_f64(value).map_or_else(|| value.to_string().into(), Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_bytes<E>(self, value: &[u8]) -> Result<Value, E> {
        Ok(in_hex(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = items.next_element_seed(self)? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let of_keys = Self {
            keys_around: self.keys_around + 1,
        };
        if of_keys.keys_around > KEYS_WITHIN_KEYS {
            let what = format_args!("keys lie deeper than {KEYS_WITHIN_KEYS} levels within keys");
            return Err(A::Error::custom(what));
        }
        let mut values = Map::new();
        while let Some((key, value)) = items.next_entry_seed(of_keys, self)? {
            let key = match key {
                Value::String(key) => key,
                other => other.to_string(),
            };
            values.insert(key, value);
        }
        Ok(Value::Object(values))
    }
}

fn in_hex(bytes: &[u8]) -> Value {
    Value::Object(Map::from_iter([("hex".to_owned(), hex(bytes).into())]))
}

/// Bytes as hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string can't fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    #[test]
    fn json_and_message_pack_are_read_whatever_their_keys_are() {
        assert_eq!(
            read(br#"{"a": 1} [2]"#),
            Some(vec![json!({"a": 1}), json!([2])])
        );
        let map = BTreeMap::from([(7_u64, ("x", -1_i32, Some(1.5_f64))), (9, ("y", 0, None))]);
        let bytes = rmp_serde::to_vec(&map).unwrap();
        let expected = json!({"7": ["x", -1, 1.5], "9": ["y", 0, null]});
        assert_eq!(read(&bytes), Some(vec![expected]));
    }

    #[derive(serde::Serialize)]
    enum Kind {
        Unit,
        Newtype(u8),
        Fields { a: u8, b: Option<char> },
    }

    #[test]
    fn every_kind_of_value_has_its_own_text() {
        fn text(value: impl serde::Serialize) -> Value {
            one(&rmp_serde::to_vec(&value).unwrap())
        }
        // As a byte this is also the JSON text `1`.
        assert_eq!(text(49), json!(49));
        assert_eq!(text(u64::MAX), json!(u64::MAX));
        assert_eq!(text(i64::MIN), json!(i64::MIN));
        assert_eq!(text((1.5_f32, -0.25_f64)), json!([1.5, -0.25]));
        assert_eq!(text([f64::NAN, f64::INFINITY]), json!(["NaN", "inf"]));
        assert_eq!(
            text((true, 'ß', "a\n\u{1F600}")),
            json!([true, "ß", "a\n😀"])
        );
        assert_eq!(text(((), None::<u8>, Some(7))), json!([null, null, 7]));
        assert_eq!(text(serde_bytes(&[0, 255])), json!({"hex": "00ff"}));
        assert_eq!(text(u128::MAX), json!({"hex": "f".repeat(32)}));
        let map = BTreeMap::from([((1, "x"), vec![Kind::Unit, Kind::Newtype(2)])]);
        assert_eq!(text(map), json!({"[1,\"x\"]": ["Unit", {"Newtype": 2}]}));
        let fields = Kind::Fields { a: 1, b: Some('c') };
        assert_eq!(text(fields), json!({"Fields": [1, "c"]}));
        let map = BTreeMap::from([(true, json!({"deep": [[], {}]}))]);
        assert_eq!(text(map), json!({"true": {"deep": [[], {}]}}));
        // 0xd6: four bytes of a type of somebody's own, 5
        assert_eq!(one(&[0xd6, 5, 1, 2, 3, 4]), json!([5, {"hex": "01020304"}]));
        assert_eq!(one(&[0xc1]), json!({"hex": "c1"}));
        assert_eq!(one(&[1, 2]), json!({"hex": "0102"}));
    }

    #[test]
    fn what_nests_too_deeply_is_shown_as_its_bytes_and_exhausts_no_stack() {
        let nested = |levels| [vec![0x91; levels], vec![1]].concat();
        assert!(matches!(one(&nested(MAX_DEPTH / 2)), Value::Array(_)));
        let bytes = nested(100_000);
        assert_eq!(one(&bytes), json!({"hex": hex(&bytes)}));
        assert_eq!(read(&bytes), None);
    }

    #[test]
    fn keys_within_keys_do_not_double_the_text_with_each_level() {
        // A map with one entry, whose key is a map with one entry, and so on.
        let nested = |levels: usize| {
            let mut bytes = vec![0x81; levels];
            bytes.extend(vec![1; levels + 1]);
            bytes
        };
        assert_eq!(one(&nested(2)), json!({"{\"1\":1}": 1}));
        let shown = one(&nested(usize::from(KEYS_WITHIN_KEYS))).to_string();
        assert!(shown.len() < 100, "{shown}");
        for levels in [usize::from(KEYS_WITHIN_KEYS) + 1, 300] {
            let bytes = nested(levels);
            assert_eq!(one(&bytes), json!({"hex": hex(&bytes)}));
            assert_eq!(read(&bytes), None);
        }
    }

    /// As bytes, and not as a list of numbers.
    fn serde_bytes(bytes: &[u8]) -> impl serde::Serialize + '_ {
        struct Bytes<'a>(&'a [u8]);
        impl serde::Serialize for Bytes<'_> {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_bytes(self.0)
            }
        }
        Bytes(bytes)
    }

    #[test]
    fn what_is_neither_is_not_guessed() {
        // 0xc1 is no MessagePack
        assert_eq!(read(&[0xc1, 1, 2]), None);
        assert_eq!(hex(&[0, 255]), "00ff");
        assert_eq!(read(b""), Some(vec![]));
    }
}
