//! The job's own figures.

use std::sync::Mutex;

use lockkeeper_core::status::{Plot, StatusKind, StatusSnapshot, StatusSource, Unit};

use super::lock;
use crate::orders::outcome::Measured;

#[derive(Debug)]
pub(super) struct JobSource {
    figures: Mutex<Figures>,
}

#[derive(Debug, Default)]
struct Figures {
    processed: u64,
    last_cut: u64,
    term: u64,
    kills: u64,
}

impl JobSource {
    pub(super) fn new() -> Self {
        Self {
            figures: Mutex::default(),
        }
    }

    pub(super) fn measure(&self, measured: &Measured) {
        let figures = Figures {
            processed: measured.processed(),
            last_cut: measured.last_cut(),
            term: measured.term(),
            kills: measured.kills(),
        };
        metrics::counter!("orders_changes_processed_total").absolute(figures.processed);
        metrics::counter!("orders_kills_total").absolute(figures.kills);
        metrics::counter!("orders_last_cut").absolute(figures.last_cut);
        *lock(&self.figures) = figures;
    }
}

impl StatusSource for JobSource {
    fn name(&self) -> String {
        "job orders".to_owned()
    }

    fn snapshot(&self) -> StatusSnapshot {
        let figures = lock(&self.figures);
        StatusSnapshot::new(StatusKind::Region)
            .with_plot(
                "changes processed",
                figures.processed,
                Unit::None,
                Plot::Rate,
            )
            .with("last cut", figures.last_cut)
            .with("leader's term", figures.term)
            .with("kills", figures.kills)
    }
}
