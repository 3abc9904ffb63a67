//! With a spool: what is new is spooled before the region has it, and read from there after a reset.

use std::sync::Arc;

use lockkeeper_canal::BatchId;

use super::super::fetch::Order;
use super::super::spooling::{self, Durable, Item};
use super::CanalSource;
use super::given::Given;
use crate::operator::{OperatorError, Output, Tuple};
use crate::source::history::History;
use crate::source::intake::Intake;
use crate::source::spool::Segment;

/// What the operator knows of its spool.
pub(super) struct Spooling {
    pub(super) durable: Arc<Durable>,
    /// The transaction of the last spooled row had not ended then.
    pub(super) is_open: bool,
}

impl<T: Tuple> CanalSource<T> {
    /// Has what is new spooled, if there is a spool, and the batch acknowledged then.
    pub(super) fn spool(
        &mut self,
        batch: BatchId,
        first: u64,
        new: Vec<Given<T>>,
    ) -> Result<Vec<Given<T>>, OperatorError> {
        let (Some(spooling), Some(fetching)) = (&mut self.spooling, &self.fetching) else {
            return Ok(new);
        };
        // A batch of which something is held back, or that goes on behind the end, stays with the
        // server.
        let is_whole = self.intake.has_taken(&batch) && self.cut_short != Some(batch);
        let (history, end) = (self.intake.history(), self.intake.history().end());
        let (mut segment, mut given) = (None, Vec::new());
        if !new.is_empty() {
            let items = spooling::items(history, first, new, spooling.is_open);
            let content = rmp_serde::to_vec(&items)
                .map_err(|error| OperatorError::Permanent(format!("spooling: {error}")))?;
            spooling.is_open = history.transaction(end - 1).is_none();
            segment = Some(Segment {
                first,
                end,
                content,
            });
            given = items
                .into_iter()
                .filter_map(|item| match item {
                    Item::Row(_, _, given) => Some(given),
                    Item::Closed(_) => None,
                })
                .collect();
        }
        let batch = is_whole.then_some(batch);
        // a task that has ended has said why
        let _ = fetching.orders.send(Order::Spool { segment, batch });
        Ok(given)
    }

    /// Rows that were spooled behind the restored cut.
    pub(super) fn take_spooled(
        &mut self,
        segment: &Segment,
        output: &mut Output<T>,
    ) -> Result<(), OperatorError> {
        let items: Vec<Item<Given<T>>> = rmp_serde::from_slice(&segment.content)
            .map_err(|error| OperatorError::Permanent(format!("spooled rows: {error}")))?;
        let history = self.intake.history_mut();
        if history.end() != segment.first {
            return Err(OperatorError::Retry("spooled rows are out of order".into()));
        }
        let given = spooling::take_up(history, items);
        if let (Some(spooling), Some(last)) = (&mut self.spooling, segment.end.checked_sub(1)) {
            spooling.is_open = history.transaction(last).is_none();
        }
        for given in given {
            self.ended |= given.last;
            self.give(given, output)?;
        }
        Ok(())
    }

    /// What follows comes from the server, which may have forgotten everything that was spooled.
    pub(super) fn spool_is_read(&mut self) {
        let intake = std::mem::replace(&mut self.intake, Intake::new(History::default(), 0));
        let history = intake.into_history();
        let end = history.end();
        self.intake = Intake::new(history, end);
    }
}
