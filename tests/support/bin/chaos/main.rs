//! Faults on the job `orders`, on real processes and real servers, by a seeded schedule, and a judge
//! from outside. Started by `tests/chaos`, which makes servers and network.
//!
//! | module | is |
//! |---|---|
//! | `schedule` | which fault when: pure, from the seed |
//! | `faults`, `network`, `disk`, `nodes` | carry them out |
//! | `watch`, `gauges` | what is heard and measured meanwhile |
//! | `judge`, `tenure`, `leak` | what must be right: pure but for reading |
//! | `run`, `stage`, `outcome` | one run from begin to figures |
//!
//! The last line on standard output is one JSON object. Exit code 0: right; 1: the judge found
//! something; 2: it could not be run.

mod disk;
mod faults;
mod gauges;
mod judge;
mod leak;
mod network;
mod nodes;
mod options;
mod outcome;
mod run;
mod schedule;
mod stage;
mod tenure;
mod watch;

use std::process::{Command, ExitCode};

use clap::Parser;

use self::options::Options;

fn say(text: &str) {
    eprintln!("chaos: {text}");
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let options = Options::parse();
    let folder = options.folder.clone();
    let right = match run::run(options).await {
        Ok(outcome) => {
            println!("{outcome}");
            match serde_json::to_string(&outcome) {
                Ok(line) => println!("{line}"),
                Err(error) => say(&format!("no JSON: {error}")),
            }
            u8::from(!outcome.is_right())
        }
        Err(error) => {
            say(&format!("{error:#}"));
            2
        }
    };
    if right != 0 {
        // the disk is gone with this process
        let kept = Command::new("cp")
            .arg("-a")
            .arg(folder.join("data"))
            .arg(folder.join("data-kept"))
            .status();
        if !kept.is_ok_and(|status| status.success()) {
            say("the job's folder could not be kept");
        }
    }
    ExitCode::from(right)
}
