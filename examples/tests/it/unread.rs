//! Nobody reads what a program says: behind `| head`, or when the journal was started again. It does not
//! panic; what has a job does it to its end, and what is nothing but its output ends.

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::support::Watch;

/// Runs it with both outputs closed.
fn succeeds(mut command: Command) {
    let (reader, writer) = io::pipe().unwrap();
    drop(reader);
    command.stdout(writer.try_clone().unwrap()).stderr(writer);
    let mut child = command.spawn().unwrap();
    let _watch = Watch::over(&child);
    let ended = child.wait().unwrap();
    assert!(ended.success(), "{command:?}: {ended}");
}

fn program(path: &str, arguments: &[&str], data: &Path) -> Command {
    let mut command = Command::new(path);
    command.args(arguments).arg("--data").arg(data);
    command
}

#[test]
fn orders_that_nobody_reads_counts_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("job");
    let arguments = ["--rows", "2000", "--workers", "0"];
    succeeds(program(env!("CARGO_BIN_EXE_orders"), &arguments, &data));
    // the judge's own word for it, since nobody has read the job's
    let mut judge = Command::new(env!("CARGO_BIN_EXE_orders-verify"));
    assert!(judge.arg(&data).output().unwrap().status.success());
    judge = Command::new(env!("CARGO_BIN_EXE_orders-verify"));
    judge.arg(&data);
    succeeds(judge);
}

#[test]
fn leader_that_nobody_reads_counts_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--calls", "3", "--kills", "0"];
    succeeds(program(
        env!("CARGO_BIN_EXE_leader"),
        &arguments,
        folder.path(),
    ));
}

#[test]
fn word_count_that_nobody_reads_counts_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let text = Path::new(env!("CARGO_MANIFEST_DIR")).join("../LICENSE-APACHE");
    let mut command = program(
        env!("CARGO_BIN_EXE_word-count"),
        &["--kill-points", "draining"],
        &data,
    );
    command.arg(text);
    succeeds(command);
    assert!(data.join("out").is_dir());
}

/// Those that are nothing but their output.
fn printers() -> [Command; 2] {
    let mut tail = Command::new(env!("CARGO_BIN_EXE_canal-tail"));
    tail.arg("--embedded");
    let mut to_kafka = Command::new(env!("CARGO_BIN_EXE_canal-to-kafka"));
    to_kafka.args(["--embedded", "--print"]);
    [tail, to_kafka]
}

#[test]
fn what_is_nothing_but_its_output_ends_when_nobody_reads() {
    for printer in printers() {
        succeeds(printer);
    }
}

#[test]
fn an_output_that_takes_nothing_is_the_reason_of_the_end() {
    for mut printer in printers() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = output_to(&mut printer, full);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("No space left on device"), "{said}");
    }
}

fn output_to(printer: &mut Command, output: File) -> Output {
    let printer = printer.stdout(output).stderr(Stdio::piped());
    let child = printer.spawn().unwrap();
    let _watch = Watch::over(&child);
    child.wait_with_output().unwrap()
}
