//! What an actor must be able to do to be an operator of a region.
//!
//! An operator stays an actix actor and may handle messages of its own. The region calls these
//! methods on the actor's own thread, never two at once. They must not block: writing state and
//! staging output are handed over as jobs ([`Prepared`]) that run on a blocking pool.

use std::fmt;
use std::io;
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task;
use std::task::Poll;

use crate::state::{Loaded, Loader, Rescale};
use actix::{Actor, Context};
use serde::Serialize;
use serde::de::DeserializeOwned;

mod context;
pub(crate) mod control;
mod jobs;
mod launch;
mod markers;
mod permit;
mod ports;
mod pump;
mod submission;

pub use context::InstanceContext;
pub(crate) use context::Place;
pub(crate) use launch::{InstanceHandle, Launch, launch};
pub(crate) use permit::{Gate, GateState};
pub use permit::{InstanceOver, MadeConsistent, Permit};
pub use ports::{AutonomousPort, ControlPort};
pub(crate) use ports::{OpenSide, open_autonomous, open_control};
#[cfg(test)]
pub(crate) use pump::{forget_polls, polls};
pub use submission::{Submissions, SubmitError, Submitter, submissions};

/// How a start operator is asked for tuples.
pub(crate) type Producer<A> = fn(
    &mut A,
    &mut task::Context<'_>,
    &mut Output<<A as Operator>::Output>,
    &RegionHandle,
) -> Poll<Result<Produced, OperatorError>>;

/// What flows over a stream between operators. Implemented for every type that fits.
pub trait Tuple: Serialize + DeserializeOwned + Send + Unpin + 'static {}
impl<T: Serialize + DeserializeOwned + Send + Unpin + 'static> Tuple for T {}

/// An operator: takes batches of tuples, gives tuples, and can save and restore its state.
///
/// All methods but [`process`](Self::process) have defaults that fit an operator without state.
/// Order of calls in a cut: every tuple before the cut → [`drain`](Self::drain) →
/// [`prepare`](Self::prepare) → the prepared jobs → (the whole region is complete)
/// [`region_checkpointed`](Self::region_checkpointed). An `Err` from any of them aborts the round
/// at once and resets the region.
pub trait Operator: Actor<Context = Context<Self>> + Unpin {
    /// What it takes; start operators take nothing: `()`.
    type Input: Tuple;
    /// What it gives; end operators give nothing: `()`.
    type Output: Tuple;

    /// Names the format of the state, for the check at restore.
    const STATE_TYPE: &'static str = "stateless";
    /// Version of that format; an unknown newer one is refused before any operator is touched.
    const STATE_VERSION: u32 = 1;
    /// The operator has threads or tasks of its own that ask for a [`Permit`]. Start operators need
    /// not say so.
    const USES_PERMITS: bool = false;

    /// What happens when the region is restored with another number of instances of the operator.
    const RESCALE: Rescale = Rescale::Refused;
    /// The oldest `STATE_VERSION` that the operator can read; older state is refused before any
    /// operator is touched. `version` of [`reset`](Self::reset) says which one is read.
    const OLDEST_STATE_VERSION: u32 = 1;

    /// Takes one batch. Whole batches are handed over in the order of their stream.
    fn process(
        &mut self,
        batch: Vec<Self::Input>,
        output: &mut Output<Self::Output>,
    ) -> Result<(), OperatorError>;

    /// The last tuple of the cut has been processed. What it emits belongs to the cut (S8).
    fn drain(&mut self, _output: &mut Output<Self::Output>) -> Result<(), OperatorError> {
        Ok(())
    }

    /// Takes the state of the cut. Must be quick: tuples wait for it. The jobs may take their time.
    fn prepare(&mut self, _cut: Cut) -> Result<Prepared, OperatorError> {
        Ok(Prepared::default())
    }

    /// What changed since the cut before, to be written instead of the whole state that
    /// [`prepare`](Self::prepare) has just given for the same cut. Asked only when the state of the
    /// cut `completed` and what changed up to it are in the store, and are together shorter than
    /// twice a whole state. `None`: the whole state is written.
    fn changes(&mut self, _cut: Cut) -> Result<Option<WriteState>, OperatorError> {
        Ok(None)
    }

    /// Reads saved state off the actor's thread and without holding its bytes in memory; what it
    /// made is given to [`loaded`](Self::loaded). Needed for state that is saved as changes
    /// ([`changes`](Self::changes)), restored at another width ([`RESCALE`](Self::RESCALE)), or
    /// large. `None`: the state is read whole, and given to [`reset`](Self::reset).
    fn loader(&self) -> Option<Loader> {
        None
    }

