//! Counts the words of a file in a consistent region: `word-count FILE`.
//!
//! Exit code 0: all right; 1: a count was wrong, or the region failed; 2: usage.

use std::process::ExitCode;

use clap::Parser;
use lockkeeper_examples::word_count::{options::Options, run::run};
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    let options = Options::parse();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
    match actix::System::new().block_on(run(options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("word-count: {error:#}");
            ExitCode::FAILURE
        }
    }
}
