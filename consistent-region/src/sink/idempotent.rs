//! A sink for what takes outputs one by one and recognises those that it has.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io::Read;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::{SinkOperator, TwoPhaseSink};
use crate::manifest::ObjectRecord;
use crate::operator::{Committer, Cut, InstanceContext, OperatorError, Tuple};
use crate::store::{CheckpointStore, Encoding, StoreError, read_state, write_state};

/// Which output it is: the same each time that it is delivered, and never that of another one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OutputId {
    /// The region's name.
    pub region: Arc<str>,
    /// The operator's name and, after a dot, the instance's index.
    pub sink: Arc<str>,
    /// The cut.
    pub seq: u64,
    /// Counts the outputs of the cut from 0.
    pub number: u64,
}

impl fmt::Display for OutputId {
    /// `region/sink/seq/number`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}/{}/{}/{}",
            self.region, self.sink, self.seq, self.number
        )
    }
}

/// What became of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// The target has it now.
    Taken,
    /// The target had it before: it was delivered by a process that died before it could say so.
    Duplicate,
}

/// A system outside that recognises a repeated output by its id: a queue that removes duplicates, a
/// table with the id as its key, a service that takes an idempotency key.
pub trait IdempotentTarget<T>: Send + Sync + 'static {
    /// Delivers one output and waits until it lasts. Runs on a blocking pool. Outputs come in the
    /// order of their ids, except that a cut may begin anew with its first.
    ///
    /// # Errors
    /// [`OperatorError::Retry`]: the region is reset and the cut is delivered again from its first
    /// output. [`OperatorError::Permanent`]: the region fails.
    fn deliver(&self, id: &OutputId, tuple: &T) -> Result<Delivery, OperatorError>;
}

/// An end operator that delivers the tuples of each complete cut to an [`IdempotentTarget`].
///
/// The tuples of a cut lie in `store` from before its manifest is published until they are
/// delivered, so that each has the same id and content whenever it is delivered. A delivery that is
/// interrupted is repeated from the cut's first tuple: the target sees some twice and has each once.
/// Nothing is delivered of a cut that was given up, and what was delivered is never taken back: a
/// region does not fall back below it.
///
/// When not to use it: where the target can take a whole cut in one transaction
/// ([`TwoPhaseSink`]) that is cheaper and shows no part of a cut.
pub type IdempotentSink<T> = SinkOperator<IdempotentOutput<T>>;

/// Where an [`IdempotentSink`] delivers, and where it keeps what is not delivered yet.
pub struct IdempotentOutput<T> {
    store: Arc<dyn CheckpointStore>,
    target: Arc<dyn IdempotentTarget<T>>,
    region: Arc<str>,
    sink: Arc<str>,
    /// Begins the names of this instance's objects. No name of a checkpoint begins with a letter:
    /// the region's own tidying leaves these alone.
    prefix: String,
    duplicates: AtomicU64,
    /// Marks of delivered cuts that this instance has made, oldest first.
    marks: Mutex<VecDeque<String>>,
}

/// Marks that are kept: more than cuts are ever retained, since those may be restored.
const KEPT_MARKS: usize = 64;

/// What a cut's manifest says of a staged output.
#[derive(Debug, Serialize, Deserialize)]
struct Token {
    staged: String,
    delivered: String,
    length: u64,
    crc32: u32,
    encoding: Encoding,
}

impl<T: Tuple> SinkOperator<IdempotentOutput<T>> {
    /// A sink that delivers to `target` and keeps what is not delivered in `store`: the region's own,
    /// or one that all its workers reach as well.
    pub fn new(
        context: InstanceContext,
        store: Arc<dyn CheckpointStore>,
        target: Arc<dyn IdempotentTarget<T>>,
    ) -> Self {
        let instance = context.instance();
        let sink: Arc<str> = format!("{}.{}", instance.operator, instance.index).into();
        let output = IdempotentOutput {
            store,
            target,
            region: context.region_name().into(),
            prefix: format!("outbox-{}.", crate::store::plain_name(&sink)),
            sink,
            duplicates: AtomicU64::new(0),
            marks: Mutex::default(),
        };
        SinkOperator::of(context, output)
    }
}

impl<T> IdempotentOutput<T> {
    /// How many outputs the target had before, since this instance was started.
    #[must_use]
    pub fn duplicates(&self) -> u64 {
        self.duplicates.load(Ordering::Relaxed)
    }

    fn record(&self, token: &Token) -> ObjectRecord {
        ObjectRecord {
            instance: crate::protocol::InstanceId {
                operator: self.sink.to_string(),
                index: 0,
            },
            object: token.staged.clone(),
            length: token.length,
            crc32: token.crc32,
            state_type: "lockkeeper.outbox".to_owned(),
            state_version: 1,
            encoding: token.encoding,
            base: Vec::new(),
        }
    }

