//! Counts the words of a file in a consistent region: `word-count FILE`.
//!
//! Exit code 0: all right; 1: a count was wrong, or the region failed; 2: usage.
#![deny(clippy::print_stdout, clippy::print_stderr)]

use std::process::ExitCode;

use clap::Parser;
use lockkeeper_examples::word_count::{options::Options, run::run};
use lockkeeper_examples::{note, terminal};

fn main() -> ExitCode {
    let options = Options::parse();
    terminal::log("warn");
    match actix::System::new().block_on(run(options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            note!("word-count: {error:#}");
            ExitCode::FAILURE
        }
    }
}
