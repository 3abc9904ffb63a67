//! What a local ask through a gateway costs, beside actix's own `Addr::send` in the same run.
//!
//! On one arbiter and across two; metrics are on, as they always are.

use std::time::Instant;

use actix::prelude::*;
use bench_harness::Failure;
use bench_harness::report::Goal::AtMost;
use bench_harness::report::{Figure, median};
use lockkeeper_core::prelude::*;
use serde::{Deserialize, Serialize};

const ROUNDS: usize = 7;

#[derive(Message, Serialize, Deserialize)]
#[rtype(result = "i64")]
struct Add(i64);

rpc_gateway! { CounterGateway("bench.Counter", version = 1) { Add } }

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

    fn handle(&mut self, Add(number): Add, _: &mut Context<Self>) -> i64 {
        self.total += number;
        self.total
    }
}

/// Asks per second with so many tasks that each ask one after the other.
pub async fn rate<F, T>(calls: u32, in_flight: u32, ask: F) -> Result<f64, Failure>
where
    F: Fn() -> T + Clone + 'static,
    T: Future<Output = bool>,
{
    let begin = Instant::now();
    let tasks = (0..in_flight).map(|_| {
        let ask = ask.clone();
        actix::spawn(async move {
            for _ in 0..calls / in_flight {
                if !ask().await {
                    return false;
                }
            }
            true
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        if !task.await? {
            return Err("a call failed".into());
        }
    }
    Ok(f64::from(calls) / begin.elapsed().as_secs_f64())
}

/// Writes one line a figure: name, ratio of costs, and both rates.
async fn compare(place: &str, server: &RpcServer<Counter>, calls: u32) -> Result<(), Failure> {
    let addr = server.addr().ok_or("the endpoint is gone")?;
    let gateway = server.gateway::<CounterGateway>();
    for in_flight in [1, 64, 1024] {
        let (mut theirs, mut ours) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let addr = addr.clone();
            let ask = move || {
                let ask = addr.send(Add(1));
                async move { ask.await.is_ok() }
            };
            theirs.push(rate(calls, in_flight, ask).await?);
            let gateway = gateway.clone();
            let ask = move || {
                let ask = gateway.send(Add(1));
                async move { ask.await.is_ok() }
            };
            ours.push(rate(calls, in_flight, ask).await?);
        }
        let ratio = median(theirs.iter().zip(&ours).map(|(theirs, ours)| theirs / ours));
        println!(
            "{place} {in_flight} {ratio} {} {}",
            median(theirs),
            median(ours)
        );
    }
    Ok(())
}

/// In a process of its own, so that nothing else runs on its arbiters.
pub fn measure() -> Result<(), Failure> {
    System::new().block_on(async {
        let service = RpcService::builder().build()?;
        let here = service.start_server("here", Counter::default()).await?;
        here.start().await?;
        compare("one", &here, 200_000).await?;
        let arbiter = Arbiter::new();
        let there = service
            .start_server_in(&arbiter.handle(), "there", Counter::default)
            .await?;
        there.start().await?;
        compare("two", &there, 40_000).await?;
        service.terminate().await?;
        arbiter.stop();
        Ok(())
    })
}

/// The figures of a run of [`measure`].
pub fn figures() -> Result<Vec<Figure>, Failure> {
    let output = std::process::Command::new(std::env::current_exe()?)
        .arg("local")
        .output()?;
    let mut figures = Vec::new();
    for line in String::from_utf8(output.stdout)?.lines() {
        eprintln!("local ask, arbiters, in flight, ratio, Addr::send/s, gateway/s: {line}");
        let fields: Vec<&str> = line.split(' ').collect();
        let [place, in_flight, ratio, theirs, ours] = fields[..] else {
            return Err(format!("no figures: {line}").into());
        };
        let place = if place == "one" { "" } else { ".two_arbiters" };
        let name = match in_flight {
            "1" => format!("rpc.local{place}.ratio_actix"),
            many => format!("rpc.local.{many}{place}.ratio_actix"),
        };
        let goal = AtMost(if in_flight == "1" { 1.25 } else { 1.0 });
        figures.push(
            Figure::new(&name, "of cost", goal, Some(ratio.parse()?))
                .runs(ROUNDS)
                .peer("actix", theirs.parse()?)
                .peer("lockkeeper", ours.parse()?),
        );
    }
    Ok(figures)
}
