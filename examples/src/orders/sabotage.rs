//! Wrong behaviour on purpose, by the hidden flag `--sabotage`: tests use it to show that the
//! judge notices what it is there to notice.

use clap::ValueEnum;
use lockkeeper_consistent_region::source::canal::SourceSabotage;
use serde::{Deserialize, Serialize};

use super::output::OutputSabotage;

/// What is done wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Sabotage {
    /// Batches are acknowledged when they arrive: rows are lost with the next kill.
    AckEarly,
    /// One change is left out: it is lost.
    SkipRow,
    /// Each cut is published twice.
    DoubleCommit,
    /// Output is published before its cut is complete: an aborted attempt's stays.
    StaleCommit,
    /// What comes again after a reset is taken as new: rows are counted twice.
    NoRollback,
}

impl Sabotage {
    /// Its part in the source.
    #[must_use]
    pub fn source(self) -> SourceSabotage {
        match self {
            Self::AckEarly => SourceSabotage::AcknowledgeEarly,
            Self::NoRollback => SourceSabotage::NoRollback,
            Self::SkipRow | Self::DoubleCommit | Self::StaleCommit => SourceSabotage::None,
        }
    }

    /// Its part in the output.
    #[must_use]
    pub fn output(self) -> OutputSabotage {
        match self {
            Self::DoubleCommit => OutputSabotage::DoubleCommit,
            Self::StaleCommit => OutputSabotage::StaleCommit,
            Self::AckEarly | Self::SkipRow | Self::NoRollback => OutputSabotage::None,
        }
    }
}
