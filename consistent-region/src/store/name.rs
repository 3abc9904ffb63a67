//! Names of checkpoint objects: which round, which term, which attempt, whose state.

use std::fmt::Write as _;

use crate::protocol::{InstanceId, Stamp};

/// The longest name, in bytes: what file systems take, with room for a store's own suffix.
const LONGEST: usize = 200;

/// The name of `instance`'s state in the round `stamp`:
/// `<seq>.<term>.<attempt>.<operator>.<index>`, all numbers in decimal. Characters of the
/// operator's name other than ASCII letters, digits, `-` and `_` are written as `%` and two hex
/// digits for each byte of UTF-8.
#[must_use]
pub fn object_name(stamp: Stamp, instance: &InstanceId) -> String {
    let operator = plain_name(&instance.operator);
    let Stamp { term, seq, attempt } = stamp;
    format!("{seq}.{term}.{attempt}.{operator}.{}", instance.index)
}

/// `name` as a part of an object's name: see [`object_name`].
#[must_use]
pub(crate) fn plain_name(name: &str) -> String {
    let mut plain = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_' {
            plain.push(char::from(byte));
        } else {
            // Writing to a string can't fail.
            let _ = write!(plain, "%{byte:02x}");
        }
    }
    plain
}

/// What a name says about the round that wrote the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectName {
    /// The round.
    pub stamp: Stamp,
}

impl ObjectName {
    /// Reads a name; `None` when it is not of this region's making.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let mut parts = name.split('.');
        let mut number = || parts.next()?.parse().ok();
        let (seq, term, attempt) = (number()?, number()?, number()?);
        Some(Self {
            stamp: Stamp { term, seq, attempt },
        })
    }
}

/// What every store refuses as a name; `None` when it is good.
pub(super) fn fault(name: &str) -> Option<&'static str> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.%".contains(&byte);
    if name.is_empty() {
        Some("it is empty")
    } else if name.len() > LONGEST {
        Some("it is longer than 200 bytes")
    } else if name.starts_with('.') {
        Some("it begins with a dot")
    } else if !name.bytes().all(allowed) {
        Some("it holds something else than letters, digits, '-', '_', '.' and '%'")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_its_round_and_is_good_whatever_the_operator_is_called() {
        let stamp = Stamp {
            term: 3,
            seq: 1_192,
            attempt: 5,
        };
        let instance = InstanceId {
            operator: "Summe/Ä.1".to_owned(),
            index: 2,
        };
        let name = object_name(stamp, &instance);
        assert_eq!(name, "1192.3.5.Summe%2f%c3%84%2e1.2");
        assert_eq!(fault(&name), None);
        assert_eq!(ObjectName::parse(&name), Some(ObjectName { stamp }));
        assert_eq!(ObjectName::parse("1,192.3.5.a.0"), None);
    }

    #[test]
    fn names_that_lead_out_of_the_folder_are_refused() {
        for bad in ["", "..", ".hidden", "a/b", "a\0b", "ä", &"x".repeat(201)] {
            assert!(fault(bad).is_some(), "{bad:?}");
        }
    }
}
