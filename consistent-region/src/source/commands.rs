//! What an operator of the system tells a source that can't get on: try again, or go on further down.
//!
//! A [`retry`] is a forced reset. A skip is an object in the region's store, which the source finds at
//! its next reset and remembers in its state, so that it holds for every process and is undone by
//! none: write it, then retry.

use std::cmp::Ordering;
use std::io::Read;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;
use uuid::Uuid;

use crate::coordinator::{CommandRefused, CoordinatorHandle};
use crate::operator::{InstanceContext, OperatorError};
use crate::protocol::InstanceId;
use crate::store::{CheckpointStore, StoreError, plain_name};

/// Rows that one skip leaves out at most, unless told otherwise.
pub const SKIP_LIMIT: u64 = 10_000;

/// Takes a failed region up again: a forced reset, after what was wrong is mended or
/// [skipped](SourceCommands).
///
/// # Errors
/// When the region has ended, or is coordinated elsewhere.
pub async fn retry(coordinator: &CoordinatorHandle) -> Result<(), CommandRefused> {
    coordinator.reset(true, "retry").await
}

/// Rows that a source is to leave out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skip {
    /// Names the command.
    pub id: Uuid,
    /// A place in the source's own words: `FILE:LINE`, `JOURNAL:OFFSET`.
    pub position: String,
    /// Which rows.
    pub rows: Skipped,
}

/// See [`Skip`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Skipped {
    /// The one at the position.
    Only,
    /// All that come before the position.
    Before {
        /// How many there may be; with one more the region fails, because the position may be wrong.
        limit: u64,
    },
}

/// Commands to the sources of the region whose store this is. All calls block.
#[derive(Debug, Clone)]
pub struct SourceCommands {
    store: Arc<dyn CheckpointStore>,
}

impl SourceCommands {
    /// For the region that keeps its checkpoints in `store`.
    pub fn new(store: Arc<dyn CheckpointStore>) -> Self {
        Self { store }
    }

    /// From its next reset on, the source leaves out the row at `position`, the one that a failed
    /// state names, and no other.
    ///
    /// # Errors
    /// Those of the store.
    pub fn skip(
        &self,
        source: &InstanceId,
        position: impl Into<String>,
    ) -> Result<Skip, StoreError> {
        self.give(source, position.into(), Skipped::Only)
    }

    /// From its next reset on, the source leaves out every row that comes before `position`, at most
    /// [`SKIP_LIMIT`]: also the good ones behind the cut that the region goes back to.
    ///
    /// # Errors
    /// Those of the store.
    pub fn skip_to(
        &self,
        source: &InstanceId,
        position: impl Into<String>,
    ) -> Result<Skip, StoreError> {
        let rows = Skipped::Before { limit: SKIP_LIMIT };
        self.give(source, position.into(), rows)
    }

    /// As the other two.
    ///
    /// # Errors
    /// Those of the store.
    pub fn give(
        &self,
        source: &InstanceId,
        position: String,
        rows: Skipped,
    ) -> Result<Skip, StoreError> {
        let skip = Skip {
            id: Uuid::new_v4(),
            position,
            rows,
        };
        let name = format!("{}{}", prefix(source), skip.id.simple());
        self.store.write_object(&name, &mut |to| {
            serde_json::to_writer(to, &skip).map_err(Into::into)
        })?;
        Ok(skip)
    }

    /// The commands to `source` that it has not carried out for good.
    ///
    /// # Errors
    /// Those of the store; [`StoreError::Damaged`] for a command that can't be read.
    pub fn pending(&self, source: &InstanceId) -> Result<Vec<Skip>, StoreError> {
        let prefix = prefix(source);
        let mut skips = Vec::new();
        for name in self.store.list_objects()? {
            if !name.starts_with(&prefix) {
                continue;
            }
            let mut bytes = Vec::new();
            let failed = |source| StoreError::Io {
                location: self.store.location(),
                name: name.clone(),
                source,
            };
            match self.store.read_object(&name) {
                Ok(mut object) => object.read_to_end(&mut bytes).map_err(failed)?,
                // Carried out meanwhile.
                Err(StoreError::Missing { .. }) => continue,
                Err(error) => return Err(error),
            };
            let skip = serde_json::from_slice(&bytes).map_err(|error| StoreError::Damaged {
                location: self.store.location(),
                name: name.clone(),
                what: format!("it is no command to a source: {error}"),
            })?;
            skips.push(skip);
        }
        Ok(skips)
    }

