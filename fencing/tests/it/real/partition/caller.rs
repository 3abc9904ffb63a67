//! A process that reads and writes the register from several tasks, and tells what it did when.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use lockkeeper_core::prelude::*;
use lockkeeper_core::{Outcome, RpcError};
use lockkeeper_fencing::LeaderGateway;
use lockkeeper_remote::prelude::*;

use super::child::{orders, tell};
use super::history::{Event, Timed};
use super::member::BIND;
use super::place::Place;
use super::register::{Done, NotDone, Read, RegisterGateway, Write};

pub(super) const CALLER: &str = "LOCKKEEPER_TEST_CALLER";
/// Which of several callers this is.
pub(super) const NUMBER: &str = "LOCKKEEPER_TEST_CALLER_NUMBER";
/// Their calls are numbered from here, so that each has a number, and a value, of its own.
const CALLS: u64 = 1_000_000;

/// How many call at once.
const CLIENTS: u64 = 3;
/// Between two calls of a client: the checker's time grows with the square of the calls.
const PAUSE: Duration = Duration::from_millis(80);
/// How long a call may take, elections included.
const LIMIT: Duration = Duration::from_secs(2);

/// Not a test by itself: what callers run. Without its environment it does nothing.
#[test]
fn caller() {
    if let Ok(place) = std::env::var(CALLER) {
        let bind = std::env::var(BIND).unwrap();
        actix::System::new().block_on(run(Place::from_text(&place), &bind));
    }
}

async fn run(place: Place, bind: &str) {
    let service = RpcService::builder().bind(bind).allow_insecure(true);
    let service = service.start().await.unwrap();
    let register = LeaderGateway::<RegisterGateway>::new(service, place.retrieval());
    let number: u64 = std::env::var(NUMBER).unwrap().parse().unwrap();
    let calls = Arc::new(AtomicU64::new(number * CALLS));
    let ends = Arc::new(AtomicBool::new(false));
    let clients = (number * CLIENTS..(number + 1) * CLIENTS).map(|client| {
        let (register, calls, ends) = (register.clone(), calls.clone(), ends.clone());
        actix::spawn(async move {
            while !ends.load(Ordering::SeqCst) {
                let call = calls.fetch_add(1, Ordering::SeqCst) + 1;
                act(&register, client, call).await;
                tokio::time::sleep(PAUSE).await;
            }
        })
    });
    let clients: Vec<_> = clients.collect();
    // There are no orders: they end, and so does this.
    while orders().recv().await.is_some() {}
    ends.store(true, Ordering::SeqCst);
    for client in clients {
        client.await.unwrap();
    }
    tell("end of the calls");
}

/// Every other call is a write, of a value that no other has.
async fn act(register: &LeaderGateway<RegisterGateway>, client: u64, call: u64) {
    let writes = (call / CLIENTS + client).is_multiple_of(2);
    let event = if writes {
        Event::Writes {
            call,
            client,
            value: call,
        }
    } else {
        Event::Reads { call, client }
    };
    tell(&Timed::now(event).to_text());
    let answered = if writes {
        register.send(Write(call), LIMIT).await
    } else {
        register.send(Read, LIMIT).await
    };
    tell(&Timed::now(outcome(call, answered)).to_text());
}

fn outcome(call: u64, answered: Result<Result<Done, NotDone>, RpcError>) -> Event {
    match answered {
        Ok(Ok(Done { value, epoch })) => Event::Done { call, value, epoch },
        Ok(Err(NotDone::Refused(_))) => Event::Refused { call },
        Ok(Err(NotDone::Unknown(_))) => Event::Unknown { call },
        Err(error) if error.outcome() == Outcome::Unknown => Event::Unknown { call },
        Err(_) => Event::Refused { call },
    }
}
