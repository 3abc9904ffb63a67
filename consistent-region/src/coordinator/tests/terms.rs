//! What a coordinator leaves in the log when its term is over.

use std::sync::Arc;

use crate::coordinator::publisher::{Mandate, Ours, Publisher};
use crate::point::Hook;
use crate::store::{CheckpointStore, MemoryStore};

#[test]
fn however_many_terms_there_were_the_log_holds_one_fence_and_one_base() {
    let store: Arc<dyn CheckpointStore> = Arc::new(MemoryStore::new());
    let ours = Ours {
        region: "region".to_owned(),
        graph: 7,
        structure: 7,
    };
    for term in 1..=20 {
        // None of them completes a cut.
        let entered = Publisher::enter(
            Arc::clone(&store),
            Mandate::Term(term),
            &ours,
            Hook::default(),
        );
        assert_eq!(entered.unwrap().1, term);
    }
    let log = store.guard_store().unwrap();
    assert_eq!(log.list("fence-").unwrap(), ["fence-20"]);
    assert_eq!(log.list("base-").unwrap(), ["base-20"]);
}
