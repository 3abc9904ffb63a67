//! One-way messages to a slow endpoint in another process: taken or `Full`, none lost, and memory
//! stays bounded. `LOCKKEEPER_FLOW_SECONDS=60` makes it the long run.

use std::time::{Duration, Instant};

use actix::prelude::*;
use lockkeeper_core::prelude::*;
use serde::{Deserialize, Serialize};

use crate::peer::Peer;
use crate::support::*;

/// A kibibyte of work, one way.
#[derive(Message, Serialize, Deserialize)]
#[rtype(result = "()")]
pub struct Work(pub String);

/// How much work was done.
#[derive(Message, Serialize, Deserialize)]
#[rtype(result = "u64")]
pub struct Done;

rpc_gateway! {
    /// What a slow endpoint is asked.
    pub WorkGateway("test.Work", version = 1) { Work, Done }
}

/// Takes a while for each piece of work, on its own thread.
#[derive(RpcEndpoint, Default)]
#[rpc(gateways(WorkGateway))]
pub struct Slow {
    done: u64,
}

impl Actor for Slow {
    type Context = Context<Self>;
}

impl Handler<Work> for Slow {
    type Result = ();

    #[expect(
        clippy::disallowed_methods,
        reason = "it holds its thread: slowness is the test"
    )]
    fn handle(&mut self, _: Work, _: &mut Context<Self>) {
        std::thread::sleep(Duration::from_millis(1));
        self.done += 1;
    }
}

impl Handler<Done> for Slow {
    type Result = u64;

    fn handle(&mut self, Done: Done, _: &mut Context<Self>) -> u64 {
        self.done
    }
}

fn seconds() -> Duration {
    let set = std::env::var("LOCKKEEPER_FLOW_SECONDS");
    Duration::from_secs(set.map_or(2, |seconds| seconds.parse().unwrap()))
}

#[actix::test]
async fn every_one_way_message_is_taken_or_full_and_what_is_taken_is_handled() {
    let peer = Peer::start();
    let service = service().await;
    let slow = service
        .connect::<WorkGateway>(&peer.endpoint("slow"))
        .await
        .unwrap();
    let counter = service
        .connect::<CounterGateway>(&peer.address)
        .await
        .unwrap();
    let (mut taken, mut full) = (0_u64, 0_u64);
    let mut send = |work: &Gateway<WorkGateway>| match work.try_send(Work("x".repeat(1024))) {
        Ok(()) => taken += 1,
        Err(error) => {
            assert_eq!(error.kind(), RpcErrorKind::Full, "{error}");
            full += 1;
        }
    };
    // A burst, and then as fast as credit comes back.
    for _ in 0..100_000 {
        send(&slow);
    }
    let begun = Instant::now();
    while begun.elapsed() < seconds() {
        for _ in 0..10 {
            send(&slow);
        }
        // Another endpoint of the same connection answers all the while.
        assert_answers(&counter).await;
    }
    assert!(full > 0, "nothing was ever full");
    assert!(peer.peak_memory_bytes() < 128 << 20);
    // Behind all that were taken.
    let handled = slow.send(Done).timeout(Duration::from_secs(60)).await;
    assert_eq!(handled.unwrap(), taken);
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