    /// Goes back to what the [`loader`](Self::loader) has read.
    fn loaded(&mut self, _state: Loaded) -> Result<(), OperatorError> {
        let why = "the operator has a loader, and does not take what it loads";
        Err(OperatorError::Permanent(why.to_owned()))
    }

    /// Goes back to a saved state. `version` is that of the writer.
    fn reset(&mut self, _state: &mut dyn Read, _version: u32) -> Result<(), OperatorError> {
        Ok(())
    }

    /// Goes back to the state before the first tuple. Not called at the very first start.
    fn reset_to_initial_state(&mut self) -> Result<(), OperatorError> {
        Ok(())
    }

    /// Called after `reset`/`reset_to_initial_state` and at the first start, before any tuple:
    /// which cut the region stands at (0: none) and the oldest that may still be restored (0: the
    /// initial state).
    fn resumed_at(&mut self, _completed: u64, _oldest_retained: u64) -> Result<(), OperatorError> {
        Ok(())
    }

    /// The cut `seq` is complete in the whole region. Nothing older than `oldest_retained` will
    /// ever be restored: a source may acknowledge up to that cut, and not further; nothing while it
    /// is 0, because the initial state may be restored.
    fn region_checkpointed(
        &mut self,
        _seq: u64,
        _oldest_retained: u64,
    ) -> Result<(), OperatorError> {
        Ok(())
    }

    /// The cut `seq`, which this operator has prepared for, came to nothing, and the region goes on
    /// without a reset ([`tolerable_failed_cuts`]). Its state and its staged output will never
    /// count: what [`prepare`](Self::prepare) gave away for it must be part of the next cut.
    ///
    /// By default right for operators that stage nothing; those that `staged` something fail, so
    /// that the region is reset instead. The next cut may not have been prepared yet when this is
    /// called, but tuples of it may have been processed.
    ///
    /// [`tolerable_failed_cuts`]: crate::coordinator::CoordinatorSettings::tolerable_failed_cuts
    fn cut_abandoned(&mut self, _seq: u64, staged: bool) -> Result<(), OperatorError> {
        if staged {
            let why = "what it staged for a cut that failed can't become part of the next one";
            return Err(OperatorError::Retry(why.to_owned()));
        }
        Ok(())
    }

    /// What carries out commits of a sink; `None` when the operator stages nothing.
    fn committer(&self) -> Option<Arc<dyn Committer>> {
        None
    }
}

/// An operator that tuples enter the region by.
pub trait StartOperator: Operator<Input = ()> {
    /// Whether what it reads from forgets what the oldest kept cut covers, because this operator
    /// says so in [`region_checkpointed`](Operator::region_checkpointed): a server that takes
    /// acknowledgements, a buffer that makes room. The coordinator then remembers up to which cut
    /// that may have happened, and refuses to go back to an older one before anybody is reset.
    /// `false` for what can always be read again: files, logs that are kept.
    const ACKNOWLEDGES: bool = false;

    /// Produces some tuples if there are any; registers the waker otherwise.
    ///
    /// Called only while the region is not paused and every output has room. Should return after
    /// some hundred tuples, so that control messages get their turn.
    fn poll_produce(
        &mut self,
        cx: &mut task::Context<'_>,
        output: &mut Output<Self::Output>,
        region: &RegionHandle,
    ) -> Poll<Result<Produced, OperatorError>>;
}

/// How a source goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Produced {
    /// Ask again.
    More,
    /// There will never be another tuple. The operator still takes part in rounds.
    End,
}

/// What an operator may ask of its region: a cut, a reset, a [`Permit`]. Clones are the same.
#[derive(Clone)]
pub struct RegionHandle {
    pub(crate) ask: Arc<dyn Fn(Wish) + Send + Sync>,
    pub(crate) gate: Arc<Gate>,
    /// See [`sources_paused`](Self::sources_paused); written by the pump.
    pub(crate) paused: Arc<AtomicBool>,
}

/// See [`RegionHandle`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wish {
    /// A cut, now.
    Cut,
    /// A reset, with the reason.
    Reset(String),
}

impl RegionHandle {
    /// A handle that hands every wish to `ask`, for tests of an operator by itself: it gives out
    /// permits at any time, and no cut ever completes.
    pub fn new(ask: impl Fn(Wish) + Send + Sync + 'static) -> Self {
        let open = GateState {
            open: true,
            ..GateState::default()
        };
        Self {
            ask: Arc::new(ask),
            gate: Arc::new(Gate::new(open)),
            paused: Arc::default(),
        }
    }

