//! The end operator around a two-phase sink: collects the tuples of a cut.

use std::fmt;
use std::sync::Arc;

use actix::{Actor, Context};

use super::TwoPhaseSink;
use crate::operator::{Committer, Cut, InstanceContext, Operator, OperatorError, Output, Prepared};

/// Tuples of a cut that are held in memory, unless told otherwise.
const MAX_TUPLES: usize = 1_000_000;

/// Collects the tuples of each cut and hands them to a [`TwoPhaseSink`].
///
/// A cut without tuples stages nothing. Not for cuts that do not fit in memory: the tuples of a cut
/// are held until it is staged.
pub struct SinkOperator<S: TwoPhaseSink> {
    context: InstanceContext,
    sink: Arc<S>,
    tuples: Vec<S::Tuple>,
    max_tuples: usize,
}

impl<S: TwoPhaseSink> SinkOperator<S> {
    /// An end operator that writes by `sink`.
    pub fn of(context: InstanceContext, sink: S) -> Self {
        Self {
            context,
            sink: Arc::new(sink),
            tuples: Vec::new(),
            max_tuples: MAX_TUPLES,
        }
    }

    /// How many tuples of a cut are held at most; 1,000,000 unless told otherwise. At half of that
    /// the sink asks for a cut; beyond it, it fails and the region is reset.
    #[must_use]
    pub fn max_tuples(mut self, max_tuples: usize) -> Self {
        self.max_tuples = max_tuples;
        self
    }

    /// The sink.
    #[must_use]
    pub fn sink(&self) -> &S {
        &self.sink
    }

    /// Changes the sink before the operator is started.
    pub(super) fn configure(&mut self, change: impl FnOnce(&mut S)) {
        // Nobody else has it before the first cut.
        if let Some(sink) = Arc::get_mut(&mut self.sink) {
            change(sink);
        }
    }
}

impl<S: TwoPhaseSink> fmt::Debug for SinkOperator<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SinkOperator")
            .field("context", &self.context)
            .field("tuples", &self.tuples.len())
            .finish_non_exhaustive()
    }
}

impl<S: TwoPhaseSink> Actor for SinkOperator<S> {
    type Context = Context<Self>;
}

impl<S: TwoPhaseSink> Operator for SinkOperator<S> {
    type Input = S::Tuple;
    type Output = ();

    fn process(&mut self, batch: Vec<S::Tuple>, _: &mut Output<()>) -> Result<(), OperatorError> {
        self.tuples.extend(batch);
        if self.tuples.len() > self.max_tuples {
            return Err(OperatorError::Retry(format!(
                "a cut has more than {} tuples: cut more often, or raise max_tuples",
                self.max_tuples
            )));
        }
        if self.tuples.len() > self.max_tuples / 2 {
            self.context.region().want_cut();
        }
        Ok(())
    }

    fn prepare(&mut self, cut: Cut) -> Result<Prepared, OperatorError> {
        let tuples = std::mem::take(&mut self.tuples);
        if tuples.is_empty() {
            return Ok(Prepared::default());
        }
        let sink = Arc::clone(&self.sink);
        Ok(Prepared {
            state: None,
            stage: Some(Box::new(move || sink.stage(cut, tuples))),
        })
    }

    fn reset_to_initial_state(&mut self) -> Result<(), OperatorError> {
        self.tuples.clear();
        Ok(())
    }

    fn committer(&self) -> Option<Arc<dyn Committer>> {
        Some(Arc::clone(&self.sink) as Arc<dyn Committer>)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[derive(Default)]
    struct Notes(Mutex<Vec<(u64, Vec<u32>)>>);

    impl Committer for Notes {
        fn commit(&self, _: u64, _: &[u8]) -> Result<(), OperatorError> {
            Ok(())
        }

        fn abort_all_except(&self, _: &[Vec<u8>]) -> Result<(), OperatorError> {
            Ok(())
        }
    }

    impl TwoPhaseSink for Notes {
        type Tuple = u32;

        fn stage(&self, cut: Cut, tuples: Vec<u32>) -> Result<Vec<u8>, OperatorError> {
            self.0.lock().unwrap().push((cut.seq, tuples));
            Ok(Vec::new())
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

    fn sink() -> SinkOperator<Notes> {
        SinkOperator::of(InstanceContext::alone("notes"), Notes::default())
    }

    #[test]
    fn a_cut_stages_its_own_tuples_and_an_empty_one_nothing() {
        let mut sink = sink();
        sink.process(vec![1, 2], &mut Output::new()).unwrap();
        let first = sink.prepare(cut(1)).unwrap();
        assert!(sink.prepare(cut(2)).unwrap().stage.is_none());
        // Tuples of the next cut come while the one before is not staged yet.
        sink.process(vec![3], &mut Output::new()).unwrap();
        first.stage.unwrap()().unwrap();
        sink.prepare(cut(3)).unwrap().stage.unwrap()().unwrap();
        let staged = sink.sink().0.lock().unwrap().clone();
        assert_eq!(staged, [(1, vec![1, 2]), (3, vec![3])]);
    }

    #[test]
    fn a_reset_forgets_the_tuples_of_the_open_cut() {
        let mut sink = sink();
        sink.process(vec![1, 2], &mut Output::new()).unwrap();
        sink.reset_to_initial_state().unwrap();
        assert!(sink.prepare(cut(1)).unwrap().stage.is_none());
    }

    #[test]
    fn a_cut_that_is_too_large_is_an_error_that_names_the_limit() {
        let mut sink = sink().max_tuples(3);
        sink.process(vec![1, 2, 3], &mut Output::new()).unwrap();
        let error = sink.process(vec![4], &mut Output::new()).unwrap_err();
        assert!(error.to_string().contains("more than 3 tuples"), "{error}");
    }
}
