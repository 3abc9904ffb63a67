//! What an operator does to a running system: `lockkeeper region status --address HOST:PORT`.
//!
//! `--help` says the rest, and the exit codes.
#![deny(clippy::print_stdout, clippy::print_stderr)]

use std::process::ExitCode;

use clap::Parser;
use lockkeeper_examples::lockkeeper::{Options, run};

fn main() -> ExitCode {
    let options = Options::parse();
    let (mut output, mut errors) = (std::io::stdout().lock(), std::io::stderr().lock());
    let ending = actix::System::new().block_on(run(&options, &mut output, &mut errors));
    ExitCode::from(ending.number())
}
