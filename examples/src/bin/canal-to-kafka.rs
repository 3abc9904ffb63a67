//! Writes a destination's row changes to Kafka: `canal-to-kafka --embedded --print` to begin with.
//!
//! `--help` says the rest.
#![deny(clippy::print_stdout, clippy::print_stderr)]

use std::process::ExitCode;

use clap::Parser;
use lockkeeper_examples::to_kafka::{Options, run};
use lockkeeper_examples::{note, terminal};

fn main() -> ExitCode {
    let options = Options::parse();
    terminal::log("info");
    match actix::System::new().block_on(run(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            note!("canal-to-kafka: {error:#}");
            ExitCode::FAILURE
        }
    }
}
