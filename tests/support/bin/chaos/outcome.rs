//! What a run ends with, for people and as one JSON object.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::leak::Medians;

/// The last line on standard output. Times named `_ms` are milliseconds.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Outcome {
    pub(crate) seed: u64,
    pub(crate) minutes: u64,
    /// Where the checkpoints lay.
    pub(crate) store: &'static str,
    /// Faults that began, by kind.
    pub(crate) faults: BTreeMap<&'static str, u64>,
    /// Faults after whose end a cut was complete, by kind.
    pub(crate) survived: BTreeMap<&'static str, u64>,
    /// Longest time from the end of a fault to the next cut, by kind.
    pub(crate) recovery_ms: BTreeMap<&'static str, u64>,
    /// Kinds that the machine does not permit, or that the job has no use for.
    pub(crate) left_out: Vec<&'static str>,
    /// Faults that found nobody to hit.
    pub(crate) skipped: u64,
    /// Row changes in the output, by account.
    pub(crate) rows: u64,
    pub(crate) lost: u64,
    pub(crate) duplicated: u64,
    pub(crate) cuts: u64,
    pub(crate) resets: u64,
    /// Terms that were led.
    pub(crate) terms: u64,
    /// Longest time between two row changes processed anywhere.
    pub(crate) longest_pause_ms: u64,
    /// Processes that ended by themselves and were started again.
    pub(crate) ended_by_themselves: u64,
    /// Medians of the first and the last third of the load, by subject.
    pub(crate) medians: BTreeMap<String, (u64, u64)>,
    /// What is wrong; empty when nothing is.
    pub(crate) findings: Vec<String>,
}

impl Outcome {
    pub(crate) fn is_right(&self) -> bool {
        self.findings.is_empty()
    }

    pub(crate) fn take_medians(&mut self, medians: &[Medians]) {
        for Medians {
            subject: (who, measure),
            first,
            last,
        } in medians
        {
            let name = format!("{who} {}", measure.name());
            self.medians.insert(name, (*first, *last));
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (begun, survived) = (self.faults.values(), self.survived.values());
        writeln!(
            f,
            "seed {}, {} minutes, checkpoints: {}",
            self.seed, self.minutes, self.store
        )?;
        writeln!(
            f,
            "{} row changes, {} cuts, {} resets, {} terms; longest pause {} ms",
            self.rows, self.cuts, self.resets, self.terms, self.longest_pause_ms
        )?;
        writeln!(
            f,
            "{} faults, {} survived, {} without a target; {} processes ended by themselves",
            begun.sum::<u64>(),
            survived.sum::<u64>(),
            self.skipped,
            self.ended_by_themselves
        )?;
        for (kind, count) in &self.faults {
            let survived = self.survived.get(kind).unwrap_or(&0);
            let recovery = self.recovery_ms.get(kind).unwrap_or(&0);
            writeln!(
                f,
                "  {kind:<26} {count:>4} begun {survived:>4} survived, next cut within {recovery} ms of its end"
            )?;
        }
        if !self.left_out.is_empty() {
            writeln!(f, "left out: {}", self.left_out.join(", "))?;
        }
        for (name, (first, last)) in &self.medians {
            writeln!(f, "  {name:<32} {first:>8} → {last}")?;
        }
        match self.findings.as_slice() {
            [] => write!(
                f,
                "lost 0, duplicated 0, one leader at a time, nothing grows: right"
            ),
            findings => write!(f, "WRONG:\n  {}", findings.join("\n  ")),
        }
    }
}
