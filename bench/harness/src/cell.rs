//! One cell: what is measured, and how a client does it. The same loops for every peer.

use std::future::Future;
use std::rc::Rc;
use std::str::FromStr;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::task::LocalSet;

use crate::Failure;

/// What a client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Asks, `in_flight` at a time.
    Ask,
    /// One-way messages, as fast as they are taken; counted when they are handled.
    Tell,
    /// Small asks, one at a time, beside transfers of `bytes` on the same connection.
    Beside,
    /// New connections with a session, one after the other.
    Connect,
}

impl FromStr for Mode {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        Ok(match text {
            "ask" => Self::Ask,
            "tell" => Self::Tell,
            "beside" => Self::Beside,
            "connect" => Self::Connect,
            other => return Err(format!("no mode {other}").into()),
        })
    }
}

impl Mode {
    pub fn name(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::Tell => "tell",
            Self::Beside => "beside",
            Self::Connect => "connect",
        }
    }
}

/// One measurement to be made.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    pub mode: Mode,
    pub bytes: usize,
    pub in_flight: usize,
    pub seconds: f64,
    /// The server's process.
    pub server: u32,
}

impl Cell {
    /// Reads `SERVER_PID MODE BYTES IN_FLIGHT SECONDS`.
    pub fn parse(arguments: &[&str]) -> Result<Self, Failure> {
        let [server, mode, bytes, in_flight, seconds] = arguments else {
            return Err(format!("{arguments:?} is no cell").into());
        };
        Ok(Self {
            mode: mode.parse()?,
            bytes: bytes.parse()?,
            in_flight: in_flight.parse()?,
            seconds: seconds.parse()?,
            server: server.parse()?,
        })
    }
}

/// What came of it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    pub calls_per_second: f64,
    pub p50_us: f64,
    pub p99_us: f64,
    /// Processor time of client and server for one call.
    pub cpu_us: f64,
}

/// What every peer can do. One thread drives it.
pub trait Peer: 'static {
    fn echo(&self, payload: Vec<u8>) -> impl Future<Output = Result<usize, Failure>>;
    /// Sends so many bytes to and fro on the same connection, again and again, from a thread that is
    /// not the caller's: what is measured is the connection, not the caller's own encoding.
    fn transfer(&self, _bytes: usize) -> Result<(), Failure> {
        Err("it is not measured beside a transfer".into())
    }
    /// A one-way message; false: no room at present.
    fn note(&self, _payload: &[u8]) -> Result<bool, Failure> {
        Err("it has no one-way messages".into())
    }
    /// Notes that were handled.
    fn count(&self) -> impl Future<Output = Result<u64, Failure>> {
        async { Err("it has no one-way messages".into()) }
    }
}

/// Runs the cell, after a short time that is not counted.
pub async fn measure<P: Peer>(peer: P, cell: &Cell) -> Result<Outcome, Failure> {
    let peer = Rc::new(peer);
    let local = LocalSet::new();
    local
        .run_until(async {
            match cell.mode {
                Mode::Ask => {
                    asks(&peer, cell, cell.seconds / 4.0).await?;
                    let cpu = cpu_seconds(cell.server)?;
                    let mut asked = asks(&peer, cell, cell.seconds).await?;
                    let cpu = cpu_seconds(cell.server)? - cpu;
                    Ok(asked.outcome(cpu))
                }
                Mode::Tell => tells(&peer, cell).await,
                Mode::Beside => beside(&peer, cell).await,
                Mode::Connect => Err("a peer connects by itself".into()),
            }
        })
        .await
}

struct Asked {
    seconds: f64,
    nanoseconds: Vec<u64>,
}

impl Asked {
    fn outcome(&mut self, cpu: f64) -> Outcome {
        let calls = self.nanoseconds.len() as f64;
        self.nanoseconds.sort_unstable();
        Outcome {
            calls_per_second: calls / self.seconds,
            p50_us: quantile(&self.nanoseconds, 0.5),
            p99_us: quantile(&self.nanoseconds, 0.99),
            cpu_us: cpu / calls * 1e6,
        }
    }
}

