//! The command `lockkeeper`, on a running `orders` and on endpoints of the test's own.

mod admission;
mod orders;

use std::process::Command;

use serde_json::Value;

use crate::support;

/// How it ended, and what it printed.
struct Ran {
    code: Option<i32>,
    output: String,
    errors: String,
}

impl Ran {
    fn json(&self) -> Value {
        serde_json::from_str(&self.output)
            .unwrap_or_else(|error| panic!("{error}: {:?} {}", self.output, self.errors))
    }

    fn done(self) -> Self {
        assert_eq!(self.code, Some(0), "{}{}", self.output, self.errors);
        self
    }

    fn fails(self, code: i32, why: &str) -> Self {
        let Self { output, errors, .. } = &self;
        assert_eq!(self.code, Some(code), "{output}{errors}");
        assert!(errors.contains(why), "{why:?} is not in {errors:?}");
        self
    }
}

fn lockkeeper<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockkeeper"));
    let ran = support::output(command.args(arguments));
    Ran {
        code: ran.status.code(),
        output: String::from_utf8(ran.stdout).unwrap(),
        errors: String::from_utf8(ran.stderr).unwrap(),
    }
}

#[test]
fn a_command_line_that_can_not_be_is_told_with_exit_code_2() {
    lockkeeper(["region", "status"]).fails(2, "--address");
    lockkeeper(["region", "status", "--address", "nowhere"]).fails(2, "nowhere");
    lockkeeper(["region", "status", "--election", "/nowhere"]).fails(2, "--component");
    let missing = [
        "region",
        "status",
        "--election",
        "/nowhere/leader",
        "--component",
        "a",
    ];
    lockkeeper(missing).fails(2, "/nowhere/leader");
    let password = [
        "--election",
        "zookeeper://me:secret@host:1/root",
        "--component",
        "a",
    ];
    lockkeeper(["region", "status"].into_iter().chain(password))
        .fails(2, "LOCKKEEPER_ELECTION_PASSWORD");
    let lease = ["--election", "kubernetes://shop", "--component", "a"];
    lockkeeper(["region", "status"].into_iter().chain(lease)).fails(2, "ubernetes");
    let both = ["region", "status", "--address", "a:1", "--election", "/"];
    lockkeeper(both).fails(2, "exclude each other");
    lockkeeper(["region", "splash"]).fails(2, "splash");
}

#[test]
fn nobody_at_the_address_is_exit_code_3() {
    // a port that was free a moment ago
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let address = port.to_string();
    lockkeeper(["region", "cut", "--address", &address, "--time-out", "5"]).fails(3, &address);
}
