//! Compares the output of `orders` with the truth: `orders-verify DIR`.
//!
//! Reads `DIR/out` and the truth that `DIR/truth.json` names, nothing else of the job. Prints one
//! JSON object; exit code 0: equal, 1: not equal, 2: something can't be read.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use lockkeeper_examples::orders::truth::verify;

#[derive(Debug, Parser)]
#[command(about = "Compares the output of orders with the truth")]
struct Options {
    /// The job's folder
    data: PathBuf,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    verify(&Options::parse().data).await
}
