//! For tests of your endpoints: no network, no waiting, no lost message unseen.
//!
//! ```
//! use actix::prelude::*;
//! use lockkeeper_core::{prelude::*, testing::{Test, run}};
//! # use serde::{Deserialize, Serialize};
//! # #[derive(Message, Serialize, Deserialize)]
//! # #[rtype(result = "i64")]
//! # struct Add(i64);
//! # rpc_gateway! { /// What a counter can be asked.
//! #     CounterGateway("example.Counter", version = 1) { Add } }
//! # #[derive(RpcEndpoint, Default)]
//! # #[rpc(gateways(CounterGateway))]
//! # struct Counter { total: i64 }
//! # impl Actor for Counter { type Context = Context<Self>; }
//! # impl Handler<Add> for Counter {
//! #     type Result = i64;
//! #     fn handle(&mut self, Add(n): Add, _: &mut Context<Self>) -> i64 { self.total += n; self.total }
//! # }
//! fn a_counter_counts() {
//!     run(async {
//!         let test = Test::new();
//!         let counter = test.start(Counter::default()).await.gateway::<CounterGateway>();
//!         assert_eq!(counter.send(Add(5)).await.unwrap(), 5);
//!         test.service().terminate().await.unwrap();
//!         counter.do_send(Add(1));
//!         assert_eq!(test.dead_letters().next().await.method, "Add");
//!     });
//! }
//! # a_counter_counts();
//! ```
//!
//! [`Test`]'s calls go through the codec, as they would between processes: a message that cannot be
//! written or read fails here, not in production. [`run_paused`] has a clock that only moves when
//! it is told to, for deadlines, schedules, back-off and limits of hooks.
//!
//! Not API-stable: may change in a minor release. For faults on the wire see the transport of
//! `lockkeeper-remote`, feature `testing`.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use actix::System;
use tokio::sync::Notify;

use crate::{
    dead_letter::{DeadLetter, DeadLetterSink},
    endpoint::RpcEndpoint,
    gateway::Unfenced,
    server::RpcServer,
    service::{RpcService, RpcServiceBuilder},
};

/// Against a hang; never a pass mark.
const LIMIT: Duration = Duration::from_secs(60);

/// Runs a test on an actix System of its own.
///
/// # Panics
/// If it takes longer than a minute.
pub fn run<F: Future>(test: F) -> F::Output {
    System::new().block_on(limited(test))
}

/// The same with a clock that stands still: it moves by [`advance`], and, when every task waits, to
/// the next timer at once. A minute's back-off takes no time.
///
/// # Panics
/// If no runtime can be made.
pub fn run_paused<F: Future>(test: F) -> F::Output {
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap_or_else(|error| panic!("no runtime: {error}"))
    };
    System::with_tokio_rt(runtime).block_on(test)
}

async fn limited<F: Future>(test: F) -> F::Output {
    match tokio::time::timeout(LIMIT, test).await {
        Ok(output) => output,
        Err(_) => panic!("the test took longer than {LIMIT:?}"),
    }
}

/// Moves the clock of [`run_paused`] on.
pub async fn advance(time: Duration) {
    tokio::time::advance(time).await;
}

/// A service for one test: its calls go through the codec, its dead letters are kept.
#[derive(Debug)]
pub struct Test {
    service: RpcService,
    letters: RecordedLetters,
}

impl Default for Test {
    fn default() -> Self {
        Self::new()
    }
}

impl Test {
    /// With every setting at its default but `force_serialization`.
    ///
    /// # Panics
    /// Outside [`run`] and [`run_paused`].
    #[must_use]
    pub fn new() -> Self {
        Self::with(|builder| builder)
    }

    /// With settings of your own.
    ///
    /// # Panics
    /// As [`new`](Self::new), and for settings that are not allowed.
    #[must_use]
    pub fn with(settings: impl FnOnce(RpcServiceBuilder) -> RpcServiceBuilder) -> Self {
        let letters = RecordedLetters::default();
        let builder = settings(RpcService::builder().force_serialization(true));
        let service = builder
            .dead_letter_sink(Arc::new(letters.clone()))
            .build()
            .unwrap_or_else(|error| panic!("no service for the test: {error}"));
        Self { service, letters }
    }

    /// The service.
    #[must_use]
    pub fn service(&self) -> &RpcService {
        &self.service
    }

    /// What was not handled.
    #[must_use]
    pub fn dead_letters(&self) -> &RecordedLetters {
        &self.letters
    }

    /// Makes `actor` an endpoint with a random name, and starts it.
    ///
    /// # Panics
    /// If `on_start` fails.
    pub async fn start<A>(&self, actor: A) -> RpcServer<A>
    where
        A: RpcEndpoint<Fencing = Unfenced>,
    {
        let started = async {
            let name = crate::EndpointId::random("test")?;
            let server = self.service.start_server(name.as_str(), actor).await?;
            server.start().await.map(|()| server)
        };
        started
            .await
            .unwrap_or_else(|error| panic!("the endpoint does not start: {error}"))
    }
}

/// A dead-letter sink that keeps what it gets, for a test to look at. Unbounded: not for production.
#[derive(Clone, Debug, Default)]
pub struct RecordedLetters {
    kept: Arc<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    letters: Mutex<Vec<DeadLetter>>,
    arrived: Notify,
}

impl RecordedLetters {
    /// Takes all that have arrived, oldest first.
    #[must_use]
    pub fn take(&self) -> Vec<DeadLetter> {
        std::mem::take(&mut *self.lock())
    }

    /// Takes the oldest, once there is one.
    pub async fn next(&self) -> DeadLetter {
        loop {
            let arrived = self.kept.arrived.notified();
            let mut arrived = std::pin::pin!(arrived);
            arrived.as_mut().enable();
            {
                let mut letters = self.lock();
                if !letters.is_empty() {
                    return letters.remove(0);
                }
            }
            arrived.await;
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<DeadLetter>> {
        self.kept
            .letters
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl DeadLetterSink for RecordedLetters {
    fn dead_letter(&self, letter: &DeadLetter) {
        self.lock().push(letter.clone());
        self.kept.arrived.notify_waiters();
    }
}
