//! What a fenced endpoint promises to the crates above it: work of an old token does not run.

use std::time::Duration;

use actix::prelude::*;
use lockkeeper_core::prelude::*;
use uuid::Uuid;

const LIMIT: Duration = Duration::from_secs(60);

rpc_gateway! {
    /// Nothing is asked of it.
    fenced TallyGateway("test.Tally", version = 1) { }
}

#[derive(RpcEndpoint, Default)]
#[rpc(gateways(TallyGateway), fenced)]
struct Tally {
    ran: Vec<&'static str>,
}

impl Actor for Tally {
    type Context = Context<Self>;
}

/// Whatever the work is: run, called, or scheduled.
#[actix::test]
async fn work_queued_under_an_old_token_resolves_to_fenced() {
    let token = |epoch| FencingToken::new(1_u64, epoch, Uuid::new_v4());
    let service = RpcService::builder().build().unwrap();
    let server = service.start_fenced_server("tally", Tally::default(), token(1));
    let server = server.await.unwrap();
    server.start().await.unwrap();
    let run = server.run_async(|tally, _| tally.ran.push("run"));
    let scheduled =
        server.schedule_run_async(Duration::ZERO, |tally, _| tally.ran.push("scheduled"));
    // It is queued when it is polled for the first time; this thread is the endpoint's.
    let calling = server.call_async(LIMIT, |tally, _| tally.ran.push("called"));
    tokio::pin!(calling);
    let first = std::future::poll_fn(|context| {
        std::task::Poll::Ready(calling.as_mut().poll(context).is_pending())
    });
    assert!(first.await, "it ran on a thread of its own");
    server.set_token(token(2));
    assert!(run.await.unwrap_err().is_fenced());
    assert!(scheduled.await.unwrap_err().is_fenced());
    assert!(calling.await.unwrap_err().is_fenced());
    let ran = server.call_async(LIMIT, |tally, _| tally.ran.clone());
    assert_eq!(ran.await.unwrap(), Vec::<&str>::new());
}
