//! What stands idle: memory of a connection that nobody uses, and how long a service takes to start.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Instant;

use actix::prelude::*;
use bench_harness::Failure;
use bench_harness::report::Goal::AtMost;
use bench_harness::report::{Figure, median};
use lockkeeper_core::prelude::*;

use crate::driver::Server;
use crate::ours::{EchoGateway, Sockets, service};
use crate::program::Program;

const CONNECTIONS: usize = 200;
const STARTS: usize = 50;

/// Opens so many connections, each of a service of its own, says READY and keeps them until the pipe is closed.
pub fn hold(address: &str, connections: usize) -> Result<(), Failure> {
    let address: RpcAddress = address.parse()?;
    System::new().block_on(async {
        let mut held = Vec::new();
        for _ in 0..connections {
            let service = service(Sockets::Shared).await?;
            let gateway: Gateway<EchoGateway> = service.connect(&address).await?;
            held.push((service, gateway));
        }
        bench_harness::parent_gone();
        bench_harness::tell_ready(connections);
        std::future::pending().await
    })
}

/// KiB that a process has in memory.
fn resident(process: u32) -> Result<f64, Failure> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    Ok(number.ok_or("no VmRSS")?.parse()?)
}

fn idle_connection() -> Result<Figure, Failure> {
    let server = Server::start(&Program::Own, "lockkeeper")?;
    let hold = |connections: usize| -> Result<f64, Failure> {
        let mut holder = Command::new(std::env::current_exe()?)
            .args(["idle", &server.address, &connections.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = holder.stdout.take().ok_or("no output")?;
        let ready = BufReader::new(output).lines().next();
        ready.ok_or("the connections could not be made")??;
        let resident = resident(server.process());
        drop(holder.stdin.take());
        holder.wait()?;
        resident
    };
    // the first connection brings what is there once for all
    let before = hold(1)?;
    let of_one = (hold(CONNECTIONS)? - before) / (CONNECTIONS - 1) as f64;
    Ok(Figure::new("rpc.idle_connection.kib", "KiB", AtMost(64.0), Some(of_one)).runs(1))
}

fn service_start() -> Result<Figure, Failure> {
    System::new().block_on(async {
        let mut milliseconds = Vec::new();
        for _ in 0..STARTS {
            let begun = Instant::now();
            let service = service(Sockets::OwnThread).await?;
            milliseconds.push(begun.elapsed().as_secs_f64() * 1e3);
            service.terminate().await?;
        }
        let figure = Figure::new(
            "rpc.service_start.p50_ms",
            "ms",
            AtMost(50.0),
            Some(median(milliseconds)),
        );
        Ok(figure.runs(STARTS))
    })
}

pub fn figures() -> Result<[Figure; 2], Failure> {
    Ok([idle_connection()?, service_start()?])
}
