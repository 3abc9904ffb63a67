//! Child processes that say where they listen, or how far they are.

use std::{
    io::{BufRead, BufReader, Read},
    path::PathBuf,
    process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

/// An upper bound against hanging, not a measure.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// What a test with real servers is given in the environment. `None`, with a word, where that is not there; in CI
/// nothing may be skipped.
pub(crate) fn given(variable: &str) -> Option<String> {
    let value = std::env::var(variable)
        .ok()
        .filter(|value| !value.is_empty());
    let in_ci = std::env::var("CI").is_ok_and(|value| value == "true");
    assert!(
        value.is_some() || !in_ci,
        "{variable} is not set, and in CI nothing may be skipped"
    );
    if value.is_none() {
        println!("SKIPPED: set {variable}");
    }
    value
}

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

/// A running program whose lines are awaited. Killed when it is dropped.
pub(crate) struct Telling {
    child: Child,
    lines: Receiver<String>,
    reader: Option<JoinHandle<()>>,
    _watch: Watch,
}

impl Telling {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let watch = Watch::over(&child);
        let output = BufReader::new(child.stdout.take().unwrap());
        let (tell, lines) = channel();
        let reader = std::thread::spawn(move || {
            // a test that has seen enough reads no more
            let _ = output
                .lines()
                .map_while(Result::ok)
                .try_for_each(|line| tell.send(line));
        });
        Self {
            child,
            lines,
            reader: Some(reader),
            _watch: watch,
        }
    }

    /// The next line that begins with `prefix`, without it.
    pub(crate) fn line(&mut self, prefix: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(LIMIT);
            let line = line.unwrap_or_else(|error| panic!("no line {prefix:?}: {error}"));
            if let Some(rest) = line.strip_prefix(prefix) {
                return rest.to_owned();
            }
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
    }

    /// How it ends; `None` when it does not within the limit.
    pub(crate) fn ended(&mut self, limit: Duration) -> Option<ExitStatus> {
        self.ended_with(limit).0
    }

    /// How it ends, and what it still said.
    pub(crate) fn ended_with(&mut self, limit: Duration) -> (Option<ExitStatus>, Vec<String>) {
        let (until, mut rest) = (Instant::now() + limit, Vec::new());
        // the pipe ends with the last process that writes to it
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => rest.push(line),
                Err(RecvTimeoutError::Timeout) => return (None, rest),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        (Some(self.child.wait().unwrap()), rest)
    }
}

impl Drop for Telling {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
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
