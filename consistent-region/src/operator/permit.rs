//! Permits: how an operator's own threads and tasks take part in cuts and resets.
//!
//! The region calls an operator only between two batches, so that a cut or a reset never meets it
//! half-way. It can't know what threads of the operator's own do: they hold a [`Permit`] while they
//! emit tuples or change the operator's state. A cut and a reset wait until every permit is given
//! back, and no new one is given out before tuples may flow again (S26 of the semantics list, issue
//! 7; the reference is IBM Streams' `ConsistentRegionContext`).
//!
//! None of the futures here needs a runtime: a thread may wait for them with
//! `futures::executor::block_on`.

use std::fmt;
use std::sync::Arc;

mod gate;

pub(crate) use gate::{Gate, GateState, Keeper};

use super::{RegionHandle, Wish};

/// While it is held, the instance that it belongs to is neither drained nor reset.
///
/// Hold it briefly: a round waits for it, at most `drain_timeout`, a reset at most `reset_timeout`.
/// Dropping it gives it back.
#[must_use = "a permit that is dropped at once permits nothing"]
pub struct Permit {
    region: RegionHandle,
    /// The gate as it was when the permit was given out; `None` while it is given back.
    held: Option<GateState>,
}

/// What came of a cut that a permit's holder waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum MadeConsistent {
    /// The cut is complete: nothing before it will be asked for again.
    Completed {
        /// Its number.
        seq: u64,
    },
    /// Every operator has prepared for the cut, tuples flow again, and its state is still being
    /// written. Only [`Permit::make_consistent_non_blocking`] gives this.
    CheckpointPending {
        /// Its number.
        seq: u64,
    },
    /// The cut came to nothing, and the region goes on without a reset (`tolerable_failed_cuts`):
    /// what was emitted belongs to the next cut.
    Failed {
        /// Its number.
        seq: u64,
    },
    /// The region was reset, and the operator with it: emit again from where it stands now.
    Reset {
        /// Which reset.
        attempt: u64,
    },
}

/// The instance is over: the region has ended, or the instance was replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the instance is over: the region has ended, or the instance was replaced")]
pub struct InstanceOver;

impl RegionHandle {
    /// A permit, as soon as tuples may flow.
    ///
    /// Start operators may ask for permits; others only if they say so with
    /// [`Operator::USES_PERMITS`](super::Operator::USES_PERMITS), and wait for ever otherwise.
    ///
    /// # Errors
    /// When the instance is over.
    pub async fn permit(&self) -> Result<Permit, InstanceOver> {
        let held = self.gate.enter().await?;
        Ok(Permit {
            region: self.clone(),
            held: Some(held),
        })
    }

    /// A permit if tuples may flow now.
    #[must_use]
    pub fn try_permit(&self) -> Option<Permit> {
        let held = self.gate.try_enter()?;
        Some(Permit {
            region: self.clone(),
            held: Some(held),
        })
    }
}

impl Permit {
    /// The cut that what is done under this permit belongs to; 0 while it is given back.
    #[must_use]
    pub fn seq(&self) -> u64 {
        self.held.map_or(0, |gate| gate.seq)
    }

    /// The reset after which it was given out; 0 while it is given back.
    #[must_use]
    pub fn attempt(&self) -> u64 {
        self.held.map_or(0, |gate| gate.attempt)
    }

    /// Resolves when a reset waits for this permit: what is done from then on is undone.
    pub async fn superseded(&self) {
        if let Some(held) = self.held {
            let _ = self
                .region
                .gate
                .until(|now| (now.attempt != held.attempt).then_some(()))
                .await;
        }
    }

    /// Asks for a cut and waits until it is complete in the whole region, or the region was reset.
    ///
    /// The permit is given back meanwhile and held again afterwards, so that many threads may wait
    /// for one cut. Whoever holds another permit of the instance must give it back first.
    ///
    /// # Errors
    /// When the instance is over; the permit is not held any more then.
    pub async fn make_consistent(&mut self) -> Result<MadeConsistent, InstanceOver> {
        self.cut(completed).await
    }

    /// Asks for a cut and waits until every operator has prepared for it and tuples may flow
    /// again, or the region was reset. Whether the cut becomes complete is known later only.
    ///
    /// # Errors
    /// As [`make_consistent`](Self::make_consistent).
    pub async fn make_consistent_non_blocking(&mut self) -> Result<MadeConsistent, InstanceOver> {
        self.cut(|cut, now| {
            let pending = now.open && now.seq > cut.seq;
            completed(cut, now)
                .or_else(|| pending.then_some(MadeConsistent::CheckpointPending { seq: cut.seq }))
        })
        .await
    }

    async fn cut(
        &mut self,
        outcome: impl Fn(GateState, GateState) -> Option<MadeConsistent>,
    ) -> Result<MadeConsistent, InstanceOver> {
        let gate = Arc::clone(&self.region.gate);
        let cut = match self.held {
            Some(held) => held,
            None => gate.enter().await?,
        };
        // The wish first: whoever drains next must find that it was asked for.
        (self.region.ask)(Wish::Cut);
        self.held = None;
        gate.leave();
        let outcome = gate.until(|now| outcome(cut, now)).await?;
        self.held = Some(gate.enter().await?);
        Ok(outcome)
    }
}

fn completed(cut: GateState, now: GateState) -> Option<MadeConsistent> {
    if now.attempt != cut.attempt {
        return Some(MadeConsistent::Reset {
            attempt: now.attempt,
        });
    }
    if now.completed >= cut.seq {
        return Some(MadeConsistent::Completed { seq: cut.seq });
    }
    (now.abandoned >= cut.seq).then_some(MadeConsistent::Failed { seq: cut.seq })
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.held.take().is_some() {
            self.region.gate.leave();
        }
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit")
            .field("seq", &self.seq())
            .field("attempt", &self.attempt())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
