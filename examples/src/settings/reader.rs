//! Reads merged layers into structs: knows every key, what is near to one that it does not know,
//! durations as text with units, and texts of the environment as whatever is asked for.

use std::fmt;

use figment::value::{Dict, Empty, Num, Tag, Value};
use serde::de::value::{SeqDeserializer, StrDeserializer, StringDeserializer};
use serde::de::{
    self, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor,
};
use serde::forward_to_deserialize_any;

use super::error::Place;
use super::layers::Layers;
use super::secret;

/// What is wrong with a value, and which.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) key: String,
    pub(super) tag: Option<Tag>,
    pub(super) what: String,
}

impl Fault {
    /// Names the key, unless one inside of it is named.
    fn within(mut self, key: &str, tag: Tag) -> Self {
        if self.key.is_empty() {
            self.key = key.to_owned();
            self.tag.get_or_insert(tag);
        }
        self
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.key, self.what)
    }
}

impl std::error::Error for Fault {}

impl de::Error for Fault {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self {
            key: String::new(),
            tag: None,
            what: message.to_string(),
        }
    }
}

/// Reads one value.
pub(super) struct Reader<'a> {
    layers: &'a Layers,
    key: String,
    value: ValueOrRoot<'a>,
}

#[derive(Clone, Copy)]
enum ValueOrRoot<'a> {
    Root(&'a Dict),
    Value(&'a Value),
}

impl<'a> Reader<'a> {
    pub(super) fn new(layers: &'a Layers, root: &'a Dict) -> Self {
        Self {
            layers,
            key: String::new(),
            value: ValueOrRoot::Root(root),
        }
    }

    fn dict(&self) -> Option<&'a Dict> {
        match self.value {
            ValueOrRoot::Root(dict) | ValueOrRoot::Value(Value::Dict(_, dict)) => Some(dict),
            ValueOrRoot::Value(_) => None,
        }
    }

    fn text(&self) -> Option<&'a str> {
        match self.value {
            ValueOrRoot::Value(Value::String(_, text)) => Some(text),
            _ => None,
        }
    }

    fn tag(&self) -> Tag {
        match self.value {
            ValueOrRoot::Root(_) => Tag::Default,
            ValueOrRoot::Value(value) => value.tag(),
        }
    }

    /// A text is parsed as the number or flag that is asked for.
    fn parsed<T: std::str::FromStr>(&self, what: &str) -> Result<Option<T>, Fault> {
        let Some(text) = self.text() else {
            return Ok(None);
        };
        let parsed = text.trim().parse();
        parsed
            .map(Some)
            .map_err(|_| de::Error::custom(format!("is {text:?}, it must be {what}")))
    }

    /// The fields of a struct: each key must be one.
    fn fields<V: Visitor<'a>>(
        self,
        known: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let Some(dict) = self.dict() else {
            return Err(de::Error::custom(format!(
                "must be a section with the keys {}",
                known.join(", ")
            )));
        };
        for (key, value) in dict {
            if !known.contains(&key.as_str()) {
                let whole = join(&self.key, key);
                return Err(Fault {
                    what: unknown("is no key", key, known),
                    tag: Some(value.tag()),
                    key: whole,
                });
            }
        }
        visitor.visit_map(Entries {
            layers: self.layers,
            prefix: self.key,
            entries: dict.iter(),
            value: None,
        })
    }
}

fn join(prefix: &str, key: &str) -> String {
    match prefix {
        "" => key.to_owned(),
        prefix => format!("{prefix}.{key}"),
    }
}

/// Says what is near, or else what there is.
fn unknown(what: &str, given: &str, known: &[&str]) -> String {
    // letters that were left out, added or exchanged: a third of them at most
    let nearest = known
        .iter()
        .map(|name| (strsim::damerau_levenshtein(given, name), *name))
        .min()
        .filter(|(distance, name)| distance * 3 <= name.len().max(given.len()));
    match nearest {
        Some((_, nearest)) => format!("{what}; did you mean {nearest}?"),
        None => format!("{what}; there are {}", known.join(", ")),
    }
}

macro_rules! numbers {
    ($($method:ident $visit:ident $type:ty, $what:literal;)*) => {$(
        fn $method<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Fault> {
            match self.parsed::<$type>($what)? {
                Some(number) => visitor.$visit(number),
                None => self.deserialize_any(visitor),
            }
        }
    )*};
}

