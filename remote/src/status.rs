//! What a console shows of a service's connections.

use lockkeeper_core::status::{StatusSnapshot, StatusSource};

use crate::shared::Shared;

impl StatusSource for Shared {
    fn name(&self) -> String {
        format!("connections of {}", self.authority)
    }

    fn snapshot(&self) -> StatusSnapshot {
        let links = self.peers.all();
        let refusals = self.refusals.seen();
        let mut snapshot = StatusSnapshot::default()
            .with("bound", self.bound.to_string())
            .with("connections", links.len());
        for link in &links {
            let peer = link.peer();
            let listening = peer.listening.as_ref();
            let name = listening.map_or_else(|| peer.socket.to_string(), ToString::to_string);
            let is_usable = if link.is_usable() {
                "in use"
            } else {
                "being left"
            };
            let (to_peer, from_peer) = link.in_flight();
            snapshot = snapshot
                .with(format!("peer {name}"), is_usable)
                .with(format!("calls in flight to {name}"), to_peer)
                .with(format!("calls in flight from {name}"), from_peer);
        }
        for (reason, count) in refusals.counts {
            snapshot = snapshot.with(format!("refused: {reason}"), count);
        }
        match refusals.last {
            Some(last) => snapshot.with("last refusal", last),
            None => snapshot,
        }
    }
}
