//! Calls between two processes on loopback: Lockkeeper beside a bare connection and actix's own mailbox.
//!
//! `cargo run --release -p bench-rpc` (in `bench/`) measures each cell in interleaved pairs, prints a table of
//! medians with their goals and writes them to `bench/results/`. `PAIRS` (5) and `SECONDS` (1) of the
//! environment set how many pairs and how long a cell runs. The other roles are the processes that it starts:
//! `server PEER` and `client PEER ADDRESS SERVER_PID MODE BYTES IN_FLIGHT SECONDS`.

mod cell;
mod driver;
mod mailbox;
mod ours;
mod raw;
mod report;

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [] => driver::run(),
        ["server", "raw"] => raw::serve(),
        ["server", "lockkeeper"] => ours::serve(),
        [
            "client",
            peer,
            address,
            pid,
            mode,
            bytes,
            in_flight,
            seconds,
        ] => {
            let cell = cell::Cell {
                mode: mode.parse()?,
                bytes: bytes.parse()?,
                in_flight: in_flight.parse()?,
                seconds: seconds.parse()?,
                server: pid.parse()?,
            };
            let result = match peer {
                "raw" => raw::measure(address, &cell)?,
                "lockkeeper" => ours::measure(address, &cell)?,
                "actix" => mailbox::measure(&cell)?,
                other => return Err(format!("no peer {other}").into()),
            };
            println!("RESULT {}", serde_json::to_string(&result)?);
            Ok(())
        }
        _ => Err("see the top of src/main.rs".into()),
    }
}
