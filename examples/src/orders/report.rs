//! What the processes of the cluster tell the one that started them, one JSON object a line on
//! their standard output: it measures and displays, no rule of the job depends on it.

use std::io::Write;
use std::time::Duration;

use lockkeeper_consistent_region::point::Point;
use lockkeeper_core::status::{StatusAction, StatusEvent, StatusSnapshot};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// One line. Times are milliseconds since the machine's start, so that lines of different
/// processes can be compared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "report")]
pub enum Report {
    /// The source has subscribed: rows written from now on are counted.
    Subscribed,
    /// Changes were processed by the keyed operator since the line before.
    Rows {
        /// When.
        at: u64,
        /// How many.
        changes: u64,
    },
    /// The first changes after a start or reset were processed.
    FirstRows {
        /// When.
        at: u64,
    },
    /// The source has emitted its first tuples after a start or reset.
    SourceEmits {
        /// When.
        at: u64,
    },
    /// This coordinator leads now.
    Leader {
        /// Its term.
        term: u64,
    },
    /// This coordinator led at that moment, and its own deadline had not passed.
    Leads {
        /// Nanoseconds since the machine's start, read before the leadership was looked at.
        at_ns: u64,
        /// Its term.
        term: u64,
    },
    /// A cut is complete.
    Cut {
        /// When.
        at: u64,
        /// Its number.
        seq: u64,
        /// The coordinator's term.
        term: u64,
    },
    /// A reset has begun.
    Reset {
        /// When.
        at: u64,
        /// Why.
        reason: String,
    },
    /// The process kills itself at this point, as it was told to.
    Kill {
        /// When.
        at: u64,
        /// Where.
        point: String,
    },
    /// The process stops itself at this point, as it was told to.
    Stop {
        /// Where.
        point: String,
    },
    /// Operators reach the region here; whether this process leads it or not.
    Admin {
        /// The address of its admin endpoint.
        address: String,
    },
    /// An operator wants the region to stop: its end is not the source's own.
    StopAsked,
    /// The region has ended with its last cut.
    Completed,
    /// How the parts of the process are.
    Status {
        /// The parts.
        sources: Vec<Told>,
    },
    /// Something happened to a part.
    Happened {
        /// The part's name.
        source: String,
        /// What.
        event: StatusEvent,
    },
    /// An [`Act`](super::armed::Act) was carried out, or not.
    Acted {
        /// Its number.
        number: u64,
        /// What was done, or why not.
        result: Result<String, String>,
    },
    /// The region can't go on.
    Failed {
        /// Why.
        reason: String,
    },
}

/// How a part of a process is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Told {
    /// Its name.
    pub name: String,
    /// How it is.
    pub snapshot: StatusSnapshot,
    /// What can be done with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<StatusAction>,
}

impl Report {
    /// A report that the process is about to kill itself.
    #[must_use]
    pub fn kill(point: Point) -> Self {
        Self::Kill {
            at: now_ms(),
            point: point.to_string(),
        }
    }

    /// A report that the process is about to stop itself.
    #[must_use]
    pub fn stop(point: Point) -> Self {
        Self::Stop {
            point: point.to_string(),
        }
    }

    /// Writes the line. Nobody to read it is no error: the process will be ended with its starter.
    pub fn write(&self) {
        if let Ok(line) = serde_json::to_string(self) {
            let mut stdout = std::io::stdout().lock();
            let _ = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
        }
    }
}

/// Milliseconds since the machine's start.
#[must_use]
pub fn now_ms() -> u64 {
    u64::try_from(since_boot().as_millis()).unwrap_or(u64::MAX)
}

/// Nanoseconds since the machine's start.
#[must_use]
pub fn now_ns() -> u64 {
    u64::try_from(since_boot().as_nanos()).unwrap_or(u64::MAX)
}

fn since_boot() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let nanoseconds = u32::try_from(now.tv_nsec).unwrap_or(0);
    Duration::new(seconds, nanoseconds)
}
