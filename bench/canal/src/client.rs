//! A client's process: drains a server, and says what it took.

use std::time::Instant;

use lockkeeper_canal::{CanalConnectorBuilder, ClientIdentity, Filter, Message};
use serde::{Deserialize, Serialize};

use crate::frames::FETCH_SIZE;
use crate::{Failure, Order, allocations};

/// How far rows are decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Entries stay bytes.
    Raw,
    /// Rows become values.
    Typed,
}

impl Mode {
    pub fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Typed => "typed",
        }
    }
}

impl std::str::FromStr for Mode {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        match text {
            "raw" => Ok(Self::Raw),
            "typed" => Ok(Self::Typed),
            other => Err(format!("no mode {other}").into()),
        }
    }
}

/// What a drain took. The Java client prints the same.
#[derive(Debug, Serialize, Deserialize)]
pub struct Drain {
    /// Seconds of CPU, of the whole process while it drained.
    pub cpu: f64,
    /// Seconds.
    pub wall: f64,
    pub entries: u64,
    /// 0 if they were not decoded.
    pub rows: u64,
    /// Peak of resident memory of the process.
    pub rss_mb: f64,
    #[serde(default)]
    pub allocations: u64,
}

pub fn run(mode: Mode, address: &str, entries: u64) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let drain = runtime.block_on(drain(mode, address, entries))?;
    println!("RESULT {}", serde_json::to_string(&drain)?);
    Ok(())
}

async fn drain(mode: Mode, address: &str, wanted: u64) -> Result<Drain, Failure> {
    let mut connector = CanalConnectorBuilder::new(ClientIdentity::new("example"))
        .address(address)
        .build()?;
    connector.connect().await?;
    connector.subscribe(&Filter::keep()).await?;
    let (cpu, wall, allocated) = (cpu_seconds(), Instant::now(), allocations::count());
    let (mut entries, mut rows, mut check) = (0, 0, 0);
    while entries < wanted {
        let Some(message) = connector.get_without_ack(FETCH_SIZE, None).await? else {
            return Err(format!("{entries} of {wanted} entries came").into());
        };
        entries += message.len() as u64;
        if mode == Mode::Typed {
            rows += decode(&message, &mut check)?;
        }
        connector.ack(message.id()).await?;
    }
    std::hint::black_box(check);
    Ok(Drain {
        cpu: cpu_seconds() - cpu,
        wall: wall.elapsed().as_secs_f64(),
        entries,
        rows,
        rss_mb: peak_memory(),
        allocations: allocations::count() - allocated,
    })
}

pub fn decode(message: &Message, check: &mut u64) -> Result<u64, Failure> {
    let mut rows = 0;
    for entry in message.entries() {
        let Some(change) = entry?.row_change()? else {
            continue;
        };
        for row in change.rows::<Order>() {
            if let Some(order) = row?.after {
                *check ^= order.check();
                rows += 1;
            }
        }
    }
    Ok(rows)
}

/// Of this thread, which is the only one that works.
pub fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let first = text
        .split(' ')
        .next()
        .and_then(|text| text.parse::<f64>().ok());
    first.unwrap_or(f64::NAN) / 1e9
}

fn peak_memory() -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<f64>().ok());
    kib.unwrap_or(f64::NAN) / 1024.0
}
