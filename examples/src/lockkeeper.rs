//! A running system on the command line: what `lockkeeper` does.
//!
//! - `options`: the command line; `ending`: the exit codes
//! - `connection`: to an admin endpoint, by its address or by who leads
//! - `leader`: who leads, from where it is elected
//! - `region`, `store`, `endpoints`: the other commands

mod connection;
mod ending;
mod endpoints;
mod leader;
mod options;
mod region;
mod store;

use std::io::{self, Write};

use serde::Serialize;

pub use ending::Ending;
pub use options::Options;

use ending::Failure;
use options::Command;

/// What a command found or did.
struct Shown {
    ending: Ending,
    text: String,
    json: serde_json::Value,
}

impl Shown {
    fn new(
        ending: Ending,
        text: impl Into<String>,
        value: &impl Serialize,
    ) -> Result<Self, Failure> {
        let json =
            serde_json::to_value(value).map_err(|error| Failure::usage(error.to_string()))?;
        let text = text.into();
        Ok(Self { ending, text, json })
    }
}

/// Carries out the command. Within an actix System.
pub async fn run(options: &Options, output: &mut dyn Write, errors: &mut dyn Write) -> Ending {
    let shown = match &options.command {
        Command::Region {
            connection,
            command,
        } => region::run(connection, command).await,
        Command::Store { command } => store::run(command),
        Command::Leader { connection } => leader::run(connection).await,
        Command::Endpoints { connection } => endpoints::run(connection).await,
    };
    match shown {
        Ok(shown) => match write(options.json, &shown, output) {
            // nobody reads on: `| head`
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                // where nothing can be written any more the exit code must do
                let _ = writeln!(errors, "lockkeeper: standard output: {error}");
                Ending::Usage
            }
            _ => shown.ending,
        },
        Err(failure) => {
            let _ = writeln!(errors, "lockkeeper: {failure}");
            failure.ending
        }
    }
}

fn write(json: bool, shown: &Shown, output: &mut dyn Write) -> io::Result<()> {
    if json {
        writeln!(output, "{}", shown.json)?;
    } else {
        write!(output, "{}", shown.text)?;
    }
    output.flush()
}
