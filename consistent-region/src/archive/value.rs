//! State of any operator as JSON, as far as its bytes say what they are.

use std::fmt;
use std::io::Cursor;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Reads JSON, or MessagePack; one value or several in a row. `None` when it is neither as a whole.
pub(super) fn read(state: &[u8]) -> Option<Vec<Value>> {
    let json: Result<Vec<Value>, _> = serde_json::Deserializer::from_slice(state)
        .into_iter()
        .collect();
    json.ok().or_else(|| read_message_pack(state))
}

fn read_message_pack(state: &[u8]) -> Option<Vec<Value>> {
    let mut values = Vec::new();
    let mut cursor = Cursor::new(state);
    while cursor.position() < state.len() as u64 {
        let mut deserializer = rmp_serde::Deserializer::new(&mut cursor);
        values.push(Any::deserialize(&mut deserializer).ok()?.0);
    }
    Some(values)
}

/// Any value that describes itself.
struct Any(Value);

impl<'de> Deserialize<'de> for Any {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyVisitor).map(Self)
    }
}

struct AnyVisitor;

impl<'de> Visitor<'de> for AnyVisitor {
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
        Any::deserialize(deserializer).map(|any| any.0)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(
        self,
        deserializer: D,
    ) -> Result<Value, D::Error> {
        Any::deserialize(deserializer).map(|any| any.0)
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
        Ok(Value::Object(Map::from_iter([(
            "hex".to_owned(),
            hex(value).into(),
        )])))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(Any(value)) = items.next_element()? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut values = Map::new();
        while let Some((Any(key), Any(value))) = items.next_entry()? {
            let key = match key {
                Value::String(key) => key,
                other => other.to_string(),
            };
            values.insert(key, value);
        }
        Ok(Value::Object(values))
    }
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

    #[test]
    fn what_is_neither_is_not_guessed() {
        // 0xc1 is no MessagePack
        assert_eq!(read(&[0xc1, 1, 2]), None);
        assert_eq!(hex(&[0, 255]), "00ff");
        assert_eq!(read(b""), Some(vec![]));
    }
}
