//! A leader goes, a standby comes: the time between.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use bench_harness::Failure;

/// An upper bound against hanging, not a measure.
const LIMIT: Duration = Duration::from_secs(120);
/// How long a standby is given to be one, after it has said that it contends: a session, a node and a watch.
const SETTLING: Duration = Duration::from_millis(1_000);
/// A server ends sessions at multiples of its tick and a leader renews at times of its own: over this time, more
/// than either, the moments at which leaders go are spread evenly. Were they always as long after the grant,
/// which comes with a tick, they would all meet the same moment of it.
const SPREAD: Duration = Duration::from_millis(2_000);
/// The golden ratio: its multiples' fractions lie evenly, however many there are.
const GOLDEN: f64 = 0.618_033_988_749_895;

/// How a leader goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contenders {
    Killed,
    Left,
}

/// A process that contends; killed with it.
struct Contender {
    process: Child,
    input: Option<ChildStdin>,
    told: Receiver<(String, Instant)>,
}

impl Contender {
    fn start(mut command: Command) -> Result<Self, Failure> {
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let out = process.stdout.take().ok_or("no output")?;
        let input = process.stdin.take();
        let (sender, told) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                let _ = sender.send((line, Instant::now()));
            }
        });
        Ok(Contender {
            process,
            input,
            told,
        })
    }

    /// When it said that.
    fn said(&self, what: &str) -> Result<Instant, Failure> {
        loop {
            let (line, at) = self
                .told
                .recv_timeout(LIMIT)
                .map_err(|_| format!("a process did not say {what:?} in {LIMIT:?}"))?;
            if line == what {
                return Ok(at);
            }
        }
    }
}

impl Drop for Contender {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// When in the spread the leader of this run goes.
fn moment(run: usize) -> Duration {
    let turns = run as f64 * GOLDEN;
    SPREAD.mul_f64(turns.fract())
}

/// So many fail-overs in a row, in milliseconds.
pub fn measure(
    what: &str,
    runs: usize,
    how: Contenders,
    command: &dyn Fn(usize) -> Result<Command, Failure>,
) -> Result<Vec<f64>, Failure> {
    let mut leader = Contender::start(command(0)?)?;
    leader.said("granted")?;
    let mut times = Vec::new();
    for run in 1..=runs {
        let standby = Contender::start(command(run)?)?;
        standby.said("contends")?;
        std::thread::sleep(SETTLING + moment(run));
        let began = Instant::now();
        match how {
            Contenders::Killed => leader.process.kill()?,
            Contenders::Left => leader.input = None,
        }
        let granted = standby.said("granted")?;
        let time = granted.duration_since(began).as_secs_f64() * 1_000.0;
        println!("{what} {run}: {time:.1} ms");
        times.push(time);
        leader.process.wait()?;
        leader = standby;
    }
    Ok(times)
}
