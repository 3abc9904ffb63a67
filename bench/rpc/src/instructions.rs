//! What a token costs a call: instructions of a fenced call less those of a plain one, counted by callgrind. Beside them
//! those of actix's own `Addr::send`.

use std::process::Command;

use actix::prelude::*;
use bench_harness::Failure;
use bench_harness::report::Figure;
use bench_harness::report::Goal::AtMost;
use lockkeeper_core::prelude::*;
use lockkeeper_core::{FencingToken, Lineage};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::local::rate;

#[derive(Message, Serialize, Deserialize)]
#[rtype(result = "i64")]
struct Add(i64);

rpc_gateway! { PlainGateway("bench.Plain", version = 1) { Add } }
rpc_gateway! { fenced LeaderGateway("bench.Leader", version = 1) { Add } }

#[derive(RpcEndpoint, Default)]
#[rpc(gateways(PlainGateway))]
struct Plain(i64);

#[derive(RpcEndpoint, Default)]
#[rpc(gateways(LeaderGateway), fenced)]
struct Leader(i64);

impl Actor for Plain {
    type Context = Context<Self>;
}

impl Actor for Leader {
    type Context = Context<Self>;
}

impl Handler<Add> for Plain {
    type Result = i64;

    fn handle(&mut self, Add(number): Add, _: &mut Context<Self>) -> i64 {
        self.0 += number;
        self.0
    }
}

impl Handler<Add> for Leader {
    type Result = i64;

    fn handle(&mut self, Add(number): Add, _: &mut Context<Self>) -> i64 {
        self.0 += number;
        self.0
    }
}

/// Makes the calls within this process, so many at a time.
pub fn run(kind: &str, calls: u32, in_flight: u32) -> Result<(), Failure> {
    System::new().block_on(async {
        let service = RpcService::builder().build()?;
        match kind {
            "fenced" => {
                let token = FencingToken::new(Lineage::new(1), 1, Uuid::from_u128(1));
                let server = service
                    .start_fenced_server("leader", Leader::default(), token)
                    .await?;
                server.start().await?;
                let gateway = service
                    .connect_fenced::<LeaderGateway>(&server.address(), token)
                    .await?;
                let ask = move || {
                    let ask = gateway.send(Add(1));
                    async move { ask.await.is_ok() }
                };
                rate(calls, in_flight, ask).await?;
            }
            "plain" => {
                let server = service.start_server("plain", Plain::default()).await?;
                server.start().await?;
                let gateway = service.connect::<PlainGateway>(&server.address()).await?;
                let ask = move || {
                    let ask = gateway.send(Add(1));
                    async move { ask.await.is_ok() }
                };
                rate(calls, in_flight, ask).await?;
            }
            "actix" => {
                let actor = Plain::default().start();
                let ask = move || {
                    let ask = actor.send(Add(1));
                    async move { ask.await.is_ok() }
                };
                rate(calls, in_flight, ask).await?;
            }
            other => return Err(format!("no kind of call {other}").into()),
        }
        Ok(())
    })
}

/// Instructions of one call: of many less of few, so that the start does not count.
fn of_one_call(kind: &str) -> Result<f64, Failure> {
    const FEW: u32 = 2_000;
    const MANY: u32 = 22_000;
    let count = |calls: u32| -> Result<f64, Failure> {
        let output = Command::new("valgrind")
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
            .arg(std::env::current_exe()?)
            .args(["instructions", kind, &calls.to_string(), "1"])
            .output()?;
        let report = String::from_utf8(output.stderr)?;
        let collected = report
            .lines()
            .find_map(|line| line.split_once("Collected : "));
        let (_, count) = collected.ok_or("valgrind told no count")?;
        Ok(count.trim().parse()?)
    };
    Ok((count(MANY)? - count(FEW)?) / f64::from(MANY - FEW))
}

/// Not measured where valgrind is missing.
pub fn figure() -> Figure {
    let name = "rpc.fenced.extra_instructions";
    let kinds = ["plain", "fenced", "actix"].map(of_one_call);
    match kinds.into_iter().collect::<Result<Vec<_>, _>>() {
        Ok(of) => Figure::new(name, "instructions", AtMost(60.0), Some(of[1] - of[0]))
            .runs(1)
            .peer("plain", of[0])
            .peer("fenced", of[1])
            .peer("actix", of[2]),
        Err(error) => {
            eprintln!("{name}: {error}");
            Figure::new(name, "instructions", AtMost(60.0), None)
        }
    }
}
