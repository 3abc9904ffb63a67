//! The example `word-count`: exact over kills, over a second run, and over SIGTERM.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support::Program;

/// 1,000 lines: `line` in each, its number, and one of ten words.
pub(crate) fn text(folder: &Path) -> PathBuf {
    let words = [
        "lock", "canal", "gate", "boat", "water", "chamber", "keeper", "sluice", "weir", "pawl",
    ];
    let lines = (0..1000).map(|number| format!("Line {number}: {}\n", words[number % 10]));
    let file = folder.join("text.txt");
    fs::write(&file, lines.collect::<String>()).unwrap();
    file
}

fn word_count(file: &Path, data: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_word-count"))
        .arg(file)
        .arg("--data")
        .arg(data)
        .args(["--lines-per-cut", "100"])
        .args(arguments)
        .output()
        .unwrap()
}

fn lines(output: &Output) -> Vec<String> {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{errors}");
    text.lines().map(str::to_owned).collect()
}

const VERDICT: &str = "every count equals a plain count of the file";

/// "line", ten words a hundred times, and a thousand numbers once.
fn check(lines: &[String]) {
    let summary = "1000 lines, 3000 words, 1011 different";
    assert!(
        lines.iter().any(|line| line.starts_with(summary)),
        "{lines:?}"
    );
    assert!(lines.contains(&"    1000 line".to_owned()), "{lines:?}");
    assert!(lines.contains(&"     100 boat".to_owned()), "{lines:?}");
    assert!(lines.contains(&VERDICT.to_owned()), "{lines:?}");
}

#[test]
fn counts_are_exact_wherever_in_a_round_the_process_is_killed() {
    // each is on the way of the last cut at the latest
    for point in [
        "emitting",
        "draining",
        "staging",
        "before-manifest",
        "after-manifest",
        "before-commit",
        "after-commit-before-ack",
        "between-record-and-message",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let file = text(folder.path());
        let output = word_count(&file, folder.path(), &["--kill-points", point]);
        let lines = lines(&output);
        assert!(lines.contains(&format!("killed at {point}")), "{lines:?}");
        check(&lines);
    }
}

#[test]
fn counts_are_exact_over_several_kills() {
    let folder = tempfile::tempdir().unwrap();
    let file = text(folder.path());
    let points = "emitting,draining,after-manifest,before-commit";
    let lines = lines(&word_count(
        &file,
        folder.path(),
        &["--kill-points", points],
    ));
    assert!(
        lines.contains(&"killed at draining".to_owned()),
        "{lines:?}"
    );
    check(&lines);
}

#[test]
fn sigterm_ends_it_with_a_cut_from_which_only_what_was_appended_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let file = text(folder.path());
    let mut command = Command::new(env!("CARGO_BIN_EXE_word-count"));
    command.arg(&file).arg("--data").arg(folder.path());
    let arguments = ["--lines-per-cut", "100", "--follow"];
    let (mut running, first) = Program::start(command.args(arguments));
    assert_eq!(first, "1", "the first line is `cut 1`");
    let rest = running.stop();
    assert!(rest.contains("stopped with a last cut"), "{rest}");
    let longer = fs::read_to_string(&file).unwrap() + "one boat more\n";
    fs::write(&file, longer).unwrap();
    let lines = lines(&word_count(&file, folder.path(), &[]));
    assert!(lines.contains(&VERDICT.to_owned()), "{lines:?}");
    assert!(lines.contains(&"     101 boat".to_owned()), "{lines:?}");
}

#[test]
fn a_folder_of_another_text_or_of_a_finished_one_is_refused_by_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let file = text(folder.path());
    let killed = word_count(
        &file,
        folder.path(),
        &["--child", "--follow", "--die-at", "before-commit"],
    );
    assert!(!killed.status.success(), "it has killed itself");
    let other = folder.path().join("other.txt");
    fs::copy(&file, &other).unwrap();
    let refused = |file| {
        let output = word_count(file, folder.path(), &[]);
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    let errors = refused(&other);
    assert!(errors.contains("the source was changed"), "{errors}");
    assert!(errors.contains("text.txt"), "{errors}");
    // nothing is spoilt: the right text goes on
    lines(&word_count(&file, folder.path(), &[]));
    let errors = refused(&file);
    assert!(
        errors.contains("holds a count that is finished"),
        "{errors}"
    );
}

#[test]
fn a_text_that_is_missing_or_without_words_is_told_or_counted() {
    let folder = tempfile::tempdir().unwrap();
    let missing = word_count(&folder.path().join("none.txt"), folder.path(), &[]);
    assert!(!missing.status.success());
    assert!(String::from_utf8_lossy(&missing.stderr).contains("none.txt"));
    let empty = folder.path().join("empty.txt");
    fs::write(&empty, "").unwrap();
    let lines = lines(&word_count(&empty, folder.path(), &[]));
    assert!(lines.contains(&"0 lines, 0 words, 0 different, in 0 files".to_owned()));
}
