//! Fills the orders table in MariaDB or MySQL and logs what it committed: the loader of the
//! example `orders` on real servers. The password is read from `ORDERS_SQL_PASSWORD`.
//!
//! SIGTERM and Ctrl-C end it as `--seconds` does: behind the transaction that is under way, with a log of
//! everything that was committed and with the row that ends the job.
#![deny(clippy::print_stdout, clippy::print_stderr)]

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use lockkeeper_examples::orders::database::{self, Pace, TableName};
use lockkeeper_examples::orders::script::Script;
use lockkeeper_examples::say;
use lockkeeper_examples::signals::Signals;

#[derive(Debug, Parser)]
#[command(about = "Fills the orders table; the password is read from ORDERS_SQL_PASSWORD")]
struct Options {
    /// The database: mysql://user@host:port
    #[arg(long)]
    url: String,
    /// The table: SCHEMA.TABLE
    #[arg(long, default_value = "shop.orders")]
    table: TableName,
    /// Make the table, empty, and end
    #[arg(long)]
    create: bool,
    /// Row changes to write
    #[arg(long, default_value_t = 200_000)]
    rows: u64,
    /// Write no more than so many row changes a second, on average
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    rows_per_second: Option<u64>,
    /// End after so many seconds, whatever is left of the rows
    #[arg(long)]
    seconds: Option<u64>,
    /// Seed of the changes
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where to log the committed transactions, as JSON lines
    #[arg(long, default_value = "orders-load.jsonl")]
    log: PathBuf,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let mut signals = Signals::take()?;
    let mut connection = tokio::select! {
        connected = database::connect(&options.url) => connected?,
        () = signals.next() => {
            say!("stopped by a signal: nothing was written");
            return Ok(());
        }
    };
    if options.create {
        return database::create_table(&mut connection, &options.table).await;
    }
    let script = Script::new(options.seed, options.rows);
    let pace = Pace {
        rows_per_second: options.rows_per_second,
        limit: options.seconds.map(Duration::from_secs),
    };
    let (table, log) = (&options.table, &options.log);
    let stop = signals.next();
    let rows = database::load(&mut connection, table, script, &pace, log, stop).await?;
    say!("{rows} row changes committed to {}", options.table);
    Ok(())
}