    /// Forgets a command.
    ///
    /// # Errors
    /// Those of the store.
    pub fn forget(&self, source: &InstanceId, id: Uuid) -> Result<(), StoreError> {
        let name = format!("{}{}", prefix(source), id.simple());
        self.store.remove_object(&name)
    }
}

/// The commands to the source of `context`, read off the arbiter.
pub(crate) async fn read(context: &InstanceContext) -> Result<Vec<Skip>, OperatorError> {
    let (store, instance) = (Arc::clone(context.store()), context.instance().clone());
    let read = spawn_blocking(move || SourceCommands::new(store).pending(&instance));
    match read.await {
        Ok(commands) => Ok(commands?),
        Err(error) => Err(OperatorError::Retry(format!(
            "the source's commands: {error}"
        ))),
    }
}

/// Forgets commands that are carried out for good. One that stays does no harm.
pub(crate) fn forget(context: &InstanceContext, outlived: Vec<Uuid>) {
    if outlived.is_empty() {
        return;
    }
    let commands = SourceCommands::new(Arc::clone(context.store()));
    let instance = context.instance().clone();
    spawn_blocking(move || {
        for id in outlived {
            if let Err(error) = commands.forget(&instance, id) {
                tracing::warn!(%error, "a command that is carried out stays");
            }
        }
    });
}

/// Begins the names of the commands to one source. No checkpoint's name begins with a letter.
fn prefix(source: &InstanceId) -> String {
    format!("skip-{}.{}-", plain_name(&source.operator), source.index)
}

/// The skips of a source as it goes through its rows: a pure machine. `P` is a place that can be
/// compared.
#[derive(Debug)]
pub(crate) struct Skipping<P> {
    open: Vec<(Skip, P)>,
    left_out: u64,
    /// Those that are over, with the cut that was the first to know so.
    over: Vec<Finished>,
}

/// A skip that is over; a part of a source's state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Finished {
    id: Uuid,
    cut: Option<u64>,
}

impl<P> Default for Skipping<P> {
    fn default() -> Self {
        Self {
            open: Vec::new(),
            left_out: 0,
            over: Vec::new(),
        }
    }
}

/// What becomes of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Passage {
    /// It is taken.
    Take,
    /// It is left out.
    LeaveOut,
    /// Too many were left out; the text says so.
    TooMany(String),
}

impl<P: PartialOrd> Skipping<P> {
    /// At the state that holds `over`; what else lies in the store is not known yet.
    pub(crate) fn restored(over: Vec<Finished>) -> Self {
        Self {
            over,
            ..Self::default()
        }
    }

    /// Takes up the commands that lie in the store. A position that can't be read is an error that
    /// names it.
    pub(crate) fn take_up(
        &mut self,
        commands: Vec<Skip>,
        read: impl Fn(&str) -> Option<P>,
    ) -> Result<(), String> {
        self.open.clear();
        self.left_out = 0;
        for skip in commands {
            if self.over.iter().any(|over| over.id == skip.id) {
                continue;
            }
            match read(&skip.position) {
                Some(place) => self.open.push((skip, place)),
                None => return Err(format!("{:?} is no position of this source", skip.position)),
            }
        }
        Ok(())
    }

    /// Whether every row is taken.
    #[cfg(feature = "canal")]
    pub(crate) fn is_idle(&self) -> bool {
        self.open.is_empty()
    }

    /// A row at `place` comes.
    pub(crate) fn pass(&mut self, place: &P) -> Passage {
        if self.open.is_empty() {
            return Passage::Take;
        }
        let (mut leaves_out, mut too_many) = (false, None);
        let (over, left_out) = (&mut self.over, &mut self.left_out);
        self.open.retain(|(skip, target)| {
            // Places that can't be compared, such as those of two partitions, mean nothing.
            let goes_on = match (skip.rows, place.partial_cmp(target)) {
                (Skipped::Only, Some(Ordering::Equal)) => {
                    leaves_out = true;
                    false
                }
                (Skipped::Before { limit }, Some(Ordering::Less)) => {
                    leaves_out = true;
                    *left_out += 1;
                    if *left_out > limit {
                        too_many = Some(skip.position.clone());
                    }
                    true
                }
                (Skipped::Only, Some(Ordering::Less)) | (_, None) => true,
                (_, Some(_)) => false,
            };
            if !goes_on {
                over.push(Finished {
                    id: skip.id,
                    cut: None,
                });
            }
            goes_on
        });
        match too_many {
            Some(position) => Passage::TooMany(format!(
                "{} rows were to be left out and {position} has not come: is that the right position?",
                self.left_out
            )),
            None if leaves_out => Passage::LeaveOut,
            None => Passage::Take,
        }
    }

