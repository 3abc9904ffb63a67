//! Rows and statements.

use std::fmt;

use crate::entry::{Entry, EventType};
use crate::protocol::generated::entry as wire;

/// The content of one rows event or statement.
#[derive(Clone)]
pub struct RowChange {
    entry: Entry,
    change: wire::RowChange,
}

impl RowChange {
    pub(crate) fn new(entry: Entry, change: wire::RowChange) -> Self {
        Self { entry, change }
    }

    /// The kind of change.
    pub fn event_type(&self) -> EventType {
        EventType::from_wire(self.change.event_type)
    }
}

impl fmt::Debug for RowChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowChange")
            .field("entry", &self.entry)
            .field("event_type", &self.event_type())
            .field("rows", &self.change.row_datas.len())
            .finish()
    }
}
