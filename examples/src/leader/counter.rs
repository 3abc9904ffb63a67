//! The counter: a fenced endpoint, whose value is a guarded series.

use std::sync::{Arc, Mutex, PoisonError};

use actix::prelude::*;
use lockkeeper_core::prelude::*;
use lockkeeper_fencing::Idempotent;
use lockkeeper_fencing::election::Leadership;
use lockkeeper_fencing::guard::{EpochGuard, GuardError, GuardStore, Guarded};
use serde::{Deserialize, Serialize};

/// After how many values the ones before are removed from the store.
const KEPT: u64 = 50;

/// Adds one, once for each request number: it may be asked again.
#[derive(Message, Serialize, Deserialize, Clone, Copy, Debug)]
#[rtype(result = "Result<Counted, NotCounted>")]
pub struct Count {
    /// Above the request numbers of all calls before.
    pub request: u64,
}

impl Idempotent for Count {}

/// What the counter says.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// The counter's value.
    pub value: u64,
    /// Which process has counted.
    pub by: u32,
    /// The token under which it was counted.
    pub token: FencingToken,
}

/// Why the process that was asked has not counted; the next leader will.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct NotCounted {
    /// The reason.
    pub reason: String,
}

rpc_gateway! {
    /// The counter of whoever leads.
    pub fenced CounterGateway("example.LeaderCounter", version = 1) { Count }
}

/// What the store keeps of each value.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, Default)]
struct Record {
    value: u64,
    request: u64,
}

/// The counter while this process leads.
#[derive(Debug)]
pub struct Leading {
    leadership: Leadership,
    guard: EpochGuard,
    present: Record,
}

impl Leading {
    /// Enters the series with the leadership's token and reads where it is. `None`: another one
    /// leads already. Blocks.
    ///
    /// # Errors
    /// Those of the store.
    pub fn enter(
        store: Arc<dyn GuardStore>,
        leadership: Leadership,
    ) -> Result<Option<Leading>, GuardError> {
        let Some(mut guard) = EpochGuard::enter_with(store, &leadership.token)?.done() else {
            return Ok(None);
        };
        match guard.prune() {
            Ok(Guarded::Done(_)) => {}
            Ok(Guarded::SteppedDown { .. }) => return Ok(None),
            Err(error) => {
                tracing::warn!(%error, "former leaders' records stay; the next leader tries again");
            }
        }
        let bytes = guard
            .newest()
            .map(|newest| guard.read(newest))
            .transpose()?;
        let present = match bytes.flatten() {
            Some(bytes) => serde_json::from_slice(&bytes).map_err(|error| GuardError::Corrupt {
                name: "the counter".to_owned(),
                reason: error.to_string(),
            })?,
            None => Record::default(),
        };
        Ok(Some(Leading {
            leadership,
            guard,
            present,
        }))
    }

    /// The clock is read right before the effect; the store tells whether it took hold. Blocks.
    fn count(&mut self, request: u64) -> Result<u64, String> {
        if request <= self.present.request {
            return Ok(self.present.value);
        }
        let next = Record {
            value: self.present.value + 1,
            request,
        };
        let bytes = serde_json::to_vec(&next).map_err(|error| error.to_string())?;
        let number = self.guard.newest().map_or(0, |newest| newest.sequence) + 1;
        let checked = self.leadership.deadline.check();
        checked.map_err(|passed| passed.to_string())?;
        match self.guard.publish(number, &bytes) {
            Ok(Guarded::Done(_)) => self.present = next,
            Ok(Guarded::SteppedDown { highest }) => return Err(format!("epoch {highest} leads")),
            Err(error) => return Err(error.to_string()),
        }
        if number.is_multiple_of(KEPT)
            && let Err(error) = self.guard.retire_below(number)
        {
            tracing::warn!(%error, "old values could not be removed; the next leader tries again");
        }
        Ok(next.value)
    }
}

/// Nothing unless this process leads.
pub type Present = Arc<Mutex<Option<Leading>>>;

/// The endpoint. Whoever leads sets its token; without one it refuses every call.
#[derive(RpcEndpoint, Debug)]
#[rpc(gateways(CounterGateway), fenced)]
pub struct Counter {
    /// The process's number.
    pub number: u32,
    /// What it leads with.
    pub present: Present,
}

impl Actor for Counter {
    type Context = Context<Self>;
}

impl Handler<Count> for Counter {
    type Result = ResponseFuture<Result<Counted, NotCounted>>;

    fn handle(&mut self, Count { request }: Count, _: &mut Context<Self>) -> Self::Result {
        let (present, by) = (self.present.clone(), self.number);
        let counting = move || {
            let mut present = present.lock().unwrap_or_else(PoisonError::into_inner);
            let leading = present.as_mut().ok_or("this process does not lead")?;
            let value = leading.count(request)?;
            let token = leading.leadership.token;
            Ok(Counted { value, by, token })
        };
        Box::pin(async move {
            let counted = tokio::task::spawn_blocking(counting).await;
            let counted = counted.unwrap_or_else(|error| Err(error.to_string()));
            counted.map_err(|reason: String| NotCounted { reason })
        })
    }
}
