//! A worker of a region over several hosts, with the operators of `word-count`.
//!
//! `--help` says how it is told where the coordinators and the store are, and the exit codes.
#![deny(clippy::print_stdout, clippy::print_stderr)]

use std::process::ExitCode;

use clap::Parser;
use lockkeeper_examples::region_worker::{options::Options, run};
use lockkeeper_examples::{note, terminal};

fn main() -> ExitCode {
    let options = Options::parse();
    terminal::log("warn");
    match actix::System::new().block_on(run(&options)) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            note!("lockkeeper-region-worker: {error:#}");
            ExitCode::from(2)
        }
    }
}