    /// Those that are over, for going on with the same state.
    #[cfg(feature = "canal")]
    pub(crate) fn over(&self) -> Vec<Finished> {
        self.over.clone()
    }

    /// For the state of cut `seq`.
    pub(crate) fn at_cut(&mut self, seq: u64) -> Vec<Finished> {
        for over in &mut self.over {
            over.cut.get_or_insert(seq);
        }
        self.over.clone()
    }

    /// Commands that no cut that may be restored needs any more; they are given once.
    pub(crate) fn outlived(&mut self, oldest_retained: u64) -> Vec<Uuid> {
        let (outlived, over) = std::mem::take(&mut self.over)
            .into_iter()
            .partition(|over| over.cut.is_some_and(|cut| cut <= oldest_retained));
        self.over = over;
        let outlived: Vec<Finished> = outlived;
        outlived.into_iter().map(|over| over.id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::MemoryStore;

    fn source(index: u16) -> InstanceId {
        InstanceId {
            operator: "source".to_owned(),
            index,
        }
    }

    fn number(text: &str) -> Option<u64> {
        text.parse().ok()
    }

    fn skipping(over: Vec<Finished>, commands: Vec<Skip>) -> Skipping<u64> {
        let mut skipping = Skipping::restored(over);
        skipping.take_up(commands, number).unwrap();
        skipping
    }

    fn skip(position: &str, rows: Skipped) -> Skip {
        Skip {
            id: Uuid::new_v4(),
            position: position.to_owned(),
            rows,
        }
    }

    fn before(position: &str, limit: u64) -> Skip {
        skip(position, Skipped::Before { limit })
    }

    #[test]
    fn commands_lie_in_the_store_until_they_are_forgotten() {
        let store: Arc<dyn CheckpointStore> = Arc::new(MemoryStore::new());
        let commands = SourceCommands::new(Arc::clone(&store));
        let first = commands.skip_to(&source(1), "7").unwrap();
        let second = commands.skip(&source(11), "9").unwrap();
        assert_eq!(commands.pending(&source(1)).unwrap(), [first]);
        let [first] = commands.pending(&source(1)).unwrap().try_into().unwrap();
        assert_eq!(commands.pending(&source(11)).unwrap(), [second]);
        commands.forget(&source(1), first.id).unwrap();
        assert_eq!(commands.pending(&source(1)).unwrap(), []);
    }

    #[test]
    fn the_row_at_the_position_or_all_before_it_are_left_out_and_none_behind_it() {
        for (command, expected) in [
            (before("5", 100), vec![5, 6, 7]),
            (skip("5", Skipped::Only), vec![1, 2, 3, 4, 6, 7]),
        ] {
            let mut passing = skipping(Vec::new(), vec![command]);
            let taken: Vec<u64> = (1..8)
                .filter(|row| passing.pass(row) == Passage::Take)
                .collect();
            assert_eq!(taken, expected);
            // Positions that go back later are not left out again.
            for row in [1, 5] {
                assert_eq!(passing.pass(&row), Passage::Take);
            }
        }
    }

    #[test]
    fn a_position_that_does_not_come_is_noticed() {
        let commands = vec![before("1000", 3)];
        let mut passing = skipping(Vec::new(), commands);
        for row in 1..=3 {
            assert_eq!(passing.pass(&row), Passage::LeaveOut);
        }
        let Passage::TooMany(text) = passing.pass(&4) else {
            panic!("four rows were left out");
        };
        assert!(text.contains("1000 has not come"), "{text}");
        let unreadable = passing.take_up(vec![before("there", 3)], number);
        assert!(unreadable.unwrap_err().contains("there"));
    }

    #[test]
    fn a_skip_is_repeated_by_a_reset_to_before_it_and_by_no_other() {
        let commands = vec![before("5", 100)];
        let mut passing = skipping(Vec::new(), commands.clone());
        let before = passing.at_cut(1);
        assert_eq!(passing.pass(&4), Passage::LeaveOut);
        assert_eq!(passing.pass(&5), Passage::Take);
        let after = passing.at_cut(2);

        let mut again = skipping(before, commands.clone());
        assert_eq!(again.pass(&4), Passage::LeaveOut);
        let mut done = skipping(after, commands.clone());
        assert_eq!(done.pass(&4), Passage::Take);

        assert!(passing.outlived(1).is_empty());
        assert_eq!(passing.outlived(2), [commands[0].id]);
        assert!(passing.outlived(3).is_empty());
    }
}
