//! `counter serve` and `counter add`.

use std::process::Command;

use crate::support::Program;

fn counter() -> Command {
    Command::new(env!("CARGO_BIN_EXE_counter"))
}

#[test]
fn two_processes_count_together() {
    let (serving, address) = Program::start(counter().args(["serve", "--listen", "127.0.0.1:0"]));
    for (number, total) in [("5", "5\n"), ("-2", "3\n")] {
        let added = counter()
            .args(["add", number, "--at", &address])
            .output()
            .unwrap();
        assert_eq!(String::from_utf8(added.stdout).unwrap(), total);
    }
    serving.terminate();
    let late = counter().args(["add", "1", "--at", &address]).output();
    let text = String::from_utf8(late.unwrap().stderr).unwrap();
    assert!(text.contains("is `counter serve` running?"), "{text}");
}
