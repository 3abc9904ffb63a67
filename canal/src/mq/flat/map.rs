//! JSON objects whose keys keep their order: a row's columns are in the table's.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap as _, Serializer};

/// Keys and values in the order in which they were written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ordered<V>(pub(crate) Vec<(String, V)>);

impl<V> Default for Ordered<V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<V> Ordered<V> {
    /// The value of a key. `hint` is where it is looked for first: equal objects follow each other.
    pub(crate) fn get(&self, key: &str, hint: usize) -> Option<&V> {
        match self.0.get(hint) {
            Some((at, value)) if at == key => Some(value),
            _ => self
                .0
                .iter()
                .find(|(at, _)| at == key)
                .map(|(_, value)| value),
        }
    }
}

impl<V: Serialize> Serialize for Ordered<V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Ordered<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder<V>(PhantomData<V>);
        impl<'de, V: Deserialize<'de>> Visitor<'de> for InOrder<V> {
            type Value = Ordered<V>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with a key a column")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Ordered(entries))
            }
        }
        deserializer.deserialize_map(InOrder(PhantomData))
    }
}

/// A column's value: text or NULL. Canal writes text; other producers of the same form write bare
/// numbers and booleans too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Text(pub(crate) Option<String>);

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde_json::Value;
        match Value::deserialize(deserializer)? {
            Value::Null => Ok(Self(None)),
            Value::String(text) => Ok(Self(Some(text))),
            Value::Number(number) => Ok(Self(Some(number.to_string()))),
            Value::Bool(value) => Ok(Self(Some(u8::from(value).to_string()))),
            Value::Array(_) | Value::Object(_) => Err(D::Error::custom(
                "a column's value is text, a number or null",
            )),
        }
    }
}
