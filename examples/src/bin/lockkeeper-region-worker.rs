//! A worker of a region over several hosts, with the operators of `word-count`.
//!
//! `--help` says how it is told where the coordinators and the store are, and the exit codes.

use std::process::ExitCode;

use clap::Parser;
use lockkeeper_examples::region_worker::{options::Options, run};
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    let options = Options::parse();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
    match actix::System::new().block_on(run(&options)) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("lockkeeper-region-worker: {error:#}");
            ExitCode::from(2)
        }
    }
}
