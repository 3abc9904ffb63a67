//! What a local ask through a gateway costs, beside actix's own `Addr::send` in the same run.
//!
//! `cargo run --release -p lockkeeper-core --example local_call_cost`

use std::time::Instant;

use actix::prelude::*;
use lockkeeper_core::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Message, Serialize, Deserialize)]
#[rtype(result = "i64")]
struct Add(i64);

rpc_gateway! {
    /// What the counter can be asked.
    CounterGateway("example.Counter", version = 1) { Add }
}

#[derive(RpcEndpoint, Default)]
#[rpc(gateways(CounterGateway))]
struct Counter {
    total: i64,
}

impl Actor for Counter {
    type Context = Context<Self>;
}

impl Handler<Add> for Counter {
    type Result = i64;

    fn handle(&mut self, Add(n): Add, _: &mut Context<Self>) -> i64 {
        self.total += n;
        self.total
    }
}

/// Asks per second with so many tasks that each ask one after the other.
async fn rate<F, T>(calls: u32, in_flight: u32, ask: F) -> f64
where
    F: Fn() -> T + Clone + 'static,
    T: Future<Output = bool>,
{
    let begin = Instant::now();
    let tasks = (0..in_flight).map(|_| {
        let ask = ask.clone();
        actix::spawn(async move {
            for _ in 0..calls / in_flight {
                assert!(ask().await, "a call failed");
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        assert!(task.await.is_ok(), "a task failed");
    }
    f64::from(calls) / begin.elapsed().as_secs_f64()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

async fn compare(name: &str, server: &RpcServer<Counter>, calls: u32) -> Result<(), RpcError> {
    let (Some(addr), gateway) = (server.addr(), server.gateway::<CounterGateway>()) else {
        return Ok(());
    };
    for in_flight in [1, 64, 1024] {
        let (mut theirs, mut ours) = (Vec::new(), Vec::new());
        for _ in 0..7 {
            let addr = addr.clone();
            theirs.push(
                rate(calls, in_flight, move || {
                    let ask = addr.send(Add(1));
                    async move { ask.await.is_ok() }
                })
                .await,
            );
            let gateway = gateway.clone();
            ours.push(
                rate(calls, in_flight, move || {
                    let ask = gateway.send(Add(1));
                    async move { ask.await.is_ok() }
                })
                .await,
            );
        }
        let (theirs, ours) = (median(theirs), median(ours));
        println!(
            "{name}, {in_flight} in flight: Addr::send {theirs:.0}/s, gateway {ours:.0}/s, \
             cost ratio {:.2}",
            theirs / ours
        );
    }
    Ok(())
}

fn main() -> Result<(), RpcError> {
    System::new().block_on(async {
        let service = RpcService::builder().build()?;
        let here = service.start_server("here", Counter::default()).await?;
        here.start().await?;
        compare("one arbiter", &here, 200_000).await?;
        let arbiter = Arbiter::new();
        let there = service
            .start_server_in(&arbiter.handle(), "there", Counter::default)
            .await?;
        there.start().await?;
        compare("two arbiters", &there, 40_000).await?;
        service.terminate().await?;
        arbiter.stop();
        Ok(())
    })
}
