//! Child processes that say where they listen.

use std::{
    io::{BufRead, BufReader, Read},
    path::PathBuf,
    process::{Child, ChildStdout, Command, Output, Stdio},
    sync::mpsc::{RecvTimeoutError, Sender, channel},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};

/// An upper bound against hanging, not a measure.
const LIMIT: Duration = Duration::from_secs(120);

/// Kills a process that hangs, so that whoever waits for it, or for what it says, goes on and fails.
pub(crate) struct Watch {
    _ends_with_this: Sender<()>,
}

impl Watch {
    pub(crate) fn over(child: &Child) -> Self {
        let pid = Pid::from_child(child);
        let (sender, ended) = channel();
        std::thread::spawn(move || {
            if ended.recv_timeout(LIMIT) == Err(RecvTimeoutError::Timeout) {
                eprintln!("killed after {LIMIT:?}: process {pid}");
                let _ = kill_process(pid, Signal::KILL);
            }
        });
        Watch {
            _ends_with_this: sender,
        }
    }
}

/// What a program says until its end.
pub(crate) fn output(command: &mut Command) -> Output {
    let command = command.stdin(Stdio::null());
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let _watch = Watch::over(&child);
    child.wait_with_output().unwrap()
}

/// A running program. Killed when it is dropped.
pub(crate) struct Program {
    child: Child,
    output: BufReader<ChildStdout>,
    _watch: Watch,
}

impl Program {
    /// Starts it and gives the last word of the first line that it prints.
    pub(crate) fn start(command: &mut Command) -> (Self, String) {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let watch = Watch::over(&child);
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        let place = line.split_whitespace().last().unwrap().to_owned();
        let program = Self {
            child,
            output,
            _watch: watch,
        };
        (program, place)
    }

    /// Sends SIGTERM, and gives what it still prints until its good end.
    pub(crate) fn stop(&mut self) -> String {
        let pid = i32::try_from(self.child.id()).unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), Signal::TERM).unwrap();
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        assert!(self.child.wait().unwrap().success());
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
        let _ = self.child.kill();
        let _ = self.child.wait();
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
