//! A counter in one process, who adds to it in another:
//! `counter serve`, and then `counter add 5`, as often as you like.
#![deny(clippy::print_stdout, clippy::print_stderr)]

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use lockkeeper_core::prelude::*;
use lockkeeper_examples::counter::{Add, Counter, CounterGateway};
use lockkeeper_examples::say;
use lockkeeper_examples::signals::Signals;
use lockkeeper_remote::RemoteBuilderExt;

#[derive(Debug, Parser)]
#[command(about = "A counter and who adds to it, in two processes")]
struct Options {
    #[command(subcommand)]
    role: Role,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// Serves the counter until SIGTERM or Ctrl-C
    Serve {
        /// Where to listen; port 0 takes a free one
        #[arg(long, default_value = "127.0.0.1:7700")]
        listen: String,
    },
    /// Adds to it and prints the new total
    Add {
        /// How much
        #[arg(allow_negative_numbers = true)]
        number: i64,
        /// The counter's address
        #[arg(long, default_value = "lockkeeper://127.0.0.1:7700/counter")]
        at: RpcAddress,
    },
}

#[actix_rt::main]
async fn main() -> anyhow::Result<()> {
    match Options::parse().role {
        Role::Serve { listen } => serve(&listen).await,
        Role::Add { number, at } => add(number, &at).await,
    }
}

async fn serve(listen: &str) -> anyhow::Result<()> {
    let mut signals = Signals::take()?;
    let service = RpcService::builder().bind(listen).start().await?;
    let server = service.start_server("counter", Counter::default()).await?;
    server.start().await?;
    say!("serving {}", server.address());
    signals.next().await;
    // The endpoint first, with what it has to finish; then the connections.
    service.terminate().await?;
    Ok(())
}

async fn add(number: i64, at: &RpcAddress) -> anyhow::Result<()> {
    let service = RpcService::builder().bind("127.0.0.1:0").start().await?;
    let counter = service
        .connect::<CounterGateway>(at)
        .await
        .context("is `counter serve` running?")?;
    say!("{}", counter.send(Add(number)).await?);
    service.terminate().await?;
    Ok(())
}
