//! Looks at the store of a consistent region, and changes it while nobody works on it.
//!
//! `lockkeeper-region inspect DIR` is where to begin. `--help` says the rest, and the exit codes.
#![deny(clippy::print_stdout, clippy::print_stderr)]

use std::process::ExitCode;

use clap::Parser;
use lockkeeper_examples::region::{Options, run};

fn main() -> ExitCode {
    let options = Options::parse();
    let (mut output, mut errors) = (std::io::stdout().lock(), std::io::stderr().lock());
    ExitCode::from(run(&options, &mut output, &mut errors).number())
}
