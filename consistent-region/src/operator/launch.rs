//! Starts an operator's actor with its pump.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use actix::{Addr, AsyncContext, Context};
use actix_rt::ArbiterHandle;
use futures_util::stream::FuturesUnordered;
use tokio::sync::mpsc;

use crate::graph::Factory;
use crate::graph::spec::Erased;
use crate::protocol::{InstanceId, Stamp};
use crate::store::CheckpointStore;
use crate::worker::Lease;

use super::context::Place;
use super::control::{CONTROL_CAPACITY, Control, InstanceEvent, Report, Reporter};
use super::jobs::panic_text;
use super::permit::Keeper;
use super::pump::{Guard, Pump};
use super::{
    Gate, GateState, InstanceContext, OpenSide, Operator, Output, Producer, RegionHandle, Wish,
};

/// What is needed to start an instance.
pub(crate) struct Launch {
    pub(crate) place: Place,
    pub(crate) instance: InstanceId,
    pub(crate) width: u16,
    pub(crate) launch: u64,
    pub(crate) stamp: Stamp,
    /// Where its actor lives; `None`: on the thread that starts it.
    pub(crate) arbiter: Option<ArbiterHandle>,
    pub(crate) store: Arc<dyn CheckpointStore>,
    pub(crate) reports: mpsc::UnboundedSender<Report>,
}

/// A running instance. Dropping it ends the actor, wherever it is.
pub(crate) struct InstanceHandle {
    control: mpsc::Sender<Control>,
    lease: Lease,
    /// An actor stops when nobody has its address.
    address: Option<Erased>,
}

impl InstanceHandle {
    /// Gives an order; `false` when the instance does not take orders any more.
    pub(crate) fn control(&self, control: Control) -> bool {
        self.control.try_send(control).is_ok()
    }

    /// The instance's actor, if it is one of this type.
    pub(crate) fn address<A: Operator>(&self) -> Option<Addr<A>> {
        self.address.as_ref()?.downcast_ref().cloned()
    }
}

impl Drop for InstanceHandle {
    fn drop(&mut self) {
        self.lease.revoke();
    }
}

impl fmt::Debug for InstanceHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InstanceHandle")
    }
}

/// Starts an instance. Failures are reported, also that of the factory.
pub(crate) fn launch<A: Operator>(
    request: Launch,
    factory: Factory<A>,
    producer: Option<Producer<A>>,
    sides: Vec<OpenSide<A>>,
) -> InstanceHandle {
    let Launch {
        mut place,
        instance,
        width,
        launch,
        stamp,
        arbiter,
        store,
        reports,
    } = request;
    place.lease = place.lease.share();
    let lease = place.lease.clone();
    let reporter = Reporter { launch, reports };
    let cut_wanted = Arc::new(AtomicBool::new(false));
    let gate = Arc::new(Gate::new(GateState::default()));
    let region = RegionHandle {
        ask: wishes(reporter.clone(), stamp, Arc::clone(&cut_wanted)),
        gate: Arc::clone(&gate),
        paused: Arc::default(),
    };
    let keeper = Keeper(gate);
    let context = InstanceContext::new(&place, instance, width, region, Arc::clone(&store));
    let (control, orders) = mpsc::channel(CONTROL_CAPACITY);
    let guard = Guard {
        reporter,
        stamp,
        armed: true,
    };
    let start = move |actix: &mut Context<A>| {
        let mut guard = guard;
        let actor = match catch_unwind(AssertUnwindSafe(|| factory(context.clone()))) {
            Ok(actor) => actor,
            Err(panic) => {
                let reason = format!("its factory {}", panic_text(&*panic));
                let event = InstanceEvent::Failed {
                    reason,
                    permanent: false,
                    alive: false,
                };
                guard.reporter.report(stamp, event);
                guard.armed = false;
                resume_unwind(panic)
            }
        };
        let pump = Pump {
            context,
            store,
            control: orders,
            producer,
            sides,
            side_turn: false,
            guard,
            streams: None,
            jobs: FuturesUnordered::new(),
            resetting: None,
            keeper,
            waiting: None,
            prepared: None,
            saved: None,
            stamp,
            completed: 0,
            staged: None,
            committing: None,
            held: None,
            round_began: None,
            cut_wanted,
            output: Output::new(),
        };
        actix.spawn(pump);
        actor
    };
    let address = match arbiter {
        Some(arbiter) => Some(A::start_in_arbiter(&arbiter, start)),
        // Here a panic of the factory would be ours; it is reported already.
        None => catch_unwind(AssertUnwindSafe(|| A::create(start))).ok(),
    };
    InstanceHandle {
        control,
        lease,
        address: address.map(|address| Box::new(address) as Erased),
    }
}

/// What the instance asks its region by. A second wish for a cut is not sent before a cut.
fn wishes(
    reporter: Reporter,
    stamp: Stamp,
    cut_wanted: Arc<AtomicBool>,
) -> Arc<dyn Fn(Wish) + Send + Sync> {
    Arc::new(move |wish| match wish {
        Wish::Cut if cut_wanted.swap(true, Ordering::AcqRel) => {}
        Wish::Cut => reporter.report(stamp, InstanceEvent::CutWanted),
        Wish::Reset(reason) => reporter.report(stamp, InstanceEvent::ResetWanted { reason }),
    })
}
