//! Child processes that say where they listen.

use std::{
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};

/// A running program. Killed when it is dropped.
pub(crate) struct Program(Child);

impl Program {
    /// Starts it and gives the last word of the first line that it prints.
    pub(crate) fn start(command: &mut Command) -> (Self, String) {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let place = line.split_whitespace().last().unwrap().to_owned();
        (Self(child), place)
    }

    /// Sends SIGTERM and waits for a good end.
    pub(crate) fn terminate(mut self) {
        let pid = i32::try_from(self.0.id()).unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), Signal::TERM).unwrap();
        assert!(self.0.wait().unwrap().success());
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