/// In microseconds.
pub fn quantile(sorted_nanoseconds: &[u64], part: f64) -> f64 {
    let last = sorted_nanoseconds.len().saturating_sub(1);
    let at = (last as f64 * part) as usize;
    sorted_nanoseconds
        .get(at)
        .map_or(0.0, |it| *it as f64 / 1e3)
}

async fn asks<P: Peer>(peer: &Rc<P>, cell: &Cell, seconds: f64) -> Result<Asked, Failure> {
    let begun = Instant::now();
    let end = begun + Duration::from_secs_f64(seconds);
    let mut tasks = Vec::new();
    for _ in 0..cell.in_flight {
        let (peer, bytes) = (Rc::clone(peer), cell.bytes);
        tasks.push(tokio::task::spawn_local(async move {
            let mut nanoseconds = Vec::new();
            let payload = vec![7; bytes];
            loop {
                let sent = Instant::now();
                if sent >= end {
                    return Ok::<_, Failure>(nanoseconds);
                }
                if peer.echo(payload.clone()).await? != bytes {
                    return Err("an answer of another size".into());
                }
                nanoseconds.push(u64::try_from(sent.elapsed().as_nanos())?);
            }
        }));
    }
    let mut nanoseconds = Vec::new();
    for task in tasks {
        nanoseconds.extend(task.await??);
    }
    Ok(Asked {
        seconds: begun.elapsed().as_secs_f64(),
        nanoseconds,
    })
}

async fn tells<P: Peer>(peer: &Rc<P>, cell: &Cell) -> Result<Outcome, Failure> {
    let before = peer.count().await?;
    let cpu = cpu_seconds(cell.server)?;
    let begun = Instant::now();
    let payload = vec![7; cell.bytes];
    let mut taken = 0_u64;
    while begun.elapsed().as_secs_f64() < cell.seconds {
        for _ in 0..64 {
            if peer.note(&payload)? {
                taken += 1;
            } else {
                tokio::task::yield_now().await;
            }
        }
        tokio::task::yield_now().await;
    }
    // A peer whose count does not come after the notes is asked again.
    let mut handled = peer.count().await? - before;
    while handled < taken && begun.elapsed().as_secs_f64() < cell.seconds + 60.0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
        handled = peer.count().await? - before;
    }
    if handled != taken {
        return Err(format!("{taken} were taken, {handled} handled").into());
    }
    let seconds = begun.elapsed().as_secs_f64();
    Ok(Outcome {
        calls_per_second: handled as f64 / seconds,
        cpu_us: (cpu_seconds(cell.server)? - cpu) / handled as f64 * 1e6,
        ..Outcome::default()
    })
}

async fn beside<P: Peer>(peer: &Rc<P>, cell: &Cell) -> Result<Outcome, Failure> {
    let small = Cell {
        bytes: 16,
        in_flight: 1,
        ..*cell
    };
    peer.transfer(cell.bytes)?;
    asks(peer, &small, cell.seconds / 2.0).await?;
    let mut asked = asks(peer, &small, cell.seconds).await?;
    Ok(asked.outcome(0.0))
}

/// Processor time of this process and of the server so far.
pub fn cpu_seconds(server: u32) -> Result<f64, Failure> {
    let ticks = rustix::param::clock_ticks_per_second() as f64;
    let of = |process: &str| -> Result<f64, Failure> {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
        let rest = stat.rsplit_once(')').ok_or("no process")?.1;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        Ok((fields[11].parse::<f64>()? + fields[12].parse::<f64>()?) / ticks)
    };
    Ok(of("self")?
        + if server == 0 {
            0.0
        } else {
            of(&server.to_string())?
        })
}
