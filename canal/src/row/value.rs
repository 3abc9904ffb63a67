//! serde over one column's value.

use std::borrow::Cow;
use std::str::FromStr;

use serde::de::value::{SeqDeserializer, StrDeserializer};
use serde::de::{self, Visitor};

use super::column::Column;
use super::content::Stretch;
use super::error::RowError;
use super::integer::plain;
use super::mysql_type::{Family, names};

/// One value. What it becomes is decided by what is asked for and by MySQL's type.
#[derive(Clone, Copy)]
pub(super) struct ValueDeserializer<'de> {
    column: Column<'de>,
    /// What is known of the row's texts.
    stretch: Stretch<'de>,
}

impl<'de> ValueDeserializer<'de> {
    pub(super) fn new(column: Column<'de>, stretch: Stretch<'de>) -> Self {
        Self { column, stretch }
    }

    fn is_null(self) -> bool {
        self.column.is_null()
    }

    fn mysql_type(self) -> &'de str {
        std::str::from_utf8(self.column.mysql_type_bytes()).unwrap_or_default()
    }

    fn family(self) -> Family {
        self.column.family()
    }

    /// The text as it came.
    #[inline]
    fn text(self, wanted: &str) -> Result<&'de str, RowError> {
        if self.is_null() {
            return Err(RowError::new(format!(
                "{wanted} is wanted: use an Option for NULL"
            )));
        }
        self.column
            .value_text(self.stretch)
            .ok_or_else(|| RowError::new("the value is not UTF-8"))
    }

    /// An integer, which is nearly always a plain one.
    #[inline]
    fn integer<N>(self, wanted: &str) -> Result<N, RowError>
    where
        N: FromStr<Err: std::fmt::Display> + TryFrom<i64>,
    {
        if !self.is_null()
            && let Some(number) = plain(self.column.value_bytes())
        {
            return Ok(number);
        }
        self.number(wanted)
    }

    /// A number, if the text is one of that type.
    fn number<N: FromStr<Err: std::fmt::Display>>(self, wanted: &str) -> Result<N, RowError> {
        let text = self.text(wanted)?;
        text.parse()
            .map_err(|error| RowError::new(format!("{wanted} is wanted: {error}")))
    }

    fn boolean(self) -> Result<bool, RowError> {
        match self.text("a bool")? {
            "0" => Ok(false),
            "1" => Ok(true),
            _ => Err(RowError::new("a bool is wanted: neither 0 nor 1")),
        }
    }

    /// The bytes of a blob, or a text's own.
    fn bytes(self) -> Result<Cow<'de, [u8]>, RowError> {
        let text = self.text("bytes")?;
        match self.family() {
            Family::Bytes => latin1(text),
            Family::FixedBytes(width) => {
                let mut bytes = latin1(text)?;
                if bytes.len() < width {
                    bytes.to_mut().resize(width, 0);
                }
                Ok(bytes)
            }
            Family::BytesAsText(width) if text.len() != width || text.contains('\u{FFFD}') => {
                Err(RowError::new(format!(
                    "bytes are wanted: the server takes this type for text and has destroyed \
                     some of its {width} bytes; use BINARY({width})"
                )))
            }
            _ => Ok(Cow::Borrowed(text.as_bytes())),
        }
    }

    /// The text as a person would write it: names instead of an enum's index or a set's bits, and
    /// a blob's bytes read as UTF-8.
    fn written(self) -> Result<Cow<'de, str>, RowError> {
        let text = self.text("text")?;
        match self.family() {
            Family::Enum => named(text, self.enum_name(text)),
            Family::Set => named(text, self.set_names(text)),
            Family::Bytes if text.is_ascii() => Ok(Cow::Borrowed(text)),
            Family::Bytes | Family::FixedBytes(_) | Family::BytesAsText(_) => {
                String::from_utf8(self.bytes()?.into_owned())
                    .map(Cow::Owned)
                    .map_err(|_| RowError::new("text is wanted: the bytes are not UTF-8"))
            }
            _ => Ok(Cow::Borrowed(text)),
        }
    }

    /// The name behind an enum's index; index 0 is the empty name of an invalid value.
    fn enum_name(self, text: &str) -> Option<String> {
        let index: usize = text.parse().ok()?;
        let Some(index) = index.checked_sub(1) else {
            return Some(String::new());
        };
        names(self.mysql_type()).into_iter().nth(index)
    }

    fn set_names(self, text: &str) -> Option<String> {
        let bits: u64 = text.parse().ok()?;
        let names = names(self.mysql_type());
        let known = names.len();
        let beyond = known < 64 && (bits >> known) != 0;
        let chosen = names
            .into_iter()
            .take(64)
            .enumerate()
            .filter(|(bit, _)| bits >> bit & 1 == 1)
            .map(|(_, name)| name);
        (!beyond).then(|| chosen.collect::<Vec<_>>().join(","))
    }
}

