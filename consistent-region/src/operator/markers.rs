//! When is an instance drained? Counts drain markers, one for each channel into it (S6, issue 7).

use std::collections::BTreeSet;

use crate::stream::Marker;

/// The markers of one attempt.
#[derive(Debug, Default)]
pub(crate) struct Markers {
    channels: BTreeSet<usize>,
    waiting: BTreeSet<usize>,
    current: Option<Marker>,
    /// Cuts up to this one are over.
    done: u64,
    /// Markers that did not fit: repeated, late, or of a channel that does not end here.
    dropped: u64,
}

/// What a marker means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// The first of its cut, and others are missing.
    First,
    /// Others are still missing.
    Waiting,
    /// Every channel is drained. (With one channel the first marker is the last.)
    Complete,
    /// Not taken.
    Dropped,
}

impl Markers {
    pub(crate) fn new(channels: impl IntoIterator<Item = usize>) -> Self {
        Self {
            channels: channels.into_iter().collect(),
            ..Self::default()
        }
    }

    pub(crate) fn arrive(&mut self, channel: usize, marker: Marker) -> Arrival {
        let older = self.current.is_some_and(|current| marker.seq < current.seq);
        if older || marker.seq <= self.done || !self.channels.contains(&channel) {
            self.dropped += 1;
            return Arrival::Dropped;
        }
        let first = self.current.is_none_or(|current| current.seq < marker.seq);
        if first {
            // A newer cut than the one under way: that one was given up.
            self.current = Some(marker);
            self.waiting.clone_from(&self.channels);
        }
        if !self.waiting.remove(&channel) {
            self.dropped += 1;
            return Arrival::Dropped;
        }
        if self.waiting.is_empty() {
            self.current = None;
            self.done = marker.seq;
            return Arrival::Complete;
        }
        if first {
            Arrival::First
        } else {
            Arrival::Waiting
        }
    }

    #[cfg(test)]
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marker(seq: u64) -> Marker {
        Marker {
            seq,
            last: false,
            completed: 0,
        }
    }

    #[test]
    fn s6_a_drain_is_complete_with_one_marker_of_each_channel() {
        let mut markers = Markers::new([3, 5, 9]);
        assert_eq!(markers.arrive(5, marker(1)), Arrival::First);
        assert_eq!(markers.arrive(3, marker(1)), Arrival::Waiting);
        assert_eq!(markers.arrive(9, marker(1)), Arrival::Complete);
        assert_eq!(markers.arrive(9, marker(2)), Arrival::First);
    }

    #[test]
    fn s6_a_repeated_late_or_foreign_marker_is_dropped() {
        let mut markers = Markers::new([3, 5]);
        assert_eq!(markers.arrive(3, marker(7)), Arrival::First);
        assert_eq!(markers.arrive(3, marker(7)), Arrival::Dropped);
        assert_eq!(markers.arrive(5, marker(6)), Arrival::Dropped);
        assert_eq!(markers.arrive(4, marker(7)), Arrival::Dropped);
        assert_eq!(markers.arrive(5, marker(7)), Arrival::Complete);
        assert_eq!(markers.arrive(5, marker(7)), Arrival::Dropped);
        assert_eq!(markers.dropped(), 4);
    }

    #[test]
    fn a_newer_cut_ends_the_one_under_way() {
        let mut markers = Markers::new([3, 5]);
        assert_eq!(markers.arrive(3, marker(1)), Arrival::First);
        assert_eq!(markers.arrive(5, marker(2)), Arrival::First);
        assert_eq!(markers.arrive(3, marker(2)), Arrival::Complete);
    }
}
