//! `--config FILE` of the examples: it takes effect, the environment and flags are above it, and what is
//! wrong with it is told by its key and line.

mod values;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support;

fn written(folder: &Path, text: &str) -> PathBuf {
    let file = folder.join("settings.toml");
    std::fs::write(&file, text).unwrap();
    file
}

fn programs() -> [(&'static str, &'static str); 4] {
    [
        ("canal-tail", env!("CARGO_BIN_EXE_canal-tail")),
        ("canal-to-kafka", env!("CARGO_BIN_EXE_canal-to-kafka")),
        ("word-count", env!("CARGO_BIN_EXE_word-count")),
        ("orders", env!("CARGO_BIN_EXE_orders")),
    ]
}

/// Arguments with which the program ends by itself and soon.
fn short(name: &str, folder: &Path) -> Vec<String> {
    let text = folder.join("text");
    std::fs::write(&text, "one boat\n").unwrap();
    let data = folder.join("data").display().to_string();
    let arguments = match name {
        "canal-tail" => vec!["--embedded", "--limit", "1"],
        "canal-to-kafka" => vec!["--embedded", "--print", "--limit", "1"],
        "word-count" => vec![text.to_str().unwrap(), "--data", &data],
        _ => vec![
            "--rows",
            "200",
            "--no-chaos",
            "--workers",
            "0",
            "--data",
            &data,
        ],
    };
    arguments.into_iter().map(str::to_owned).collect()
}

fn run(program: &str, arguments: &[String], file: &Path, variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(program);
    command.args(arguments).arg("--config").arg(file);
    support::output(command.envs(variables.iter().copied()))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn each_program_names_the_key_that_it_does_not_know_and_the_line() {
    for (name, program) in programs() {
        let folder = tempfile::tempdir().unwrap();
        let arguments = short(name, folder.path());
        let file = written(
            folder.path(),
            "[canal]\nclient_id = 7\nadresses = \"a:1\"\n",
        );
        let ran = run(program, &arguments, &file, &[]);
        assert!(!ran.status.success(), "{name}");
        let errors = text(&ran.stderr);
        let told = "settings.toml:3: canal.adresses is no key; did you mean addresses?";
        assert!(errors.contains(told), "{name}: {errors}");
        assert!(!folder.path().join("data").exists(), "nothing was begun");
        let variable = ("LOCKKEEPER__REGION__RETAINED", "0");
        let file = written(folder.path(), "");
        let ran = run(program, &arguments, &file, &[variable]);
        let errors = text(&ran.stderr);
        let told = "environment variable LOCKKEEPER__REGION__RETAINED: region.retained is 0";
        assert!(errors.contains(told), "{name}: {errors}");
    }
}

#[test]
fn the_file_takes_effect_and_flags_are_above_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = written(
        folder.path(),
        "[forwarder]\ntopic = \"rows\"\nform = \"protobuf\"\n",
    );
    let (name, program) = programs()[1];
    let mut arguments = short(name, folder.path());
    let printed = text(&run(program, &arguments, &file, &[]).stdout);
    assert!(printed.starts_with("rows/0 1001"), "{printed}");
    let variable = ("LOCKKEEPER__FORWARDER__TOPIC", "changes");
    let printed = text(&run(program, &arguments, &file, &[variable]).stdout);
    assert!(printed.starts_with("changes/0 1001"), "{printed}");
    arguments.extend(["--topic".to_owned(), "flagged".to_owned()]);
    let printed = text(&run(program, &arguments, &file, &[variable]).stdout);
    assert!(printed.starts_with("flagged/0 1001"), "{printed}");
}

#[test]
fn canal_tail_follows_the_destination_of_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = written(folder.path(), "[canal]\ndestination = \"shop\"\n");
    let (name, program) = programs()[0];
    let ran = run(program, &short(name, folder.path()), &file, &[]);
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    assert_eq!(text(&ran.stdout).lines().count(), 1);
}

#[test]
fn regions_keep_their_checkpoints_where_the_file_says() {
    for (name, program) in &programs()[2..] {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("elsewhere");
        let file = written(
            folder.path(),
            &format!(
                "[store]\nurl = {:?}\n[region]\nretained = 3\n",
                store.to_str().unwrap()
            ),
        );
        let ran = run(program, &short(name, folder.path()), &file, &[]);
        assert!(ran.status.success(), "{name}: {}", text(&ran.stderr));
        assert!(store.join("objects").is_dir(), "{name}");
        assert!(!folder.path().join("data/store").exists(), "{name}");
    }
}

#[test]
fn a_password_of_the_environment_is_in_no_file_of_the_job() {
    let folder = tempfile::tempdir().unwrap();
    let file = written(folder.path(), "[canal]\nuser = \"nobody\"\n");
    let secret = "a secret of the test";
    let (name, program) = programs()[3];
    let variable = ("LOCKKEEPER__CANAL__PASSWORD", secret);
    let ran = run(program, &short(name, folder.path()), &file, &[variable]);
    // the embedded server asks nobody for a password
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    let job = std::fs::read_to_string(folder.path().join("data/job.json")).unwrap();
    assert!(job.contains("nobody"));
    assert!(!job.contains(secret), "{job}");
}