    /// Asks for a cut. Asking again while one is under way or wished for does nothing.
    pub fn want_cut(&self) {
        (self.ask)(Wish::Cut);
    }

    /// Asks for a reset of the region.
    pub fn want_reset(&self, reason: impl Into<String>) {
        (self.ask)(Wish::Reset(reason.into()));
    }

    /// Whether the region's sources are paused by hand, and this instance, one of them, is asked for
    /// nothing until they are resumed. For what a source shows of itself: without it all would seem
    /// well while nothing comes. Of an instance that is no source, or has no region around it: never.
    #[must_use]
    pub fn sources_paused(&self) -> bool {
        self.paused.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for RegionHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RegionHandle")
    }
}

/// The tuples that an operator emits while it is called; the region sends them on.
#[derive(Debug)]
pub struct Output<T> {
    tuples: Vec<T>,
}

impl<T> Output<T> {
    /// An empty output, for the region and for tests of an operator by itself.
    #[must_use]
    pub fn new() -> Self {
        Self { tuples: Vec::new() }
    }

    /// Emits one tuple.
    pub fn emit(&mut self, tuple: T) {
        self.tuples.push(tuple);
    }

    /// Emits all tuples of `tuples` in order.
    pub fn extend(&mut self, tuples: impl IntoIterator<Item = T>) {
        self.tuples.extend(tuples);
    }

    /// Makes room for so many tuples more, for those who [`emit`](Self::emit) one after the other.
    pub fn reserve(&mut self, tuples: usize) {
        self.tuples.reserve(tuples);
    }

    /// How many tuples wait to be sent.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tuples.len()
    }

    /// Whether nothing waits to be sent.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tuples.is_empty()
    }

    /// Takes what was emitted.
    pub fn take(&mut self) -> Vec<T> {
        std::mem::take(&mut self.tuples)
    }
}

impl<T> Default for Output<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// Which cut is prepared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// Its number.
    pub seq: u64,
    /// The coordinator's term.
    pub term: u64,
    /// The reset attempt.
    pub attempt: u64,
    /// The cut before it (0: none), as far as this operator was told.
    pub completed: u64,
    /// The region ends with this cut.
    pub last: bool,
}

/// Writes an operator's state.
pub type WriteState = Box<dyn FnOnce(&mut dyn Write) -> io::Result<()> + Send>;
/// Makes an output durable under a name of its own and says how to find it again.
pub type StageOutput = Box<dyn FnOnce() -> Result<Vec<u8>, OperatorError> + Send>;

/// What is left to do for a cut after the pause: jobs that own what they need.
#[derive(Default)]
pub struct Prepared {
    /// Writes the state; `None` for an operator without any.
    pub state: Option<WriteState>,
    /// Stages the output of the cut; `None` when there is nothing to commit.
    pub stage: Option<StageOutput>,
}

impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prepared")
            .field("state", &self.state.is_some())
            .field("stage", &self.stage.is_some())
            .finish()
    }
}

/// The second phase of a sink. Runs on a blocking pool.
pub trait Committer: Send + Sync + 'static {
    /// Makes the staged output of cut `seq` visible. Called after the manifest is published and
    /// again after a restore: it must do nothing when that was done before, and it must fail
    /// rather than overwrite what another attempt committed under the same number.
    fn commit(&self, seq: u64, token: &[u8]) -> Result<(), OperatorError>;

    /// Whether [`take_back_above`](Self::take_back_above) undoes commits. A region whose newest
    /// checkpoint is damaged falls back to the one before only if every sink that committed since
    /// then can; otherwise it goes to its failed state instead of writing an output twice.
    fn can_take_back(&self) -> bool {
        false
    }

    /// Takes back the commits of all cuts above `seq`, if there are any. Called at every reset,
    /// with the cut that the region goes back to (0: the initial state), before anything else.
    fn take_back_above(&self, _seq: u64) -> Result<(), OperatorError> {
        Ok(())
    }

    /// Throws away staged outputs that no retained cut names.
    fn abort_all_except(&self, retained: &[Vec<u8>]) -> Result<(), OperatorError>;
}

/// Why an operator could not go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OperatorError {
    /// The region is reset and tries again.
    #[error("{0}")]
    Retry(String),
    /// A reset can't help: the region goes to its failed state and says this.
    #[error("{0}")]
    Permanent(String),
}

impl From<io::Error> for OperatorError {
    fn from(error: io::Error) -> Self {
        Self::Retry(error.to_string())
    }
}
