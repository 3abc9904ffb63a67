//! What the server keeps of one client id: its outstanding batches and its cursor.

use std::collections::VecDeque;

use super::store::Range;

/// One client id of a destination.
///
/// Connections do not matter here: two with the same client id share all of this.
#[derive(Debug, Default)]
pub(crate) struct Client {
    pub(crate) subscribed: bool,
    outstanding: VecDeque<(i64, Range)>,
    /// The last batch id given.
    last_id: i64,
    /// Sequence of the entry at which a restarted server would go on, that entry included.
    pub(crate) cursor: Option<u64>,
    /// The cursor as it was last written to disk.
    pub(crate) persisted: Option<u64>,
}

/// Why a batch id is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BatchError {
    Unknown,
    /// Not the lowest outstanding id, which is this.
    NotTheFirst(i64),
}

impl Client {
    /// Registers a batch and gives it the next id.
    pub(crate) fn add(&mut self, range: Range) -> i64 {
        self.last_id += 1;
        self.outstanding.push_back((self.last_id, range));
        self.last_id
    }

    /// Takes the batch out; only the lowest outstanding id can be.
    pub(crate) fn remove(&mut self, id: i64) -> Result<Range, BatchError> {
        let lowest = self.outstanding.front().map(|(lowest, _)| *lowest);
        match lowest {
            Some(lowest) if lowest == id => self
                .outstanding
                .pop_front()
                .map(|(_, range)| range)
                .ok_or(BatchError::Unknown),
            Some(lowest) if self.outstanding.iter().any(|(known, _)| *known == id) => {
                Err(BatchError::NotTheFirst(lowest))
            }
            _ => Err(BatchError::Unknown),
        }
    }

    /// Voids all outstanding ids.
    pub(crate) fn clear(&mut self) {
        self.outstanding.clear();
    }

    pub(crate) fn outstanding(&self) -> usize {
        self.outstanding.len()
    }

    /// The client leaves: what is kept of it goes, ids are not used again.
    pub(crate) fn unsubscribe(&mut self) {
        *self = Self {
            last_id: self.last_id,
            ..Self::default()
        };
    }

    /// The server process starts anew: batches were in memory, ids start at 1.
    pub(crate) fn restart(&mut self) {
        self.clear();
        self.last_id = 0;
        self.cursor = self.persisted;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANGE: Range = Range {
        start: 0,
        end: 1,
        boundary: None,
    };

    #[test]
    fn only_the_lowest_outstanding_batch_can_be_taken() {
        let mut client = Client::default();
        assert_eq!((client.add(RANGE), client.add(RANGE)), (1, 2));
        assert_eq!(client.remove(2), Err(BatchError::NotTheFirst(1)));
        assert_eq!(client.remove(3), Err(BatchError::Unknown));
        assert_eq!(client.remove(1), Ok(RANGE));
        assert_eq!(client.remove(1), Err(BatchError::Unknown));
        assert_eq!(client.remove(2), Ok(RANGE));
    }

    #[test]
    fn ids_start_again_only_at_a_restart() {
        let mut client = Client::default();
        client.add(RANGE);
        client.clear();
        assert_eq!(client.add(RANGE), 2);
        client.unsubscribe();
        assert_eq!(client.add(RANGE), 3);
        client.restart();
        assert_eq!(client.add(RANGE), 1);
    }
}
