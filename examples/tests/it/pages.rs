//! The examples' pages: each command is run, and prints what the page says.
//!
//! A page is a row of `sh` blocks, each followed by a `text` block. A command that ends in `&` goes on in the
//! background.

use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

use crate::markdown::{blocks, check};
use crate::support::Program;

/// A command and what it prints.
struct Step {
    command: String,
    expected: String,
}

fn steps(page: &str) -> Vec<Step> {
    let blocks = blocks(page);
    let pairs = blocks.chunks(2).map(|pair| match pair {
        [command, expected] if command.kind == "sh" && expected.kind == "text" => Step {
            command: command.text.clone(),
            expected: expected.text.clone(),
        },
        _ => panic!("a command is followed by its output: {pair:?}"),
    });
    pairs.collect()
}

/// The program and its arguments, run in the repository's root as the pages say.
fn program(command: &str) -> Command {
    let words: Vec<&str> = command.trim_end_matches(" &").split(' ').collect();
    let begin = ["cargo", "run", "-p", "lockkeeper-examples", "--bin"];
    assert_eq!(&words[..5], begin, "{command}");
    assert_eq!(words[6], "--", "{command}");
    let path = match words[5] {
        "counter" => env!("CARGO_BIN_EXE_counter"),
        "leader" => env!("CARGO_BIN_EXE_leader"),
        "lockkeeper-region-worker" => env!("CARGO_BIN_EXE_lockkeeper-region-worker"),
        "canal-tail" => env!("CARGO_BIN_EXE_canal-tail"),
        "canal-to-kafka" => env!("CARGO_BIN_EXE_canal-to-kafka"),
        "word-count" => env!("CARGO_BIN_EXE_word-count"),
        other => panic!("no example is named {other}"),
    };
    let mut program = Command::new(path);
    program.args(&words[7..]);
    program.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."));
    program
}

fn printed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}\n{text}\n{errors}");
    text
}

fn run(page: &str) {
    let steps = steps(page);
    assert!(!steps.is_empty());
    // what a command leaves there goes with the test
    let folder = tempfile::tempdir().unwrap();
    for Step { command, expected } in steps {
        let mut program = program(&command);
        check(&expected, &printed(program.env("TMPDIR", folder.path())));
    }
}

#[test]
fn the_page_of_counter_is_true() {
    let steps = steps(include_str!("../../counter/README.md"));
    let [serve, adds @ ..] = steps.as_slice() else {
        panic!("no command");
    };
    assert!(serve.command.ends_with(" &"));
    // a free port in place of the page's, which may be taken
    let (serving, address) =
        Program::start(program(&serve.command).args(["--listen", "127.0.0.1:0"]));
    check(&serve.expected, &format!("serving {address}\n"));
    assert_eq!(adds.len(), 2);
    for Step { command, expected } in adds {
        check(
            expected,
            &printed(program(command).args(["--at", &address])),
        );
    }
    serving.terminate();
}

#[test]
fn the_page_of_leader_is_true() {
    run(include_str!("../../leader/README.md"));
}

#[test]
fn the_page_of_canal_tail_is_true() {
    run(include_str!("../../canal-tail/README.md"));
}

#[test]
fn the_page_of_canal_to_kafka_is_true() {
    run(include_str!("../../canal-to-kafka/README.md"));
}

#[test]
fn the_page_of_word_count_is_true() {
    run(include_str!("../../word-count/README.md"));
}

#[test]
fn the_page_of_lockkeeper_region_worker_is_true() {
    let folder = tempfile::tempdir().unwrap();
    let steps = steps(include_str!("../../lockkeeper-region-worker/README.md"));
    let [coordinator, workers @ ..] = steps.as_slice() else {
        panic!("no command");
    };
    // what the page leaves in /tmp goes with the test
    let here = |step: &Step| {
        let folder = folder.path().to_str().unwrap();
        program(&step.command.replace("/tmp/words", folder))
    };
    let (mut coordinating, first) = Program::start(&mut here(coordinator));
    let (sender, printed_by) = mpsc::channel();
    for (number, worker) in workers.iter().enumerate() {
        let (mut worker, sender) = (here(worker), sender.clone());
        std::thread::spawn(move || sender.send((number, printed(&mut worker))));
    }
    for _ in workers {
        let printed = printed_by.recv_timeout(Duration::from_secs(120));
        let (number, printed) = printed.expect("a worker goes on or has failed");
        check(&workers[number].expected, &printed);
    }
    // it has ended, or is about to
    let rest = coordinating.stop();
    check(&coordinator.expected, &format!("{first}\n{rest}"));
}
