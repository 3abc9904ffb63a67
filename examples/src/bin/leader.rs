//! Exactly one of three processes acts: `leader --driver file|zookeeper|etcd|kubernetes`.
//!
//! Exit code 0: all right; 1: the counter or a token was wrong, or nobody led.

use std::process::ExitCode;

use clap::Parser;
use lockkeeper_examples::leader::options::{NodeCommand, Options};
use lockkeeper_examples::leader::{node, run};
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    let options = Options::parse();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
    let system = actix::System::new();
    let result = match &options.node {
        Some(NodeCommand::Node { number, place }) => system.block_on(node::run(*number, place)),
        None => system.block_on(run::run(options)),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("leader: {error:#}");
            ExitCode::FAILURE
        }
    }
}
