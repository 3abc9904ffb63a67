//! SIGTERM to each example in the middle of its work: it ends in peace, and soon.
//!
//! The web servers of the migration guide are in its own test, which asks them something first: actix-web takes
//! signals when it runs, which is after it has said where it listens.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;

use crate::support::{Telling, example};

/// What an operator's tools wait at least, before they kill.
const SOON: Duration = Duration::from_secs(10);

/// A program, how it is started in `folder`, and what it says when it is at work.
struct Case {
    name: &'static str,
    command: fn(&Path) -> Command,
    ready: &'static str,
    /// What its output says of the end, if it says something.
    last: Option<&'static str>,
}

macro_rules! program {
    ($name:literal, $($argument:expr),*) => {{
        let mut command = Command::new(env!(concat!("CARGO_BIN_EXE_", $name)));
        command.args([$($argument),*]);
        command
    }};
}

const CASES: &[Case] = &[
    Case {
        name: "counter serve",
        command: |_| program!("counter", "serve", "--listen", "127.0.0.1:0"),
        ready: "serving ",
        last: None,
    },
    Case {
        name: "leader",
        command: |folder| {
            let mut command = program!("leader", "--calls", "1000000", "--pause-ms", "20");
            command.arg("--data").arg(folder);
            command
        },
        ready: "counter 1",
        last: Some("stopped by a signal"),
    },
    Case {
        name: "canal-tail",
        command: |_| program!("canal-tail", "--embedded"),
        ready: "{",
        last: None,
    },
    Case {
        name: "canal-to-kafka",
        command: |_| program!("canal-to-kafka", "--embedded", "--print"),
        ready: "canal/",
        last: None,
    },
    Case {
        name: "word-count",
        command: |folder| {
            let text = folder.join("text");
            std::fs::write(&text, "one boat\n".repeat(1_000)).unwrap();
            let mut command = program!("word-count", "--follow", "--lines-per-cut", "100");
            command.arg(text).arg("--data").arg(folder.join("data"));
            command
        },
        ready: "cut 1",
        last: Some("stopped with a last cut"),
    },
    Case {
        name: "orders",
        command: |folder| {
            let mut command = program!("orders", "--no-chaos", "--rows", "1000000000");
            command.args(["--workers", "1"]).arg("--data").arg(folder);
            command
        },
        ready: "cut ",
        last: Some("not compared with the source"),
    },
    Case {
        name: "orders in one process",
        command: |folder| {
            let mut command = program!("orders", "--no-chaos", "--rows", "1000000000");
            command.args(["--workers", "0"]).arg("--data").arg(folder);
            command
        },
        ready: "cut ",
        last: Some("not compared with the source"),
    },
    Case {
        name: "migration_after",
        command: |_| example("migration_after"),
        ready: "listening",
        last: None,
    },
];

#[test]
fn sigterm_ends_each_example_in_peace_within_ten_seconds() {
    for Case {
        name,
        command,
        ready,
        last,
    } in CASES
    {
        let folder = tempfile::tempdir().unwrap();
        let mut running = Telling::start(&mut command(folder.path()));
        running.line(ready);
        running.signal(Signal::TERM);
        let (status, rest) = running.ended_with(SOON);
        let status = status.unwrap_or_else(|| panic!("{name} has not ended within {SOON:?}"));
        assert!(status.success(), "{name}: {status}: {rest:?}");
        if let Some(last) = last {
            assert!(
                rest.iter().any(|line| line.contains(last)),
                "{name}: {rest:?}"
            );
        }
    }
}

#[test]
fn a_signal_that_comes_while_nobody_answers_ends_the_waiting() {
    // it takes connections and says nothing
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let mut waiting = Telling::start(&mut program!("canal-tail", "--address", &address));
    let _connection = silent.accept().unwrap();
    waiting.signal(Signal::TERM);
    let (status, _) = waiting.ended_with(SOON);
    assert!(status.expect("it ends").success());
}
