//! Children of these tests: the test binary again, in a namespace, ordered and heard line by line.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child as Process, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// An upper bound against hanging, not a measure.
const LIMIT: Duration = Duration::from_secs(120);

/// What a child tells its parent begins so; everything else is the test harness'.
const MARK: char = '@';

/// In a child: tells its parent a line.
pub(super) fn tell(what: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{MARK}{what}").unwrap();
    out.flush().unwrap();
}

/// In a child: what its parent orders; ends with the parent.
pub(super) fn orders() -> UnboundedReceiver<String> {
    let (sender, orders) = unbounded_channel();
    std::thread::spawn(move || {
        for order in std::io::stdin().lines().map_while(Result::ok) {
            let _ = sender.send(order);
        }
    });
    orders
}

/// A child; killed with it.
pub(super) struct Child {
    process: Process,
    orders: Option<ChildStdin>,
    told: Receiver<String>,
}

impl Child {
    /// Runs the part `name` of this binary in that namespace.
    pub(super) fn start(name: &str, namespace: &str, environment: &[(&str, String)]) -> Self {
        let mut process = Command::new("ip")
            .args(["netns", "exec", namespace])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let (sender, told) = channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                // The test harness may have begun the line.
                if let Some((_, line)) = line.split_once(MARK) {
                    let _ = sender.send(line.to_owned());
                }
            }
        });
        let orders = process.stdin.take();
        Child {
            process,
            orders,
            told,
        }
    }

    pub(super) fn order(&mut self, order: &str) {
        writeln!(self.orders.as_mut().unwrap(), "{order}").unwrap();
    }

    /// It is to come to its end.
    pub(super) fn finish(&mut self) {
        self.orders = None;
    }

    /// The next line.
    pub(super) fn told(&self) -> String {
        let told = self.told.recv_timeout(LIMIT);
        told.unwrap_or_else(|error| panic!("a child tells nothing more: {error}"))
    }

    /// What follows this word in the newest of the lines that were told and not awaited.
    pub(super) fn newest_word(&self, word: &str) -> Option<String> {
        let told = self.told.try_iter();
        let rest =
            told.filter_map(|told| Some(told.strip_prefix(word)?.strip_prefix(' ')?.to_owned()));
        rest.last()
    }

    /// The next line that begins with this word: what follows it.
    pub(super) fn await_word(&self, word: &str) -> String {
        let began = Instant::now();
        loop {
            let told = self.told();
            assert!(
                began.elapsed() < LIMIT,
                "a child tells {told:?} and not {word:?}"
            );
            if let Some((first, rest)) = told.split_once(' ')
                && first == word
            {
                return rest.to_owned();
            }
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
