//! Rows that can't be taken: the region fails and names them, or they go to a dead-letter output that
//! is a part of the cut.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::commands::Passage;
use crate::operator::{Committer, Cut, InstanceContext, OperatorError, StageOutput};
use crate::sink::SinkFolder;

/// Characters of a row that an error and a dead letter keep.
const KEPT: usize = 1_000;

/// What a source does with a row that can't be made into tuples.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnBadRow {
    /// The region goes to its failed state, whose reason names the position and the row. After the
    /// cause was mended it goes on by a [`retry`](super::commands::retry), or without the row by
    /// [`SourceCommands::skip`](super::commands::SourceCommands::skip).
    #[default]
    Fail,
    /// The row goes to a file, and the region goes on. The file is `dead-letters-<operator>-<seq>.jsonl`,
    /// one for each cut that has any, one [`DeadLetter`] a line; it appears when its cut is
    /// complete, and goes back with the region: each row is there once.
    DeadLetter {
        /// Where the files appear: a folder that all workers share.
        folder: PathBuf,
        /// How many rows of a cut may be bad; with one more the region fails. Many bad rows mean
        /// that something else is wrong than the rows.
        limit_per_cut: u64,
    },
}

/// A row that was not taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLetter {
    /// Where it comes from: a file, a destination.
    pub source: String,
    /// Where it lies there, as the source's commands take it.
    pub position: String,
    /// The row as text, its first 1,000 characters.
    pub row: String,
    /// What is wrong with it.
    pub reason: String,
}

impl fmt::Display for DeadLetter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            source,
            position,
            row,
            reason,
        } = self;
        write!(f, "{source} at {position}: {reason}; the row: {row}")
    }
}

/// Shortens a row to what is kept of it.
pub(crate) fn shown(row: &str) -> String {
    match row.char_indices().nth(KEPT) {
        None => row.to_owned(),
        Some((end, _)) => format!("{}… ({} bytes)", &row[..end], row.len()),
    }
}

/// The dead letters of one instance since the last cut.
#[derive(Debug)]
pub(crate) struct DeadLetters {
    output: Option<Arc<SinkFolder>>,
    limit_per_cut: u64,
    letters: Vec<DeadLetter>,
}

impl DeadLetters {
    pub(crate) fn new(on_bad_row: &OnBadRow, context: &InstanceContext) -> Self {
        let (output, limit_per_cut) = match on_bad_row {
            OnBadRow::Fail => (None, 0),
            OnBadRow::DeadLetter {
                folder,
                limit_per_cut,
            } => {
                let prefix = format!("dead-letters-{}-", context.instance().operator);
                let folder = SinkFolder::of(context, folder.clone(), &prefix, ".jsonl");
                (Some(Arc::new(folder)), *limit_per_cut)
            }
        };
        Self {
            output,
            limit_per_cut,
            letters: Vec::new(),
        }
    }

    /// Takes a bad row, or says why the region can't go on with it.
    pub(crate) fn take(&mut self, letter: DeadLetter) -> Result<(), OperatorError> {
        if self.output.is_none() {
            return Err(OperatorError::Permanent(format!("a bad row: {letter}")));
        }
        if self.letters.len() as u64 >= self.limit_per_cut {
            let limit = self.limit_per_cut;
            return Err(OperatorError::Permanent(format!(
                "more than {limit} bad rows in one cut, the last one: {letter}"
            )));
        }
        tracing::warn!(%letter, "a bad row goes to the dead letters");
        self.letters.push(letter);
        Ok(())
    }

    /// Whether a row is taken. One that is not is remembered as left out.
    pub(crate) fn admit(
        &mut self,
        passage: Passage,
        letter: impl FnOnce(String) -> DeadLetter,
    ) -> Result<bool, OperatorError> {
        match passage {
            Passage::Take => Ok(true),
            Passage::LeaveOut => {
                self.leave_out(letter("left out by command".to_owned()));
                Ok(false)
            }
            Passage::TooMany(reason) => Err(OperatorError::Permanent(reason)),
        }
    }

    /// Takes a row that somebody wants left out; only a file of dead letters remembers it.
    fn leave_out(&mut self, letter: DeadLetter) {
        tracing::warn!(%letter, "a row is left out by command");
        if self.output.is_some() {
            self.letters.push(letter);
        }
    }

    pub(crate) fn clear(&mut self) {
        self.letters.clear();
    }

    /// What is left to do for a cut.
    pub(crate) fn prepare(&mut self, cut: Cut) -> Option<StageOutput> {
        let letters = std::mem::take(&mut self.letters);
        let folder = self.output.clone()?;
        if letters.is_empty() {
            return None;
        }
        Some(Box::new(move || {
            let staged = folder.staged_name(cut);
            let token = folder.stage(cut.seq, staged, |to| {
                for letter in &letters {
                    serde_json::to_writer(&mut *to, letter)?;
                    to.write_all(b"\n")?;
                }
                Ok(())
            })?;
            Ok(token)
        }))
    }

    pub(crate) fn committer(&self) -> Option<Arc<dyn Committer>> {
        let folder = self.output.clone()?;
        Some(folder as Arc<dyn Committer>)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letter(n: u64) -> DeadLetter {
        DeadLetter {
            source: "numbers.txt".to_owned(),
            position: n.to_string(),
            row: format!("row {n}"),
            reason: "no number".to_owned(),
        }
    }

    fn cut(seq: u64) -> Cut {
        Cut {
            seq,
            term: 1,
            attempt: 1,
            completed: seq - 1,
            last: false,
        }
    }

    #[test]
    fn the_failed_state_names_position_and_row() {
        let mut letters = DeadLetters::new(&OnBadRow::Fail, &InstanceContext::alone("source"));
        let error = letters.take(letter(7)).unwrap_err();
        assert!(matches!(error, OperatorError::Permanent(_)), "{error}");
        let text = error.to_string();
        assert!(
            text.contains("numbers.txt at 7: no number; the row: row 7"),
            "{text}"
        );
    }

    #[test]
    fn dead_letters_are_a_part_of_the_cut_and_have_a_limit() {
        let folder = tempfile::tempdir().unwrap();
        let on_bad_row = OnBadRow::DeadLetter {
            folder: folder.path().to_owned(),
            limit_per_cut: 2,
        };
        let mut letters = DeadLetters::new(&on_bad_row, &InstanceContext::alone("source"));
        for n in [1, 2] {
            letters.take(letter(n)).unwrap();
        }
        let error = letters.take(letter(3)).unwrap_err();
        assert!(
            error.to_string().contains("more than 2 bad rows"),
            "{error}"
        );

        let token = letters.prepare(cut(5)).unwrap()().unwrap();
        let file = folder.path().join("dead-letters-source-5.jsonl");
        assert!(!file.exists(), "the cut is not complete");
        let committer = letters.committer().unwrap();
        committer.commit(5, &token).unwrap();
        let text = std::fs::read_to_string(file).unwrap();
        let read: Vec<DeadLetter> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(read, [letter(1), letter(2)]);
        assert!(letters.prepare(cut(6)).is_none(), "each letter once");
    }

    #[test]
    fn a_long_row_is_shortened_at_a_character() {
        let row = "ä".repeat(2_000);
        let shown = shown(&row);
        assert!(
            shown.starts_with('ä') && shown.ends_with("… (4000 bytes)"),
            "{shown}"
        );
        assert_eq!(super::shown("short"), "short");
    }
}
