//! Compares the output of `orders` with the truth: `orders-verify DIR`.
//!
//! Reads `DIR/out` and the truth that `DIR/truth.json` names, nothing else of the job. Prints one
//! JSON object; exit code 0: equal, 1: not equal, 2: something can't be read. SIGTERM and Ctrl-C end it
//! before there is a verdict: it says so in place of one, with exit code 0.
#![deny(clippy::print_stdout, clippy::print_stderr)]

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use lockkeeper_examples::note;
use lockkeeper_examples::orders::truth::verify;

#[derive(Debug, Parser)]
#[command(about = "Compares the output of orders with the truth")]
struct Options {
    /// The job's folder
    data: PathBuf,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    match runtime {
        Ok(runtime) => {
            let code = runtime.block_on(verify(&options.data));
            // A comparison that nobody waits for any more ends with the process.
            runtime.shutdown_background();
            code
        }
        Err(error) => {
            note!("orders-verify: {error}");
            ExitCode::from(2)
        }
    }
}
