//! The gate of one instance: open while tuples may flow, and a count of who is inside.

use std::sync::Arc;
use std::task;

use futures_util::task::AtomicWaker;
use tokio::sync::watch;

use super::InstanceOver;

/// What is known at the gate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct GateState {
    pub(crate) open: bool,
    /// Permits that are not given back.
    pub(crate) inside: usize,
    /// The cut that tuples belong to.
    pub(crate) seq: u64,
    pub(crate) attempt: u64,
    /// The newest cut that is complete, and known to be so by the operator.
    pub(crate) completed: u64,
    /// The newest cut that came to nothing without a reset.
    pub(crate) abandoned: u64,
    pub(crate) over: bool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Gate {
    state: watch::Sender<GateState>,
    /// Whoever waits until nobody is inside.
    keeper: AtomicWaker,
}

impl Gate {
    pub(crate) fn new(state: GateState) -> Self {
        Self {
            state: watch::Sender::new(state),
            keeper: AtomicWaker::new(),
        }
    }

    pub(crate) fn try_enter(&self) -> Option<GateState> {
        let mut entered = None;
        // Looking and entering are one step, so that nobody slips in behind a closing gate.
        self.state.send_if_modified(|gate| {
            if gate.open && !gate.over {
                gate.inside += 1;
                entered = Some(*gate);
            }
            false
        });
        entered
    }

    pub(crate) async fn enter(&self) -> Result<GateState, InstanceOver> {
        loop {
            if let Some(entered) = self.try_enter() {
                return Ok(entered);
            }
            self.until(|gate| gate.open.then_some(())).await?;
        }
    }

    pub(crate) fn leave(&self) {
        self.state.send_if_modified(|gate| {
            gate.inside = gate.inside.saturating_sub(1);
            false
        });
        self.keeper.wake();
    }

    /// Waits until `reached` gives something.
    pub(crate) async fn until<T>(
        &self,
        reached: impl Fn(GateState) -> Option<T>,
    ) -> Result<T, InstanceOver> {
        let mut watch = self.state.subscribe();
        let mut found = None;
        let seen = watch.wait_for(|gate| {
            found = reached(*gate);
            found.is_some() || gate.over
        });
        // The sender is `self`: the wait can't end without one of the two.
        let _ = seen.await;
        found.ok_or(InstanceOver)
    }
}

/// The pump's side of the gate. When it is dropped, the instance is over.
#[derive(Debug)]
pub(crate) struct Keeper(pub(crate) Arc<Gate>);

impl Keeper {
    pub(crate) fn is_open(&self) -> bool {
        self.0.state.borrow().open
    }

    /// Whether nobody is inside; the task is woken when that may have changed.
    pub(crate) fn is_empty(&self, task: &task::Context<'_>) -> bool {
        self.0.keeper.register(task.waker());
        self.0.state.borrow().inside == 0
    }

    pub(crate) fn open(&self, seq: u64) {
        self.set(|gate| (gate.open, gate.seq) = (true, seq));
    }

    pub(crate) fn close(&self) {
        self.set(|gate| gate.open = false);
    }

    /// A reset has begun: who is inside works for nothing.
    pub(crate) fn supersede(&self, attempt: u64) {
        self.set(|gate| {
            (gate.open, gate.attempt) = (false, attempt);
            (gate.completed, gate.abandoned) = (0, 0);
        });
    }

    pub(crate) fn complete(&self, seq: u64) {
        self.set(|gate| gate.completed = gate.completed.max(seq));
    }

    pub(crate) fn abandon(&self, seq: u64) {
        self.set(|gate| gate.abandoned = gate.abandoned.max(seq));
    }

    /// Most instances have nobody at their gate: no news costs a comparison.
    fn set(&self, change: impl FnOnce(&mut GateState)) {
        self.0.state.send_if_modified(|gate| {
            let before = *gate;
            change(gate);
            *gate != before
        });
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.set(|gate| (gate.open, gate.over) = (false, true));
    }
}
