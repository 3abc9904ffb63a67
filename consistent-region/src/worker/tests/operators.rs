//! A source that can be read again, and a count by key; both fail on demand.

use std::io::Read;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{self, Poll};

use actix::{Actor, ActorContext, AsyncContext, Context, Handler, Message};
use futures_util::task::AtomicWaker;
use tokio::sync::Notify;

use crate::operator::{
    Cut, InstanceContext, Operator, OperatorError, Output, Prepared, Produced, RegionHandle,
    StartOperator,
};
use crate::testing;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    ProcessPanics,
    ProcessFails,
    ActorStops,
    PrepareFails,
    StoreFails,
}

impl Fault {
    pub(crate) fn text(self) -> Option<&'static str> {
        match self {
            Self::ProcessPanics => Some("panicked: injected"),
            Self::ProcessFails | Self::PrepareFails => Some("injected"),
            Self::ActorStops => Some("stopped"),
            Self::StoreFails => None,
        }
    }
}

/// What goes wrong next, and how far everything is.
#[derive(Debug, Clone, Default)]
pub(crate) struct Faults(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// Where the source waits.
    allowed: AtomicU64,
    waiting: AtomicWaker,
    next: Mutex<Option<Fault>>,
    produced: AtomicU64,
    processed: AtomicU64,
    moved: Notify,
}

impl Faults {
    pub(crate) fn set(&self, fault: Fault) {
        *self.0.next.lock().unwrap() = Some(fault);
    }

    fn take(&self, of: &[Fault]) -> Option<Fault> {
        self.0
            .next
            .lock()
            .unwrap()
            .take_if(|fault| of.contains(fault))
    }

    /// Lets the source go on up to the number `next`; it waits at 0 first.
    pub(crate) fn allow_up_to(&self, next: u64) {
        self.0.allowed.store(next, Ordering::SeqCst);
        self.0.waiting.wake();
    }

    pub(crate) fn produced(&self) -> u64 {
        self.0.produced.load(Ordering::SeqCst)
    }

    pub(crate) fn processed(&self) -> u64 {
        self.0.processed.load(Ordering::SeqCst)
    }

    pub(crate) async fn produced_reaches(&self, count: u64) {
        loop {
            let moved = self.0.moved.notified();
            if self.produced() >= count {
                return;
            }
            moved.await;
        }
    }
}

pub(crate) struct Numbers {
    next: u64,
    end: u64,
    faults: Faults,
}

impl Numbers {
    pub(crate) fn new(end: u64, faults: Faults) -> Self {
        Self {
            next: 0,
            end,
            faults,
        }
    }
}

impl Actor for Numbers {
    type Context = Context<Self>;
}

impl Operator for Numbers {
    type Input = ();
    type Output = u64;
    const STATE_TYPE: &'static str = "position";

    fn process(&mut self, _: Vec<()>, _: &mut Output<u64>) -> Result<(), OperatorError> {
        Ok(())
    }

    fn prepare(&mut self, _: Cut) -> Result<Prepared, OperatorError> {
        let next = self.next;
        let write = move |to: &mut dyn std::io::Write| to.write_all(&next.to_le_bytes());
        Ok(Prepared {
            state: Some(Box::new(write)),
            stage: None,
        })
    }

    fn reset(&mut self, state: &mut dyn Read, _: u32) -> Result<(), OperatorError> {
        let mut bytes = [0; 8];
        state.read_exact(&mut bytes)?;
        self.next = u64::from_le_bytes(bytes);
        Ok(())
    }

    fn reset_to_initial_state(&mut self) -> Result<(), OperatorError> {
        self.next = 0;
        Ok(())
    }
}

impl StartOperator for Numbers {
    fn poll_produce(
        &mut self,
        task: &mut task::Context<'_>,
        output: &mut Output<u64>,
        _: &RegionHandle,
    ) -> Poll<Result<Produced, OperatorError>> {
        if self.next == self.end {
            return Poll::Ready(Ok(Produced::End));
        }
        self.faults.0.waiting.register(task.waker());
        let allowed = self.faults.0.allowed.load(Ordering::SeqCst);
        if self.next >= allowed {
            return Poll::Pending;
        }
        let end = self.end.min(self.next + 100).min(allowed);
        output.extend(self.next..end);
        self.faults
            .0
            .produced
            .fetch_add(end - self.next, Ordering::SeqCst);
        self.faults.0.moved.notify_waiters();
        self.next = end;
        Poll::Ready(Ok(Produced::More))
    }
}

/// Emits the counts that changed when it is drained.
pub(crate) struct Counts {
    counts: testing::Counts,
    faults: Faults,
    own: Option<actix::Addr<Self>>,
    _context: InstanceContext,
}

impl Counts {
    pub(crate) fn new(context: InstanceContext, faults: Faults) -> Self {
        Self {
            counts: testing::Counts::of_keys(super::KEYS),
            faults,
            own: None,
            _context: context,
        }
    }
}

#[derive(Message)]
#[rtype(result = "()")]
struct StopYourself;

impl Handler<StopYourself> for Counts {
    type Result = ();

    fn handle(&mut self, _: StopYourself, actix: &mut Context<Self>) {
        actix.stop();
    }
}

impl Actor for Counts {
    type Context = Context<Self>;

    fn started(&mut self, actix: &mut Context<Self>) {
        self.own = Some(actix.address());
    }
}

impl Operator for Counts {
    type Input = u64;
    type Output = (u64, u64);
    const STATE_TYPE: &'static str = "counts";

    fn process(
        &mut self,
        batch: Vec<u64>,
        output: &mut Output<(u64, u64)>,
    ) -> Result<(), OperatorError> {
        use Fault::{ActorStops, ProcessFails, ProcessPanics};
        match self.faults.take(&[ActorStops, ProcessFails, ProcessPanics]) {
            Some(ProcessPanics) => panic!("injected"),
            Some(ProcessFails) => return Err(OperatorError::Retry("injected".to_owned())),
            Some(_) => self.own.as_ref().unwrap().try_send(StopYourself).unwrap(),
            None => {}
        }
        self.faults
            .0
            .processed
            .fetch_add(batch.len() as u64, Ordering::SeqCst);
        self.counts.process(batch, output)
    }

    fn drain(&mut self, output: &mut Output<(u64, u64)>) -> Result<(), OperatorError> {
        self.counts.drain(output)
    }

    fn prepare(&mut self, cut: Cut) -> Result<Prepared, OperatorError> {
        if self.faults.take(&[Fault::PrepareFails]).is_some() {
            return Err(OperatorError::Retry("injected".to_owned()));
        }
        self.counts.prepare(cut)
    }

    fn reset(&mut self, state: &mut dyn Read, width: u32) -> Result<(), OperatorError> {
        self.counts.reset(state, width)
    }

    fn reset_to_initial_state(&mut self) -> Result<(), OperatorError> {
        self.counts.reset_to_initial_state()
    }
}
