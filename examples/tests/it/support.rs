//! Child processes that say where they listen.

use std::{
    io::{BufRead, BufReader, Read},
    path::PathBuf,
    process::{Child, ChildStdout, Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};

/// A running program. Killed when it is dropped.
pub(crate) struct Program(Child, BufReader<ChildStdout>);

impl Program {
    /// Starts it and gives the last word of the first line that it prints.
    pub(crate) fn start(command: &mut Command) -> (Self, String) {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        let place = line.split_whitespace().last().unwrap().to_owned();
        (Self(child, output), place)
    }

    /// Sends SIGTERM, and gives what it still prints until its good end.
    pub(crate) fn stop(&mut self) -> String {
        let pid = i32::try_from(self.0.id()).unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), Signal::TERM).unwrap();
        let mut rest = String::new();
        self.1.read_to_string(&mut rest).unwrap();
        assert!(self.0.wait().unwrap().success());
        rest
    }

    /// Sends SIGTERM and waits for a good end.
    pub(crate) fn terminate(mut self) {
        self.stop();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An example, which cargo builds beside this test unless it was told to build the test alone.
pub(crate) fn example(name: &str) -> Command {
    let test = std::env::current_exe().unwrap();
    let folder: PathBuf = test.ancestors().nth(2).unwrap().join("examples");
    let program = folder.join(name);
    if !program.exists() {
        let built = Command::new(env!("CARGO"))
            .args(["build", "-p", env!("CARGO_PKG_NAME"), "--example", name])
            .status();
        assert!(built.unwrap().success());
    }
    Command::new(program)
}
