//! One value of a scripted row.

use std::borrow::Cow;

/// The value of one column, as Canal sends it: a text, or null.
///
/// The text is what the real server would send (canal's own rules, see the value table of its
/// `LogEventConvert`): decimals plain, an enum as its 1-based index, times as `HH:MM:SS`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value<'a> {
    /// SQL's NULL.
    Null,
    /// The column is left out, as with `binlog_row_image=MINIMAL`.
    Absent,
    /// A text.
    Text(Cow<'a, str>),
    /// A number, sent as decimal text.
    Integer(i64),
    /// A number beyond `i64`, sent as decimal text.
    Unsigned(u64),
}

impl Value<'_> {
    /// The value of a blob or binary column: each byte becomes one character U+0000 to U+00FF.
    #[must_use]
    pub fn bytes(bytes: &[u8]) -> Value<'static> {
        Value::Text(bytes.iter().copied().map(char::from).collect())
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl<'a> From<&'a String> for Value<'a> {
    fn from(text: &'a String) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl From<String> for Value<'_> {
    fn from(text: String) -> Self {
        Self::Text(Cow::Owned(text))
    }
}

impl From<i32> for Value<'_> {
    fn from(number: i32) -> Self {
        Self::Integer(i64::from(number))
    }
}

impl From<i64> for Value<'_> {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

impl From<u32> for Value<'_> {
    fn from(number: u32) -> Self {
        Self::Integer(i64::from(number))
    }
}

impl From<u64> for Value<'_> {
    fn from(number: u64) -> Self {
        Self::Unsigned(number)
    }
}

impl<'a, T: Into<Value<'a>>> From<Option<T>> for Value<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}
