//! Where an entry lies in the database's log, for commands and dead letters.

use std::cmp::Ordering;
use std::fmt::{self, Write as _};

use lockkeeper_canal::{Columns, Entry};
use serde::{Deserialize, Serialize};

/// Characters of an entry's rows that are shown.
const SHOWN: usize = 2_000;

/// `JOURNAL:OFFSET`. Two places compare only if their journals are numbered files of one name. A
/// database that begins its log anew goes back in it: places order rows for a person's command, they
/// do not say which row it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CanalPlace {
    journal: String,
    offset: i64,
}

impl CanalPlace {
    pub(super) fn of(entry: &Entry) -> Self {
        let position = entry.position();
        Self {
            journal: position.journal,
            offset: position.offset,
        }
    }

    pub(super) fn read(text: &str) -> Option<Self> {
        let (journal, offset) = text.rsplit_once(':')?;
        Some(Self {
            journal: journal.to_owned(),
            offset: offset.parse().ok()?,
        })
    }

    /// The journal's name and its number.
    fn numbered(&self) -> Option<(&str, u64)> {
        let (name, number) = self.journal.rsplit_once('.')?;
        Some((name, number.parse().ok()?))
    }
}

impl fmt::Display for CanalPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.journal, self.offset)
    }
}

impl PartialOrd for CanalPlace {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        if self.journal == other.journal {
            return Some(self.offset.cmp(&other.offset));
        }
        match (self.numbered()?, other.numbered()?) {
            ((one, number), (another, other_number)) if one == another => {
                Some((number, self.offset).cmp(&(other_number, other.offset)))
            }
            _ => None,
        }
    }
}

/// What an entry holds, for a person.
pub(super) fn shown(entry: &Entry) -> String {
    let mut text = format!("{}.{}", entry.schema_name(), entry.table_name());
    match entry.row_change() {
        Ok(Some(change)) => {
            // Writing to a string can't fail.
            let _ = write!(text, " {:?}", change.event_type());
            if !change.sql().is_empty() {
                let _ = write!(text, " {}", change.sql());
            }
            for row in change.raw_rows() {
                if text.len() > SHOWN {
                    text.push_str(" …");
                    break;
                }
                let _ = write!(
                    text,
                    " [{}] -> [{}]",
                    columns(row.before()),
                    columns(row.after())
                );
            }
        }
        Ok(None) => {
            let _ = write!(text, " {:?}", entry.entry_type());
        }
        Err(error) => {
            let _ = write!(text, " {error}");
        }
    }
    text
}

fn columns(columns: Columns<'_>) -> String {
    let shown = columns.iter().map(|column| {
        let value = column.text().unwrap_or("NULL");
        format!("{}={value}", column.name())
    });
    shown.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_compare_within_one_log_and_not_beyond() {
        let place = |text| CanalPlace::read(text).unwrap();
        assert!(place("bin.000009:500") < place("bin.000010:4"));
        assert!(place("bin.000010:4") < place("bin.000010:30"));
        assert_eq!(place("a.000001:4").partial_cmp(&place("b.000001:4")), None);
        assert_eq!(
            place("other:4").partial_cmp(&place("other:5")),
            Some(Ordering::Less)
        );
        assert_eq!(CanalPlace::read("bin.000001"), None);
        assert_eq!(CanalPlace::read("bin.000001:x"), None);
    }
}