/// The bytes that characters up to U+00FF stand for.
fn latin1(text: &str) -> Result<Cow<'_, [u8]>, RowError> {
    if text.is_ascii() {
        return Ok(Cow::Borrowed(text.as_bytes()));
    }
    let bytes: Option<Vec<u8>> = text
        .chars()
        .map(|character| u8::try_from(u32::from(character)).ok())
        .collect();
    bytes.map(Cow::Owned).ok_or_else(|| {
        RowError::new("bytes are wanted: a character above U+00FF stands for no byte")
    })
}

/// An enum's or a set's names, or the number if there are none. The server reads a type's definition
/// with three bytes a character: longer ones have become question marks there.
fn named(text: &str, names: Option<String>) -> Result<Cow<'_, str>, RowError> {
    match names {
        Some(names) if names.contains('?') => Err(RowError::new(
            "a name is wanted, and the question mark in it may stand for a character of four \
             bytes that the server has lost; use the number",
        )),
        Some(names) => Ok(Cow::Owned(names)),
        None => Ok(Cow::Borrowed(text)),
    }
}

/// Implements `deserialize_*` for types that are read from the text.
macro_rules! numbers {
    ($($method:ident $visit:ident $read:ident $type:ty),* $(,)?) => {
        $(
            fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, RowError> {
                visitor.$visit(self.$read::<$type>(concat!("a number of type ", stringify!($type)))?)
            }
        )*
    };
}

impl<'de> de::Deserializer<'de> for ValueDeserializer<'de> {
    type Error = RowError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, RowError> {
        if self.is_null() {
            return visitor.visit_unit();
        }
        match self.family() {
            Family::Signed => self.deserialize_i64(visitor),
            Family::Unsigned => self.deserialize_u64(visitor),
            Family::Float => self.deserialize_f64(visitor),
            Family::Bytes | Family::FixedBytes(_) | Family::BytesAsText(_) => {
                self.deserialize_bytes(visitor)
            }
            Family::Text => visitor.visit_borrowed_str(self.text("text")?),
            Family::Enum | Family::Set => self.deserialize_str(visitor),
        }
    }

    numbers! {
        deserialize_i8 visit_i8 integer i8,
        deserialize_i16 visit_i16 integer i16,
        deserialize_i32 visit_i32 integer i32,
        deserialize_i64 visit_i64 integer i64,
        deserialize_i128 visit_i128 integer i128,
        deserialize_u8 visit_u8 integer u8,
        deserialize_u16 visit_u16 integer u16,
        deserialize_u32 visit_u32 integer u32,
        deserialize_u64 visit_u64 integer u64,
        deserialize_u128 visit_u128 integer u128,
        deserialize_f32 visit_f32 number f32,
        deserialize_f64 visit_f64 number f64,
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, RowError> {
        visitor.visit_bool(self.boolean()?)
    }

    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, RowError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, RowError> {
        match self.written()? {
            Cow::Borrowed(text) => visitor.visit_borrowed_str(text),
            Cow::Owned(text) => visitor.visit_string(text),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, RowError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, RowError> {
        match self.bytes()? {
            Cow::Borrowed(bytes) => visitor.visit_borrowed_bytes(bytes),
            Cow::Owned(bytes) => visitor.visit_byte_buf(bytes),
        }
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, RowError> {
        self.deserialize_bytes(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, RowError> {
        if self.is_null() {
            visitor.visit_none()
        } else {
            visitor.visit_some(self)
        }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, RowError> {
        if self.is_null() {
            return visitor.visit_unit();
        }
        Err(RowError::new("nothing is wanted and there is a value"))
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, RowError> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, RowError> {
        visitor.visit_newtype_struct(self)
    }

    /// `Vec<u8>` asks for a sequence.
    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, RowError> {
        let bytes = self.bytes()?;
        visitor.visit_seq(SeqDeserializer::new(bytes.iter().copied()))
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        _len: usize,
        visitor: V,
    ) -> Result<V::Value, RowError> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _len: usize,
        visitor: V,
    ) -> Result<V::Value, RowError> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, RowError> {
        Err(RowError::new(
            "a column holds one value: use #[serde(flatten)] or text",
        ))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, RowError> {
        self.deserialize_map(visitor)
    }

    /// An enum without fields, by name.
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, RowError> {
        let name = self.written()?;
        visitor.visit_enum(StrDeserializer::new(&name))
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, RowError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, RowError> {
        visitor.visit_unit()
    }
}
