//! Calls between two processes on loopback: Lockkeeper beside its peers.
//!
//! `cargo build --release && cargo run --release -p bench-rpc` (in `bench/`) measures every cell in interleaved rounds,
//! prints a table of medians with their goals and writes them to `bench/results/`. `ROUNDS` (5) and `SECONDS` (1) of the
//! environment set how many rounds and how long a cell runs; `ONLY` names parts, see [`figures`]. The other roles are
//! the processes that it starts.

mod driver;
mod figures;
mod flow;
mod idle;
mod instructions;
mod local;
mod mailbox;
mod ours;
mod program;
mod raw;
mod wire;

use bench_harness::Failure;
use bench_harness::cell::Cell;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [] => figures::run(),
        ["server", "raw"] => raw::serve(),
        ["server", "lockkeeper"] => ours::serve(ours::Sockets::OwnThread),
        ["server", "lockkeeper-shared"] => ours::serve(ours::Sockets::Shared),
        ["client", peer, address, ref cell @ ..] => {
            let cell = Cell::parse(cell)?;
            bench_harness::tell_result(&match peer {
                "raw" => raw::measure(address, &cell)?,
                "lockkeeper" => ours::measure(address, &cell, ours::Sockets::OwnThread)?,
                "lockkeeper-shared" => ours::measure(address, &cell, ours::Sockets::Shared)?,
                "actix" => mailbox::measure(&cell)?,
                other => return Err(format!("no peer {other}").into()),
            })
        }
        ["local"] => local::measure(),
        ["instructions", kind, calls, in_flight] => {
            instructions::run(kind, calls.parse()?, in_flight.parse()?)
        }
        ["idle", address, connections] => idle::hold(address, connections.parse()?),
        _ => Err("see the top of src/main.rs".into()),
    }
}
