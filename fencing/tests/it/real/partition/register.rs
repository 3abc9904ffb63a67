//! A register behind a leader: one value, kept in a guarded series, read and written by calls.

use std::sync::{Arc, Mutex, PoisonError};

use actix::prelude::*;
use lockkeeper_core::prelude::*;
use lockkeeper_fencing::election::Leadership;
use lockkeeper_fencing::guard::{EpochGuard, GuardError, GuardStore, Guarded};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::UnboundedSender;

/// After how many values the ones before are removed from the store.
const KEPT: u64 = 20;

#[derive(Message, Serialize, Deserialize, Clone, Debug)]
#[rtype(result = "Result<Done, NotDone>")]
pub(super) struct Write(pub(super) u64);

#[derive(Message, Serialize, Deserialize, Clone, Debug)]
#[rtype(result = "Result<Done, NotDone>")]
pub(super) struct Read;

/// The value that was written or read, and under which epoch.
#[derive(Serialize, Deserialize, Clone, Copy, Debug)]
pub(super) struct Done {
    pub(super) value: u64,
    pub(super) epoch: u64,
}

#[derive(Serialize, Deserialize, Clone, Debug)]
pub(super) enum NotDone {
    /// It has no effect, now and later.
    Refused(String),
    /// It may have one.
    Unknown(String),
}

rpc_gateway! {
    /// The register of whoever leads.
    pub(super) fenced RegisterGateway("test.Register", version = 1) { Write, Read }
}

/// The register while this process leads.
#[derive(Debug)]
pub(super) struct Leading {
    leadership: Leadership,
    guard: EpochGuard,
    value: u64,
    is_careless: bool,
}

/// Makes members that look at no deadline and do not hear that they are revoked: to show that what they
/// do is found out.
pub(super) const CARELESS: &str = "LOCKKEEPER_TEST_CARELESS";

pub(super) fn is_careless() -> bool {
    std::env::var(CARELESS).is_ok()
}

impl Leading {
    pub(super) fn enter(
        store: Arc<dyn GuardStore>,
        leadership: Leadership,
    ) -> Result<Option<Leading>, GuardError> {
        let Some(guard) = EpochGuard::enter_with(store, &leadership.token)?.done() else {
            return Ok(None);
        };
        let newest = guard
            .newest()
            .map(|newest| guard.read(newest))
            .transpose()?;
        let text = newest
            .flatten()
            .map(|bytes| String::from_utf8(bytes).unwrap());
        let value = text.map_or(0, |text| text.parse().unwrap());
        Ok(Some(Leading {
            leadership,
            guard,
            value,
            is_careless: is_careless(),
        }))
    }

    fn done(&self) -> Done {
        Done {
            value: self.value,
            epoch: self.leadership.token.epoch,
        }
    }

    fn check(&self) -> Result<(), NotDone> {
        if self.is_careless {
            return Ok(());
        }
        let checked = self.leadership.deadline.check();
        checked.map_err(|passed| NotDone::Refused(passed.to_string()))
    }

    /// What is in memory is the newest as long as nobody else may lead.
    fn read(&self) -> Result<Done, NotDone> {
        self.check()?;
        Ok(self.done())
    }

    fn write(&mut self, value: u64) -> Result<Done, NotDone> {
        self.check()?;
        let number = self.guard.newest().map_or(0, |newest| newest.sequence) + 1;
        match self.guard.publish(number, value.to_string().as_bytes()) {
            Ok(Guarded::Done(_)) => self.value = value,
            // The next leader may have found the manifest before it chose its base.
            Ok(Guarded::SteppedDown { highest }) => {
                return Err(NotDone::Unknown(format!("epoch {highest} leads")));
            }
            Err(error @ GuardError::NotWritten { .. }) => {
                return Err(NotDone::Refused(error.to_string()));
            }
            Err(error) => return Err(NotDone::Unknown(error.to_string())),
        }
        if number.is_multiple_of(KEPT) {
            // If it fails, a later one removes more.
            let _ = self.guard.retire_below(number);
        }
        Ok(self.done())
    }
}

/// Nothing unless this process leads and can serve.
pub(super) type Present = Arc<Mutex<Option<Leading>>>;

/// The endpoint. It gives up what it leads with when it cannot know the value any longer, and says so.
#[derive(RpcEndpoint, Clone)]
#[rpc(gateways(RegisterGateway), fenced)]
pub(super) struct Register {
    pub(super) present: Present,
    pub(super) given_up: UnboundedSender<()>,
}

impl Actor for Register {
    type Context = Context<Self>;
}

impl Register {
    fn act(
        &self,
        act: impl FnOnce(&mut Leading) -> Result<Done, NotDone> + Send + 'static,
    ) -> ResponseFuture<Result<Done, NotDone>> {
        let Register { present, given_up } = self.clone();
        let acting = move || {
            let mut present = present.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(leading) = present.as_mut() else {
                return Err(NotDone::Refused("this process does not lead".to_owned()));
            };
            let done = act(leading);
            if matches!(done, Err(NotDone::Unknown(_))) && !is_careless() {
                *present = None;
                let _ = given_up.send(());
            }
            done
        };
        Box::pin(async move {
            let done = tokio::task::spawn_blocking(acting).await;
            done.unwrap_or_else(|error| Err(NotDone::Unknown(error.to_string())))
        })
    }
}

impl Handler<Write> for Register {
    type Result = ResponseFuture<Result<Done, NotDone>>;

    fn handle(&mut self, Write(value): Write, _: &mut Context<Self>) -> Self::Result {
        self.act(move |leading| leading.write(value))
    }
}

impl Handler<Read> for Register {
    type Result = ResponseFuture<Result<Done, NotDone>>;

    fn handle(&mut self, _: Read, _: &mut Context<Self>) -> Self::Result {
        self.act(|leading| leading.read())
    }
}
