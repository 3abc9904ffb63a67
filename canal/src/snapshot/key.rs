//! Primary keys, in the database's order.
//!
//! Which rows a chunk has is decided by comparing keys here as the database does. So only types
//! are keys whose order is known: see [`KeyKind`].

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use crate::protocol::generated::entry as wire;

/// How a key's column is read and ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum KeyKind {
    /// `tinyint` to `bigint`.
    Signed,
    /// The same, unsigned; `year`.
    Unsigned,
    /// `varbinary`, and `binary`, whose zeros at the end do not count.
    Bytes,
    /// Characters of a binary collation, ordered by their UTF-8 bytes.
    Text,
    /// The same where blanks at the end do not count, as in most of MySQL's collations.
    PaddedText,
    /// `date` and `datetime`, ordered as their texts.
    Moment,
}

/// A column of a primary key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeyColumn {
    pub(crate) name: String,
    pub(crate) kind: KeyKind,
}

/// A primary key's value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Key(pub(crate) Vec<KeyValue>);

/// One column of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum KeyValue {
    Signed(i64),
    Unsigned(u64),
    Bytes(Vec<u8>),
    Text(String),
    PaddedText(String),
}

impl KeyValue {
    /// Reads the text of a column as Canal writes it.
    fn parse(kind: KeyKind, text: &str) -> Option<Self> {
        match kind {
            KeyKind::Signed => text.parse().ok().map(Self::Signed),
            KeyKind::Unsigned => text.parse().ok().map(Self::Unsigned),
            KeyKind::Bytes => {
                let bytes = text
                    .chars()
                    .map(|letter| u8::try_from(u32::from(letter)).ok());
                let mut bytes = bytes.collect::<Option<Vec<u8>>>()?;
                while bytes.last() == Some(&0) {
                    bytes.pop();
                }
                Some(Self::Bytes(bytes))
            }
            KeyKind::Text | KeyKind::Moment => Some(Self::Text(text.to_owned())),
            KeyKind::PaddedText => Some(Self::PaddedText(text.to_owned())),
        }
    }
}

impl Ord for KeyValue {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Signed(a), Self::Signed(b)) => a.cmp(b),
            (Self::Unsigned(a), Self::Unsigned(b)) => a.cmp(b),
            (Self::Bytes(a), Self::Bytes(b)) => a.cmp(b),
            (Self::Text(a), Self::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
            (Self::PaddedText(a), Self::PaddedText(b)) => padded(a.as_bytes(), b.as_bytes()),
            // Of one column all values are of one kind.
            (a, b) => a.rank().cmp(&b.rank()),
        }
    }
}

impl KeyValue {
    fn rank(&self) -> u8 {
        match self {
            Self::Signed(_) => 0,
            Self::Unsigned(_) => 1,
            Self::Bytes(_) => 2,
            Self::Text(_) => 3,
            Self::PaddedText(_) => 4,
        }
    }
}

/// The shorter text counts as if blanks followed.
fn padded(a: &[u8], b: &[u8]) -> Ordering {
    let length = a.len().max(b.len());
    let filled = |text: &[u8]| {
        let blanks = std::iter::repeat_n(b' ', length - text.len());
        text.iter().copied().chain(blanks).collect::<Vec<_>>()
    };
    filled(a).cmp(&filled(b))
}

impl PartialOrd for KeyValue {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for KeyValue {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for KeyValue {}

impl Key {
    /// The key of a row; `None` if a column is missing, NULL, or no value of its kind.
    pub(crate) fn of(columns: &[KeyColumn], row: &[wire::Column]) -> Option<Self> {
        let values = columns.iter().map(|key| {
            let column = row
                .iter()
                .find(|column| column.name == key.name.as_bytes())?;
            if column.is_null.unwrap_or(false) {
                return None;
            }
            KeyValue::parse(key.kind, std::str::from_utf8(&column.value).ok()?)
        });
        values.collect::<Option<Vec<_>>>().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(kind: KeyKind, text: &str) -> KeyValue {
        KeyValue::parse(kind, text).unwrap()
    }

    #[test]
    fn keys_are_ordered_as_the_database_orders_them() {
        for (kind, sorted) in [
            (
                KeyKind::Signed,
                ["-9223372036854775808", "-1", "9", "10"].as_slice(),
            ),
            (KeyKind::Unsigned, &["0", "9", "10", "18446744073709551615"]),
            (
                KeyKind::Bytes,
                &["", "\u{1}", "a", "a\u{1}", "\u{80}", "\u{ff}"],
            ),
            (KeyKind::Text, &["", "B", "a", "a ", "aa", "ä", "漢", "🚀"]),
            (
                KeyKind::PaddedText,
                &["", "\u{21}", "a\u{1}", "a", "a!", "aa"],
            ),
            (KeyKind::Moment, &["0000-00-00", "2024-02-29", "2024-03-01"]),
        ] {
            for (a, first) in sorted.iter().enumerate() {
                for (b, second) in sorted.iter().enumerate() {
                    let ordering = value(kind, first).cmp(&value(kind, second));
                    assert_eq!(ordering, a.cmp(&b), "{kind:?} {first:?} {second:?}");
                }
            }
        }
        assert_eq!(
            value(KeyKind::PaddedText, "a"),
            value(KeyKind::PaddedText, "a  ")
        );
        assert_eq!(
            value(KeyKind::Bytes, "a"),
            value(KeyKind::Bytes, "a\u{0}\u{0}")
        );
    }

    #[test]
    fn what_is_no_key_is_none() {
        let columns = [KeyColumn {
            name: "id".to_owned(),
            kind: KeyKind::Unsigned,
        }];
        let column = |name: &'static str, value: &'static str, null| wire::Column {
            name: name.into(),
            value: value.into(),
            is_null: Some(null),
            ..wire::Column::default()
        };
        assert!(
            Key::of(
                &columns,
                &[column("x", "1", false), column("id", "7", false)]
            )
            .is_some()
        );
        for row in [
            vec![],
            vec![column("x", "1", false)],
            vec![column("id", "", true)],
            vec![column("id", "-1", false)],
            vec![column("id", "seven", false)],
        ] {
            assert_eq!(Key::of(&columns, &row), None);
        }
        assert!(KeyValue::parse(KeyKind::Bytes, "\u{100}").is_none());
    }
}
