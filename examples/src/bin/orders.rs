//! The main job: totals per customer over the row changes of an orders table, exactly once, by a
//! cluster that kills its own processes. `orders --help` tells what it takes.
//!
//! Exit code 0: all right; 1: lost, duplicated, or totals differ; 2: usage or environment.
#![deny(clippy::print_stdout, clippy::print_stderr)]

use std::process::ExitCode;

use clap::Parser;
use lockkeeper_examples::orders::node::Place;
use lockkeeper_examples::orders::options::{NodeCommand, Options};
use lockkeeper_examples::orders::{node, run, truth};
use lockkeeper_examples::{note, say, terminal};

fn main() -> ExitCode {
    let options = Options::parse();
    match options.node {
        Some(_) => terminal::log("info"),
        // the log of a job is its lines
        None => terminal::log_only("warn"),
    }
    let system = actix::System::new();
    match &options.node {
        Some(NodeCommand::Node {
            data,
            role,
            number,
            status,
            host,
            report_tenure,
        }) => {
            let place = Place {
                role: *role,
                number: *number,
                status: *status,
                host: *host,
                report_tenure: *report_tenure,
            };
            exit_code(system.block_on(node::run(data, &place)).map(|()| true))
        }
        Some(NodeCommand::Verify { data }) => system.block_on(truth::verify(data)),
        None => exit_code(system.block_on(job(&options))),
    }
}

fn exit_code(result: anyhow::Result<bool>) -> ExitCode {
    match result {
        Ok(right) => ExitCode::from(u8::from(!right)),
        Err(error) => {
            note!("orders: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Whether the output is right, as far as it could be compared.
async fn job(options: &Options) -> anyhow::Result<bool> {
    let finished = run::run(options).await?;
    for error in finished
        .verdict
        .iter()
        .flat_map(|verdict| &verdict.chain_errors)
    {
        note!("orders: {error}");
    }
    if options.json {
        say!("{}", serde_json::to_string(&finished.outcome)?);
    } else {
        say!("{}", finished.summary());
    }
    Ok(finished.verdict.is_none_or(|verdict| verdict.is_right()))
}
