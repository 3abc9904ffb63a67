//! The blocking work of an instance: writing, reading, staging, committing.
//!
//! Runs on tokio's blocking pool; every job owns what it needs.

use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

use crate::manifest::ObjectRecord;
use crate::point::Point;
use crate::protocol::{InstanceTimings, Stamp};
use crate::state::{Loaded, Loader, Saved, SavedObject};
use crate::store::{CheckpointStore, StoreError, object_name, read_state, write_state};
use crate::worker::LeaseLost;

use super::control::{Restore, StagedToken};
use super::{Committer, Cut, InstanceContext, OperatorError, Prepared};

/// What a checkpoint job leaves behind.
pub(crate) struct Durable {
    pub(crate) object: Option<ObjectRecord>,
    pub(crate) token: Option<StagedToken>,
    pub(crate) timings: InstanceTimings,
}

/// What a reset has read.
pub(crate) enum State {
    None,
    Whole { bytes: Vec<u8>, version: u32 },
    Loaded(Loaded),
}

/// How the state is to be labelled.
#[derive(Debug)]
pub(crate) struct StateLabel {
    pub(crate) state_type: &'static str,
    pub(crate) state_version: u32,
    /// The objects that what is written is to be read after.
    pub(crate) base: Vec<ObjectRecord>,
}

/// Makes state and output of a cut durable.
pub(crate) fn checkpoint(
    context: &InstanceContext,
    store: &dyn CheckpointStore,
    cut: Cut,
    label: StateLabel,
    prepared: Prepared,
    can_take_back: bool,
    mut timings: InstanceTimings,
) -> Result<Durable, OperatorError> {
    let began = Instant::now();
    context.hook().at(Point::Staging);
    let object = match prepared.state {
        None => None,
        Some(write) => {
            let Cut {
                term, seq, attempt, ..
            } = cut;
            let name = object_name(Stamp { term, seq, attempt }, context.instance());
            let (written, encoding) = write_state(store, &name, write)?;
            timings.bytes = written.length;
            Some(ObjectRecord {
                instance: context.instance().clone(),
                object: name,
                length: written.length,
                crc32: written.crc32,
                state_type: label.state_type.to_owned(),
                state_version: label.state_version,
                encoding,
                base: label.base,
            })
        }
    };
    let token = match prepared.stage {
        None => None,
        Some(stage) => {
            context.lease().check()?;
            context.hook().at(Point::BetweenCheckAndStage);
            Some(StagedToken {
                token: stage()?,
                can_take_back,
            })
        }
    };
    timings.write = microseconds(began);
    Ok(Durable {
        object,
        token,
        timings,
    })
}

/// Commits the staged output of a cut.
pub(crate) fn commit(
    context: &InstanceContext,
    committer: &dyn Committer,
    seq: u64,
    token: &[u8],
) -> Result<(), OperatorError> {
    context.hook().at(Point::BeforeCommit);
    context.lease().check()?;
    context.hook().at(Point::BetweenCheckAndCommit);
    committer.commit(seq, token)?;
    context.hook().at(Point::AfterCommitBeforeAck);
    Ok(())
}

/// Everything of a reset that blocks: reads and verifies the state, takes back what was committed
/// after the restore point, repeats its commits and throws away what was staged besides.
pub(crate) fn restore(
    context: &InstanceContext,
    store: &dyn CheckpointStore,
    committer: Option<&Arc<dyn Committer>>,
    restore: &Restore,
    loader: Option<Loader>,
) -> Result<State, OperatorError> {
    if *restore == Restore::Keep {
        return Ok(State::None);
    }
    context.hook().at(Point::DuringReset);
    let objects: &[SavedObject] = match restore {
        Restore::Cut { objects, .. } => objects,
        _ => &[],
    };
    let state = match (loader, objects) {
        (_, []) => State::None,
        (Some(loader), objects) => State::Loaded(load(store, loader, objects)?),
        (None, [object]) if object.record.base.is_empty() => State::Whole {
            bytes: read_state(store, &object.record)?,
            version: object.record.state_version,
        },
        (None, _) => {
            return Err(OperatorError::Permanent(format!(
                "the state of {} lies in several objects, and its operator has no loader",
                context.instance()
            )));
        }
    };
    if let (Some(committer), false) = (committer, matches!(restore, Restore::First)) {
        context.lease().check()?;
        committer.take_back_above(restore.seq())?;
        let tokens: &[Vec<u8>] = match restore {
            Restore::Cut { tokens, .. } => tokens,
            _ => &[],
        };
        for token in tokens {
            commit(context, &**committer, restore.seq(), token)?;
        }
        context.lease().check()?;
        committer.abort_all_except(tokens)?;
    }
    Ok(state)
}

fn load(
    store: &dyn CheckpointStore,
    loader: Loader,
    objects: &[SavedObject],
) -> Result<Loaded, OperatorError> {
    let mut saved = Saved::new(store, objects);
    let loaded = loader.load(&mut saved)?;
    match saved.remaining() {
        0 => Ok(loaded),
        left => Err(OperatorError::Permanent(format!(
            "the loader has not read {left} of the state's objects"
        ))),
    }
}

pub(crate) fn microseconds(since: Instant) -> u64 {
    microseconds_between(since, Instant::now())
}

pub(crate) fn microseconds_between(begin: Instant, end: Instant) -> u64 {
    u64::try_from(end.saturating_duration_since(begin).as_micros()).unwrap_or(u64::MAX)
}

/// What a panic said.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned());
    format!("panicked: {}", text.unwrap_or_else(|| "no text".to_owned()))
}

impl From<StoreError> for OperatorError {
    fn from(error: StoreError) -> Self {
        Self::Retry(error.to_string())
    }
}

impl From<LeaseLost> for OperatorError {
    fn from(error: LeaseLost) -> Self {
        Self::Retry(error.to_string())
    }
}
