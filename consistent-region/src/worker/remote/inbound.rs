//! The streams that end in this worker: where a frame goes, and whether it is of the right attempt.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::stream::{Inbound, StreamRefusal};

use super::Generation;

/// Shared by the worker's actor, which changes it at a reset, and its endpoint, which reads it for
/// every frame.
#[derive(Clone, Default)]
pub(crate) struct InboundStreams(Arc<Mutex<Table>>);

#[derive(Default)]
struct Table {
    /// Attempts are counted over the life of the region, whatever the term.
    attempt: u64,
    worker_epoch: u64,
    channels: HashMap<usize, Arc<dyn Inbound>>,
}

impl InboundStreams {
    /// Closes the streams of the attempt before and opens these.
    pub(crate) fn open(&self, generation: Generation, channels: HashMap<usize, Arc<dyn Inbound>>) {
        let mut table = self.table();
        table.attempt = generation.attempt;
        table.worker_epoch = generation.worker_epoch;
        table.channels = channels;
    }

    /// Closes all streams: the worker may not act any more.
    pub(crate) fn close(&self) {
        self.table().channels.clear();
    }

    pub(crate) fn find(
        &self,
        generation: Generation,
        channel: usize,
    ) -> Result<Arc<dyn Inbound>, StreamRefusal> {
        let table = self.table();
        if generation.attempt > table.attempt {
            return Err(StreamRefusal::NotYet);
        }
        if generation.attempt < table.attempt || generation.worker_epoch != table.worker_epoch {
            return Err(StreamRefusal::Superseded);
        }
        table
            .channels
            .get(&channel)
            .cloned()
            .ok_or(StreamRefusal::Closed)
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // Nothing in here can panic half-way through a change.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::BoxFuture;

    use super::*;
    use crate::stream::Frame;

    struct Taker;

    impl Inbound for Taker {
        fn deliver(&self, _: u64, _: Frame) -> BoxFuture<'_, Result<(), StreamRefusal>> {
            Box::pin(std::future::ready(Ok(())))
        }
    }

    #[test]
    fn only_frames_of_the_same_attempt_and_registration_are_taken() {
        let streams = InboundStreams::default();
        let generation = |attempt, worker_epoch| Generation {
            attempt,
            worker_epoch,
        };
        let refusal = |of| streams.find(of, 4).err();
        assert_eq!(refusal(generation(1, 1)), Some(StreamRefusal::NotYet));
        streams.open(generation(2, 7), HashMap::from([(4, Arc::new(Taker) as _)]));
        assert_eq!(refusal(generation(1, 7)), Some(StreamRefusal::Superseded));
        assert_eq!(refusal(generation(2, 6)), Some(StreamRefusal::Superseded));
        assert_eq!(refusal(generation(2, 7)), None);
        assert_eq!(refusal(generation(3, 7)), Some(StreamRefusal::NotYet));
        assert_eq!(
            streams.find(generation(2, 7), 5).err(),
            Some(StreamRefusal::Closed)
        );
        streams.close();
        assert_eq!(refusal(generation(2, 7)), Some(StreamRefusal::Closed));
    }
}