    fn is_delivered(&self, token: &Token) -> Result<bool, OperatorError> {
        match self.store.read_object(&token.delivered) {
            Ok(mut mark) => {
                let mut bytes = Vec::new();
                mark.read_to_end(&mut bytes)?;
                Ok(true)
            }
            Err(StoreError::Missing { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

impl<T> IdempotentOutput<T> {
    /// Remembers a mark; gives those that are not needed any more.
    fn outlived(&self, mark: String) -> Vec<String> {
        let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        marks.push_back(mark);
        let more = marks.len().saturating_sub(KEPT_MARKS);
        marks.drain(..more).collect()
    }
}

/// The cut of the mark that is called so after the instance's prefix.
fn delivered_seq(rest: &str) -> Option<u64> {
    rest.strip_prefix("delivered.")?
        .split('.')
        .next()?
        .parse()
        .ok()
}

impl<T> fmt::Debug for IdempotentOutput<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdempotentOutput")
            .field("store", &self.store.location())
            .field("region", &self.region)
            .field("sink", &self.sink)
            .finish_non_exhaustive()
    }
}

impl<T: Tuple> TwoPhaseSink for IdempotentOutput<T> {
    type Tuple = T;

    fn stage(&self, cut: Cut, tuples: Vec<T>) -> Result<Vec<u8>, OperatorError> {
        let Cut {
            seq, term, attempt, ..
        } = cut;
        let staged = format!("{}staged.{seq}.{term}.{attempt}", self.prefix);
        let delivered = format!("{}delivered.{seq}.{term}.{attempt}", self.prefix);
        let write = |mut to: &mut dyn std::io::Write| {
            rmp_serde::encode::write(&mut to, &tuples).map_err(std::io::Error::other)
        };
        let (written, encoding) = write_state(self.store.as_ref(), &staged, write)?;
        let token = Token {
            staged,
            delivered,
            length: written.length,
            crc32: written.crc32,
            encoding,
        };
        serde_json::to_vec(&token).map_err(|error| OperatorError::Permanent(error.to_string()))
    }
}

impl<T: Tuple> Committer for IdempotentOutput<T> {
    fn commit(&self, seq: u64, token: &[u8]) -> Result<(), OperatorError> {
        let token: Token = serde_json::from_slice(token).map_err(|error| {
            OperatorError::Permanent(format!("the token is none of an idempotent sink: {error}"))
        })?;
        if self.is_delivered(&token)? {
            return Ok(());
        }
        let staged = match read_state(self.store.as_ref(), &self.record(&token)) {
            Ok(staged) => staged,
            Err(error @ (StoreError::Missing { .. } | StoreError::Damaged { .. })) => {
                return Err(OperatorError::Permanent(format!(
                    "the output of cut {seq} can't be delivered: {error}"
                )));
            }
            Err(error) => return Err(error.into()),
        };
        let tuples: Vec<T> = rmp_serde::from_slice(&staged)
            .map_err(|error| OperatorError::Permanent(format!("the output of {seq}: {error}")))?;
        let mut id = OutputId {
            region: Arc::clone(&self.region),
            sink: Arc::clone(&self.sink),
            seq,
            number: 0,
        };
        let mut duplicates = 0;
        for tuple in &tuples {
            if self.target.deliver(&id, tuple)? == Delivery::Duplicate {
                duplicates += 1;
            }
            id.number += 1;
        }
        if duplicates > 0 {
            self.duplicates.fetch_add(duplicates, Ordering::Relaxed);
            tracing::info!(sink = %self.sink, seq, duplicates, "the target had outputs before");
        }
        match self.store.write_object(&token.delivered, &mut |_| Ok(())) {
            // A process that was taken for dead delivered the same: the target has each once.
            Ok(_) | Err(StoreError::Exists { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        self.store.remove_object(&token.staged)?;
        for mark in self.outlived(token.delivered) {
            self.store.remove_object(&mark)?;
        }
        Ok(())
    }

    fn abort_all_except(&self, retained: &[Vec<u8>]) -> Result<(), OperatorError> {
        let kept: Vec<Token> = retained
            .iter()
            .filter_map(|token| serde_json::from_slice(token).ok())
            .collect();
        let mut marks = BTreeMap::new();
        for name in self.store.list_objects()? {
            let Some(rest) = name.strip_prefix(&self.prefix) else {
                continue;
            };
            if let Some(seq) = delivered_seq(rest) {
                marks.insert(seq, name);
            } else if !kept.iter().any(|token| token.staged == name) {
                self.store.remove_object(&name)?;
            }
        }
        let more = marks.len().saturating_sub(KEPT_MARKS);
        for mark in marks.into_values().take(more) {
            self.store.remove_object(&mark)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator::{Operator, Output};
    use crate::store::MemoryStore;

    /// Takes each id once; fails when it has no more patience.
    #[derive(Default)]
    struct Shelf {
        taken: Mutex<BTreeMap<String, u32>>,
        patience: Mutex<Option<usize>>,
    }

    impl IdempotentTarget<u32> for Shelf {
        fn deliver(&self, id: &OutputId, tuple: &u32) -> Result<Delivery, OperatorError> {
            let mut patience = self.patience.lock().unwrap();
            match patience.as_mut() {
                Some(0) => return Err(OperatorError::Retry("not now".to_owned())),
                Some(left) => *left -= 1,
                None => {}
            }
            let before = self.taken.lock().unwrap().insert(id.to_string(), *tuple);
            match before {
                None => Ok(Delivery::Taken),
                Some(before) if before == *tuple => Ok(Delivery::Duplicate),
                Some(before) => panic!("{id} was {before} and is {tuple}"),
            }
        }
    }

    fn sink(store: &MemoryStore, shelf: &Arc<Shelf>) -> IdempotentSink<u32> {
        let (store, target) = (Arc::new(store.clone()), Arc::clone(shelf) as _);
        IdempotentSink::new(InstanceContext::alone("shelf"), store, target)
    }

    fn staged(sink: &mut IdempotentSink<u32>, seq: u64, tuples: Vec<u32>) -> Vec<u8> {
        let cut = Cut {
            seq,
            term: 1,
            attempt: 1,
            completed: 0,
            last: false,
        };
        sink.process(tuples, &mut Output::new()).unwrap();
        sink.prepare(cut).unwrap().stage.unwrap()().unwrap()
    }

    #[test]
    fn an_interrupted_delivery_is_repeated_and_its_duplicates_are_counted() {
        let (store, shelf) = (MemoryStore::new(), Arc::new(Shelf::default()));
        let mut first = sink(&store, &shelf);
        let token = staged(&mut first, 7, vec![10, 11, 12]);
        assert!(shelf.taken.lock().unwrap().is_empty(), "not before the cut");
        *shelf.patience.lock().unwrap() = Some(2);
        let failed = first.sink().commit(7, &token).unwrap_err();
        assert!(matches!(failed, OperatorError::Retry(_)), "{failed}");

        *shelf.patience.lock().unwrap() = None;
        let successor = sink(&store, &shelf);
        successor.sink().commit(7, &token).unwrap();
        assert_eq!(successor.sink().duplicates(), 2);
        let taken: Vec<_> = shelf.taken.lock().unwrap().clone().into_iter().collect();
        let expected = [10, 11, 12].map(|n| (format!("alone/shelf.0/7/{}", n - 10), n));
        assert_eq!(taken, expected);

        // Repeated after a restore: not even the target is asked.
        *shelf.patience.lock().unwrap() = Some(0);
        successor.sink().commit(7, &token).unwrap();
    }

    #[test]
    fn what_was_given_up_is_removed_and_never_delivered() {
        let (store, shelf) = (MemoryStore::new(), Arc::new(Shelf::default()));
        let mut sink = sink(&store, &shelf);
        let kept = staged(&mut sink, 7, vec![1]);
        let lost = staged(&mut sink, 8, vec![2]);
        store
            .write_object("8.1.1.other.0", &mut |_| Ok(()))
            .unwrap();
        sink.sink()
            .abort_all_except(std::slice::from_ref(&kept))
            .unwrap();
        sink.sink().commit(7, &kept).unwrap();
        let error = sink.sink().commit(8, &lost).unwrap_err();
        assert!(matches!(error, OperatorError::Permanent(_)), "{error}");
        assert_eq!(shelf.taken.lock().unwrap().len(), 1);
        assert_eq!(
            store.list_objects().unwrap(),
            ["8.1.1.other.0", "outbox-shelf%2e0.delivered.7.1.1"]
        );
    }

    #[test]
    fn marks_of_delivered_cuts_do_not_pile_up() {
        let (store, shelf) = (MemoryStore::new(), Arc::new(Shelf::default()));
        let mut sink = sink(&store, &shelf);
        for seq in 1..=100 {
            let token = staged(&mut sink, seq, vec![1]);
            sink.sink().commit(seq, &token).unwrap();
        }
        assert_eq!(store.list_objects().unwrap().len(), KEPT_MARKS);
        assert_eq!(shelf.taken.lock().unwrap().len(), 100);
    }
}
