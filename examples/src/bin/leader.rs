//! Exactly one of three processes acts: `leader --driver file|zookeeper|etcd|kubernetes`.
//!
//! Exit code 0: all right; 1: the counter or a token was wrong, or nobody led.
#![deny(clippy::print_stdout, clippy::print_stderr)]

use std::process::ExitCode;

use clap::Parser;
use lockkeeper_examples::leader::options::{NodeCommand, Options};
use lockkeeper_examples::leader::{node, run};
use lockkeeper_examples::{note, terminal};

fn main() -> ExitCode {
    let options = Options::parse();
    terminal::log("warn");
    let system = actix::System::new();
    let result = match &options.node {
        Some(NodeCommand::Node { number, place }) => system.block_on(node::run(*number, place)),
        None => system.block_on(run::run(options)),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            note!("leader: {error:#}");
            ExitCode::FAILURE
        }
    }
}
