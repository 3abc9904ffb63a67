//! The blocking work of an instance: writing, reading, staging, committing.
//!
//! Runs on tokio's blocking pool; every job owns what it needs.

use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

use crate::manifest::ObjectRecord;
use crate::point::Point;
use crate::protocol::{InstanceTimings, Stamp};
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

/// How the state is to be labelled.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StateLabel {
    pub(crate) state_type: &'static str,
    pub(crate) state_version: u32,
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
                base: Vec::new(),
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
) -> Result<Option<Vec<u8>>, OperatorError> {
    if *restore == Restore::Keep {
        return Ok(None);
    }
    context.hook().at(Point::DuringReset);
    let object = match restore {
        Restore::Cut {
            object: Some(record),
            ..
        } => Some(read_state(store, record)?),
        _ => None,
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
    Ok(object)
}

pub(crate) fn microseconds(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX)
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
