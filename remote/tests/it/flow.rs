//! Calls and one-way messages to a slow endpoint in another process: each taken or `Full`, none lost,
//! memory bounded on both sides, and the connection's other calls hardly later than without them.
//!
//! The long run, whose figures are in `docs/rpc-flow.md`:
//! `LOCKKEEPER_FLOW_SECONDS=60 cargo test --release -p lockkeeper-remote --test it -- --exact \
//! flow::both_ways_of_sending_stay_within_their_bounds --nocapture`

mod caller;
mod latency;

use std::process::Command;
use std::time::Duration;

use actix::prelude::*;
use lockkeeper_core::prelude::*;
use serde::{Deserialize, Serialize};

use crate::support::*;

/// A kibibyte of work, one way.
#[derive(Message, Serialize, Deserialize)]
#[rtype(result = "()")]
pub struct Work(pub String);

/// A kibibyte of work, with an answer.
#[derive(Message, Serialize, Deserialize)]
#[rtype(result = "()")]
pub struct Job(pub String);

/// How many one-way messages and calls were handled.
#[derive(Message, Serialize, Deserialize)]
#[rtype(result = "(u64, u64)")]
pub struct Done;

rpc_gateway! {
    /// What a slow endpoint is asked.
    pub WorkGateway("test.Work", version = 1) { Work, Job, Done }
}

/// Takes a while for each piece of work, on its own thread.
#[derive(RpcEndpoint)]
#[rpc(gateways(WorkGateway))]
pub struct Slow {
    pub pause: Duration,
    pub works: u64,
    pub jobs: u64,
}

impl Slow {
    #[expect(
        clippy::disallowed_methods,
        reason = "it holds its thread: slowness is the test"
    )]
    fn work(&self) {
        std::thread::sleep(self.pause);
    }
}

impl Actor for Slow {
    type Context = Context<Self>;
}

impl Handler<Work> for Slow {
    type Result = ();

    fn handle(&mut self, _: Work, _: &mut Context<Self>) {
        self.work();
        self.works += 1;
    }
}

impl Handler<Job> for Slow {
    type Result = ();

    fn handle(&mut self, _: Job, _: &mut Context<Self>) {
        self.work();
        self.jobs += 1;
    }
}

impl Handler<Done> for Slow {
    type Result = MessageResult<Done>;

    fn handle(&mut self, Done: Done, _: &mut Context<Self>) -> MessageResult<Done> {
        MessageResult((self.works, self.jobs))
    }
}

/// A large text, of which only the size comes back.
#[derive(Message, Serialize, Deserialize)]
#[rtype(result = "u64")]
pub struct Bulk(pub String);

rpc_gateway! {
    /// What takes large messages.
    pub BulkGateway("test.Bulk", version = 1) { Bulk }
}

/// Takes large messages.
#[derive(RpcEndpoint, Default)]
#[rpc(gateways(BulkGateway))]
pub struct Store;

impl Actor for Store {
    type Context = Context<Self>;
}

impl Handler<Bulk> for Store {
    type Result = u64;

    fn handle(&mut self, Bulk(text): Bulk, _: &mut Context<Self>) -> u64 {
        u64::try_from(text.len()).unwrap()
    }
}

/// Where to say what was measured, one `name value unit` a line.
const FIGURES: &str = "FIGURE ";

async fn in_a_process_of_its_own(test: &'static str) -> String {
    let child = tokio::task::spawn_blocking(move || {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--ignored", "--nocapture"])
            .env(caller::ALONE, "1")
            .output()
            .unwrap()
    });
    let child = child.await.unwrap();
    let (said, errors) = (
        String::from_utf8_lossy(&child.stdout),
        String::from_utf8_lossy(&child.stderr),
    );
    assert!(
        child.status.success() && said.contains(FIGURES),
        "{said}{errors}"
    );
    for figure in said.lines().filter_map(|line| line.split_once(FIGURES)) {
        println!("{}", figure.1);
    }
    said.into_owned()
}

#[actix::test]
async fn both_ways_of_sending_stay_within_their_bounds() {
    in_a_process_of_its_own("flow::caller::floods").await;
}

#[actix::test]
async fn a_transfer_of_64_mib_hardly_delays_a_small_call() {
    in_a_process_of_its_own("flow::caller::transfers").await;
}

#[actix::test]
async fn the_end_of_an_endpoint_is_noticed_without_a_call() {
    let (_one, server, two) = pair().await;
    let counter = two
        .connect::<CounterGateway>(&server.address())
        .await
        .unwrap();
    let closed = counter.closed();
    server.terminate().await.unwrap();
    let end = soon(closed).await;
    assert_eq!(end.kind(), RpcErrorKind::Stopped, "{end}");
    assert!(!counter.is_connected());
}
