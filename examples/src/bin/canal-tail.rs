//! Prints what changes in a database: `canal-tail --embedded`.
//!
//! Each change is a line of JSON, or of a table with `--format table`. `--help` says the rest.
#![deny(clippy::print_stdout, clippy::print_stderr)]

use std::process::ExitCode;

use clap::Parser;
use lockkeeper_examples::note;
use lockkeeper_examples::tail::{Options, run};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let options = Options::parse();
    let mut output = std::io::stdout().lock();
    match run(&options, &mut output).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            note!("canal-tail: {error:#}");
            ExitCode::FAILURE
        }
    }
}
