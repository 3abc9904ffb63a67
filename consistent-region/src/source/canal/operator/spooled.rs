//! With a spool: what is new is spooled before the region has it, and read from there after a reset.

use std::sync::Arc;

use lockkeeper_canal::{Entry, Message};

use super::super::fetch::Order;
use super::super::spooling::{self, Content, Durable};
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
    /// Has what is new of a batch spooled, if there is a spool, and the batch acknowledged then.
    pub(super) fn spool(
        &mut self,
        message: &Message,
        first: u64,
        new: &mut [Given<T>],
    ) -> Result<(), OperatorError> {
        let (Some(spooling), Some(fetching)) = (&mut self.spooling, &self.fetching) else {
            return Ok(());
        };
        // A batch of which something is held back, or that goes on behind the end, stays with the
        // server.
        let batch = message.id();
        let is_whole = self.intake.has_taken(&batch) && self.cut_short != Some(batch);
        let (history, end) = (self.intake.history(), self.intake.history().end());
        let mut segment = None;
        if !new.is_empty() {
            // Each has one: it was mapped for the spool.
            let raw = new.iter_mut().filter_map(|given| given.raw.take());
            let content = Content {
                destination: message.destination().to_owned(),
                items: spooling::items(history, first, raw.collect(), spooling.is_open),
            };
            let content = rmp_serde::to_vec(&content)
                .map_err(|error| OperatorError::Permanent(format!("spooling: {error}")))?;
            spooling.is_open = history.transaction(end - 1).is_none();
            segment = Some(Segment {
                first,
                end,
                content,
            });
        }
        let batch = is_whole.then_some(batch);
        // a task that has ended has said why
        let _ = fetching.orders.send(Order::Spool { segment, batch });
        Ok(())
    }

    /// Maps rows that were spooled behind the restored cut anew.
    pub(super) fn take_spooled(
        &mut self,
        segment: &Segment,
        output: &mut Output<T>,
    ) -> Result<(), OperatorError> {
        let broken = |error: String| OperatorError::Permanent(format!("spooled rows: {error}"));
        let content: Content =
            rmp_serde::from_slice(&segment.content).map_err(|error| broken(error.to_string()))?;
        let history = self.intake.history_mut();
        if history.end() != segment.first {
            return Err(OperatorError::Retry("spooled rows are out of order".into()));
        }
        let entries = spooling::take_up(history, content.items);
        if history.end() != segment.end {
            return Err(broken(format!("some of {} are missing", segment.first)));
        }
        if let (Some(spooling), Some(last)) = (&mut self.spooling, segment.end.checked_sub(1)) {
            spooling.is_open = history.transaction(last).is_none();
        }
        let destination: Arc<str> = content.destination.into();
        for raw in entries {
            if self.ended {
                break;
            }
            let entry = Entry::decode(Arc::clone(&destination), raw.0);
            let entry = entry.map_err(|error| broken(error.to_string()))?;
            if let Some(given) = self.map(&entry) {
                self.position = entry.position().to_string();
                self.ended |= given.last;
                self.give(given, output)?;
            }
        }
        self.show();
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