impl<'a> Deserializer<'a> for Reader<'a> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Fault> {
        let value = match self.value {
            ValueOrRoot::Root(dict) => {
                return visitor.visit_map(Entries {
                    layers: self.layers,
                    prefix: self.key,
                    entries: dict.iter(),
                    value: None,
                });
            }
            ValueOrRoot::Value(value) => value,
        };
        match value {
            Value::String(_, text) => visitor.visit_borrowed_str(text),
            Value::Char(_, character) => visitor.visit_char(*character),
            Value::Bool(_, flag) => visitor.visit_bool(*flag),
            Value::Num(_, Num::F32(number)) => visitor.visit_f32(*number),
            Value::Num(_, Num::F64(number)) => visitor.visit_f64(*number),
            Value::Num(_, number) => {
                let unsigned = number
                    .to_u128()
                    .and_then(|number| i128::try_from(number).ok());
                let number = number.to_i128().or(unsigned).unwrap_or(i128::MAX);
                match (u64::try_from(number), i64::try_from(number)) {
                    (Ok(number), _) => visitor.visit_u64(number),
                    (_, Ok(number)) => visitor.visit_i64(number),
                    _ => Err(de::Error::custom("is a number beyond 64 bits")),
                }
            }
            Value::Empty(_, Empty::None | Empty::Unit) => visitor.visit_unit(),
            Value::Dict(_, dict) => visitor.visit_map(Entries {
                layers: self.layers,
                prefix: self.key,
                entries: dict.iter(),
                value: None,
            }),
            Value::Array(_, values) => visitor.visit_seq(Items {
                layers: self.layers,
                key: self.key,
                values: values.iter(),
            }),
        }
    }

    numbers! {
        deserialize_bool visit_bool bool, "true or false";
        deserialize_u8 visit_u8 u8, "a number from 0 to 255";
        deserialize_u16 visit_u16 u16, "a number from 0 to 65535";
        deserialize_u32 visit_u32 u32, "a number from 0 to 4294967295";
        deserialize_u64 visit_u64 u64, "a whole number from 0";
        deserialize_i64 visit_i64 i64, "a whole number";
        deserialize_f64 visit_f64 f64, "a number";
    }

    fn deserialize_option<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.text() {
            // what TOML has no word for
            Some("none") => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    /// A list, or a text with commas.
    fn deserialize_seq<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.text() {
            None => self.deserialize_any(visitor),
            Some(text) => {
                let parts = text
                    .split(',')
                    .map(str::trim)
                    .filter(|part| !part.is_empty());
                visitor.visit_seq(SeqDeserializer::new(parts.map(Text)))
            }
        }
    }

    fn deserialize_struct<V: Visitor<'a>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        match name {
            // as std's is read by serde
            "Duration" => {
                let example =
                    "it must be a time with its unit, such as \"500ms\", \"2s\" or \"1h 30m\"";
                let Some(text) = self.text() else {
                    return Err(de::Error::custom(format!("is no text: {example}")));
                };
                let duration = humantime::parse_duration(text).map_err(|error| {
                    de::Error::custom(format!("is {text:?} ({error}): {example}"))
                })?;
                let parts = [duration.as_secs(), duration.subsec_nanos().into()];
                visitor.visit_seq(SeqDeserializer::new(parts.into_iter()))
            }
            _ => self.fields(fields, visitor),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'a>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        if name == secret::NAME
            && !matches!(
                self.layers.place_of(&self.key, self.tag()),
                Place::Environment(_)
            )
        {
            return Err(de::Error::custom(
                "is a secret: put it into a file of its own and name that with the key that ends in _file, \
                 or into the environment",
            ));
        }
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'a>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        match self.text() {
            Some(text) if variants.contains(&text) => {
                visitor.visit_enum(StrDeserializer::<Fault>::new(text))
            }
            Some(text) => Err(de::Error::custom(unknown(
                &format!("can't be {text:?}"),
                text,
                variants,
            ))),
            None => Err(de::Error::custom(format!(
                "must be one of {}",
                variants.join(", ")
            ))),
        }
    }

    forward_to_deserialize_any! {
        <V: Visitor<'a>>
        i8 i16 i32 i128 u128 f32 char str string bytes byte_buf unit unit_struct tuple tuple_struct map
        identifier ignored_any
    }
}

/// One part of a list that was written as a text.
struct Text<'a>(&'a str);

impl<'a> IntoDeserializer<'a, Fault> for Text<'a> {
    type Deserializer = StringDeserializer<Fault>;

    fn into_deserializer(self) -> Self::Deserializer {
        self.0.to_owned().into_deserializer()
    }
}

struct Entries<'a> {
    layers: &'a Layers,
    prefix: String,
    entries: std::collections::btree_map::Iter<'a, String, Value>,
    value: Option<(String, &'a Value)>,
}

impl<'a> MapAccess<'a> for Entries<'a> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'a>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Fault> {
        let Some((key, value)) = self.entries.next() else {
            return Ok(None);
        };
        self.value = Some((join(&self.prefix, key), value));
        seed.deserialize(StrDeserializer::new(key)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'a>>(&mut self, seed: V) -> Result<V::Value, Fault> {
        let Some((key, value)) = self.value.take() else {
            return Err(de::Error::custom("a value without a key"));
        };
        let reader = Reader {
            layers: self.layers,
            key: key.clone(),
            value: ValueOrRoot::Value(value),
        };
        seed.deserialize(reader)
            .map_err(|fault| fault.within(&key, value.tag()))
    }
}

struct Items<'a> {
    layers: &'a Layers,
    key: String,
    values: std::slice::Iter<'a, Value>,
}

impl<'a> SeqAccess<'a> for Items<'a> {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'a>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Fault> {
        let Some(value) = self.values.next() else {
            return Ok(None);
        };
        let reader = Reader {
            layers: self.layers,
            key: self.key.clone(),
            value: ValueOrRoot::Value(value),
        };
        seed.deserialize(reader).map(Some)
    }
}
