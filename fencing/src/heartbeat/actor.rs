//! The shell of heartbeats: an actor that asks through gateways.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use actix::{
    Actor, ActorFutureExt, AsyncContext, Context, Handler, MessageResult, Recipient, SpawnHandle,
    WrapFuture,
};
use lockkeeper_core::error::{RpcError, RpcErrorKind};

use super::messages::{
    Ask, GetHeartbeats, Heard, HeartbeatEvent, HeartbeatKey, HeartbeatsState, Monitor, Unmonitor,
};
use super::{HeartbeatAction, HeartbeatManager, HeartbeatOptions, InvalidHeartbeatOptions};
use crate::clock::{Clock, SystemClock};

/// Monitors targets, each by a question an interval, and tells what becomes of them.
///
/// Start it on the arbiter of the endpoint that it speaks for (`Heartbeats::new(..)?.start()` within
/// one of the endpoint's handlers does): an endpoint whose thread is stuck then sends no beats
/// (FLINK-9417), and declares nobody dead when it goes on, for their answers wait in its inbox.
///
/// Several questions to a target may be under way, as many as intervals fit into the time-out: an
/// answer that is slow counts. A call's own time-out does not make a target unreachable; a missing
/// process or endpoint does.
pub struct Heartbeats<T: HeartbeatKey, P: Send + 'static> {
    machine: HeartbeatManager<T>,
    timeout: Duration,
    asks: BTreeMap<T, Ask<P>>,
    events: Recipient<HeartbeatEvent<T, P>>,
    clock: Arc<dyn Clock>,
    timer: Option<SpawnHandle>,
}

impl<T: HeartbeatKey, P: Send + 'static> Heartbeats<T, P> {
    /// One that monitors nobody yet, and tells `events` what happens.
    ///
    /// # Errors
    /// [`InvalidHeartbeatOptions`].
    pub fn new(
        options: HeartbeatOptions,
        events: Recipient<HeartbeatEvent<T, P>>,
    ) -> Result<Self, InvalidHeartbeatOptions> {
        let clock = Arc::new(SystemClock);
        let timeout = options.timeout;
        Ok(Heartbeats {
            machine: HeartbeatManager::new(options, clock.now())?,
            timeout,
            asks: BTreeMap::new(),
            events,
            clock,
            timer: None,
        })
    }

    fn tick(&mut self, context: &mut Context<Self>) {
        for action in self.machine.tick(self.clock.now()) {
            self.carry_out(action, context);
        }
        self.set_timer(context);
    }

    fn set_timer(&mut self, context: &mut Context<Self>) {
        if let Some(timer) = self.timer.take() {
            context.cancel_future(timer);
        }
        let pause = self.machine.next_tick().since(self.clock.now());
        self.timer = Some(context.run_later(pause, |heartbeats, context| {
            heartbeats.timer = None;
            heartbeats.tick(context);
        }));
    }

    fn carry_out(&mut self, action: HeartbeatAction<T>, context: &mut Context<Self>) {
        match action {
            HeartbeatAction::Ask { target, round } => {
                let Some(ask) = self.asks.get(&target) else {
                    return;
                };
                let asking = ask(round, self.timeout).into_actor(self);
                context.spawn(asking.map(move |answer, heartbeats, context| {
                    heartbeats.answered(target, round, answer, context);
                }));
            }
            HeartbeatAction::TimedOut { target } => {
                self.asks.remove(&target);
                self.tell(HeartbeatEvent::TimedOut { target }, context);
            }
            HeartbeatAction::Unreachable { target } => {
                self.asks.remove(&target);
                self.tell(HeartbeatEvent::Unreachable { target }, context);
            }
        }
    }

    fn answered(
        &mut self,
        target: T,
        round: u64,
        answer: Result<P, RpcError>,
        context: &mut Context<Self>,
    ) {
        match answer {
            Ok(payload) => {
                if self.machine.beat(&target, round, self.clock.now()) {
                    self.tell(HeartbeatEvent::Beat { target, payload }, context);
                }
            }
            Err(error) if is_unreachable(&error) => {
                tracing::debug!(?target, %error, "a heartbeat did not reach its target");
                if let Some(action) = self.machine.undelivered(&target, round) {
                    self.carry_out(action, context);
                }
            }
            Err(error) => tracing::debug!(?target, %error, "a heartbeat was not answered"),
        }
    }

    fn tell(&self, event: HeartbeatEvent<T, P>, context: &mut Context<Self>) {
        // Waits for room: an event is told, or its receiver has ended.
        let telling = self.events.send(event).into_actor(self);
        context.spawn(telling.map(|told, _, _| {
            if let Err(error) = told {
                tracing::debug!(%error, "nobody is told of heartbeats any longer");
            }
        }));
    }
}

fn is_unreachable(error: &RpcError) -> bool {
    matches!(
        error.kind(),
        RpcErrorKind::Unreachable
            | RpcErrorKind::NoSuchEndpoint
            | RpcErrorKind::Stopped
            | RpcErrorKind::ConnectionLost
            | RpcErrorKind::Restarted
    )
}

impl<T: HeartbeatKey, P: Send + 'static> fmt::Debug for Heartbeats<T, P> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Heartbeats")
            .field("machine", &self.machine)
            .finish_non_exhaustive()
    }
}

impl<T: HeartbeatKey, P: Send + 'static> Unpin for Heartbeats<T, P> {}

impl<T: HeartbeatKey, P: Send + 'static> Actor for Heartbeats<T, P> {
    type Context = Context<Self>;

    fn started(&mut self, context: &mut Context<Self>) {
        self.set_timer(context);
    }
}

impl<T: HeartbeatKey, P: Send + 'static> Handler<Monitor<T, P>> for Heartbeats<T, P> {
    type Result = ();

    fn handle(&mut self, Monitor { target, ask }: Monitor<T, P>, context: &mut Context<Self>) {
        let now = self.clock.now();
        let is_new = self.machine.targets().all(|known| *known != target);
        match ask {
            Some(ask) => {
                if is_new {
                    self.asks.insert(target.clone(), ask);
                }
                self.machine.monitor(target, now);
            }
            None => self.machine.listen(target, now),
        }
        // Its time-out may be the next thing that is due.
        self.set_timer(context);
    }
}

impl<T: HeartbeatKey, P: Send + 'static> Handler<Unmonitor<T>> for Heartbeats<T, P> {
    type Result = ();

    fn handle(&mut self, Unmonitor(target): Unmonitor<T>, _: &mut Context<Self>) {
        self.asks.remove(&target);
        self.machine.unmonitor(&target);
    }
}

impl<T: HeartbeatKey, P: Send + 'static> Handler<Heard<T>> for Heartbeats<T, P> {
    type Result = ();

    fn handle(&mut self, Heard(target): Heard<T>, _: &mut Context<Self>) {
        self.machine.heard(&target, self.clock.now());
    }
}

impl<T: HeartbeatKey, P: Send + 'static> Handler<GetHeartbeats<T>> for Heartbeats<T, P> {
    type Result = MessageResult<GetHeartbeats<T>>;

    fn handle(&mut self, _: GetHeartbeats<T>, _: &mut Context<Self>) -> Self::Result {
        let now = self.clock.now();
        let since = |target: &T| Some(now.since(self.machine.last_beat(target)?));
        let targets = self.machine.targets();
        MessageResult(HeartbeatsState {
            targets: targets
                .map(|target| (target.clone(), since(target)))
                .collect(),
            largest_lateness: self.machine.largest_lateness(),
        })
    }
}
