//! Fetching and decoding rows: Lockkeeper beside Canal's own Java client, on the same recorded frames.
//!
//! `cargo run --release` (in `bench/canal/`) records batches of the embedded Canal server, whose entries have the
//! real one's form, and plays them to each client over loopback as a server would, in interleaved pairs. Clients are compared by
//! their own CPU time: on the real path the server is the bottleneck, and the wall clock says little about a client.
//! `PAIRS` (5) and `ROWS` (1,000,000) of the environment set how much is done. Without Java or its jars, which
//! `tests/services/jars` builds, those figures say that they were not measured; and so does the wall clock's without a real
//! server (`src/real.rs`). The other roles are the clients' processes that it starts: `client MODE ADDRESS ENTRIES` and
//! `real MODE TABLE`; and `serve`, which plays only, and says ADDRESS and ENTRIES for a client under a profiler.

mod allocations;
mod client;
mod driver;
mod frames;
mod java;
mod memory;
mod real;
mod replay;

use bench_harness::Failure;

#[global_allocator]
static ALLOCATOR: allocations::Counting = allocations::Counting;

/// A row of the table that is drained.
#[derive(Debug, serde::Deserialize)]
struct Order {
    id: u64,
    quantity: i32,
    customer: String,
    amount: rust_decimal::Decimal,
    placed: String,
}

impl Order {
    /// So that nothing is optimised away.
    fn check(&self) -> u64 {
        let digits = u64::from(self.amount.scale());
        let texts = self.customer.len() + self.placed.len();
        self.id
            ^ u64::from(self.quantity.unsigned_abs())
            ^ digits
            ^ u64::try_from(texts).unwrap_or(0)
    }
}

/// Columns of a row.
const COLUMNS: u64 = 5;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [] => driver::run(),
        ["serve"] => driver::serve(),
        ["real", mode, table] => real::run(mode.parse()?, table),
        ["client", mode, address, rows] => client::run(mode.parse()?, address, rows.parse()?),
        _ => Err("see the top of src/main.rs".into()),
    }
}
