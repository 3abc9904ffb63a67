//! Writes a destination's row changes to Kafka: `canal-to-kafka --embedded --print` to begin with.
//!
//! `--help` says the rest.

use std::process::ExitCode;

use clap::Parser;
use lockkeeper_examples::to_kafka::{Options, run};

fn main() -> ExitCode {
    let options = Options::parse();
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .init();
    match actix::System::new().block_on(run(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("canal-to-kafka: {error:#}");
            ExitCode::FAILURE
        }
    }
}
