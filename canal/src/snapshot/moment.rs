//! The moment at which rows were read, and which changes are behind it. A machine: no clock, no I/O.

use serde::{Deserialize, Serialize};

use crate::entry::Position;

/// A moment of the database: where its binlog was when a snapshot of its tables began.
///
/// What the binlog has before this place is in the snapshot, and what it has from there on is not.
/// But positions that come through Canal can't be taken at their word: after a quick rotation its
/// server names the file before together with offsets of the new one, so that a change behind the
/// moment looks like one before it. It would be lost. So times are looked at too: whoever takes a
/// moment sees to it that the binlog was not rotated between the seconds `from` and `until`. Then a
/// change that is executed within them and is of another file, or later than them, is behind the
/// moment whatever its position says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Moment {
    /// The binlog's file, and the bytes in it.
    pub(super) journal: String,
    pub(super) offset: i64,
    /// The database's seconds around the snapshot's beginning, in milliseconds since 1970.
    pub(super) from: i64,
    pub(super) until: i64,
}

impl Moment {
    /// Whether what is at this place is behind the moment. What comes after it in the stream is so
    /// too.
    pub(super) fn is_before(&self, position: &Position) -> bool {
        self.is_before_by_place(position)
            || position.execute_time > self.until
            || (position.execute_time >= self.from && position.journal != self.journal)
    }

    fn is_before_by_place(&self, position: &Position) -> bool {
        if position.journal == self.journal {
            return position.offset >= self.offset;
        }
        match (numbered(&position.journal), numbered(&self.journal)) {
            (Some((name, number)), Some((own_name, own_number))) => {
                name == own_name && number > own_number
            }
            _ => false,
        }
    }
}

/// `binlog.000007`: the name, and the number of the file, which grows beyond six digits.
fn numbered(journal: &str) -> Option<(&str, u64)> {
    let (name, number) = journal.rsplit_once('.')?;
    Some((name, number.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_700_000_000_000;

    fn moment() -> Moment {
        Moment {
            journal: "binlog.000009".to_owned(),
            offset: 500,
            from: SECOND,
            until: SECOND + 1000,
        }
    }

    fn position(journal: &str, offset: i64, execute_time: i64) -> Position {
        Position {
            journal: journal.to_owned(),
            offset,
            server_id: 1,
            execute_time,
        }
    }

    #[test]
    fn places_are_compared_by_file_and_offset() {
        let before = SECOND - 60_000;
        for (journal, offset, behind) in [
            ("binlog.000009", 499, false),
            ("binlog.000009", 500, true),
            ("binlog.000010", 4, true),
            ("binlog.1000000", 4, true),
            ("binlog.000008", 9999, false),
            ("", 0, false),
            ("other.000010", 4, false),
            ("binlog.x", 9999, false),
        ] {
            let position = position(journal, offset, before);
            assert_eq!(moment().is_before(&position), behind, "{position}");
        }
    }

    #[test]
    fn a_change_of_a_later_second_is_behind_whatever_its_position_says() {
        let moment = moment();
        for (journal, offset, time, behind) in [
            // Of the seconds around the moment, in the same file: its offset is right.
            ("binlog.000009", 4, SECOND, false),
            ("binlog.000009", 4, SECOND + 1000, false),
            // After a rotation: named as the file before, with an offset of the new one.
            ("binlog.000009", 4, SECOND + 2000, true),
            ("binlog.000008", 9000, SECOND, true),
            ("binlog.000008", 9000, SECOND - 1000, false),
            // Another server's binlog, after a fail-over of the database.
            ("replica.000001", 4, SECOND + 60_000, true),
        ] {
            let position = position(journal, offset, time);
            assert_eq!(moment.is_before(&position), behind, "{position} {time}");
        }
    }
}
