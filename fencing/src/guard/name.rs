//! The names of a guard's records.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::GuardError;

pub(crate) const FENCES: &str = "fence-";
pub(crate) const BASES: &str = "base-";
pub(crate) const LINEAGES: &str = "lineage-";
pub(crate) const MANIFESTS: &str = "manifest-";
/// There as soon as any fence or base has been removed, and never removed itself.
pub(crate) const PRUNED: &str = "pruned";

const LONGEST: usize = 200;

/// Names one manifest: number `sequence`, written by the leader of `epoch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ManifestId {
    /// The number in the series.
    pub sequence: u64,
    /// The epoch of the leader that wrote it.
    pub epoch: u64,
}

impl ManifestId {
    /// The record's name in the store.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{MANIFESTS}{}.{}", self.sequence, self.epoch)
    }

    fn parse(name: &str) -> Option<Self> {
        let (sequence, epoch) = name.strip_prefix(MANIFESTS)?.split_once('.')?;
        Some(ManifestId {
            sequence: number(sequence)?,
            epoch: number(epoch)?,
        })
    }
}

impl fmt::Display for ManifestId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.sequence, self.epoch)
    }
}

pub(crate) fn fence(epoch: u64) -> String {
    format!("{FENCES}{epoch}")
}

pub(crate) fn base(epoch: u64) -> String {
    format!("{BASES}{epoch}")
}

pub(crate) fn lineage(number: u64) -> String {
    format!("{LINEAGES}{number}")
}

/// The numbers of fences, bases or lineages; what is not ours is passed over.
pub(crate) fn numbers<'a>(prefix: &'a str, names: &'a [String]) -> impl Iterator<Item = u64> + 'a {
    names
        .iter()
        .filter_map(move |name| number(name.strip_prefix(prefix)?))
}

pub(crate) fn manifests(names: &[String]) -> impl Iterator<Item = ManifestId> + '_ {
    names.iter().filter_map(|name| ManifestId::parse(name))
}

/// Only the spelling that we write: `+7` and `07` are somebody else's files.
fn number(text: &str) -> Option<u64> {
    let number: u64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

/// # Errors
/// [`GuardError::InvalidName`].
pub(crate) fn validate(name: &str) -> Result<(), GuardError> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let fits = !name.is_empty() && name.len() <= LONGEST && !name.starts_with('.');
    if fits && name.bytes().all(allowed) {
        Ok(())
    } else {
        Err(GuardError::InvalidName {
            name: name.chars().take(LONGEST).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_spelling_is_read() {
        let names = [
            "manifest-3.7",
            "manifest-03.7",
            "manifest-3",
            "manifest-3.7.tmp",
            "x",
        ];
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let found: Vec<_> = manifests(&names).collect();
        assert_eq!(
            found,
            [ManifestId {
                sequence: 3,
                epoch: 7
            }]
        );
        assert_eq!(found[0].name(), "manifest-3.7");
        let names = ["fence-1", "fence-+2", "fence-18446744073709551615"].map(String::from);
        assert_eq!(numbers(FENCES, &names).collect::<Vec<_>>(), [1, u64::MAX]);
    }

    #[test]
    fn a_name_cannot_leave_the_folder() {
        for name in ["", "..", ".hidden", "a/b", "a\\b", "a b", &"a".repeat(201)] {
            assert!(
                matches!(validate(name), Err(GuardError::InvalidName { .. })),
                "{name}"
            );
        }
        validate("manifest-3.7").unwrap();
    }
}
