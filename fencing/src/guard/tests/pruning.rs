//! What former leaders have left is removed, and they are refused all the same.

use std::sync::Arc;

use uuid::Uuid;

use crate::guard::procedure::{
    Access, Announce, Next, OwnFence, Procedure, Prune, Settle, carry_out,
};
use crate::guard::{
    Base, Creation, EpochGuard, GuardError, GuardStore, Guarded, MemoryGuardStore, highest_fence,
    read_newest,
};

fn memory() -> Arc<dyn GuardStore> {
    Arc::new(MemoryGuardStore::new())
}

fn enter(store: &Arc<dyn GuardStore>, epoch: u64) -> EpochGuard {
    let entered = EpochGuard::enter(store.clone(), epoch).unwrap();
    entered.done().unwrap()
}

/// A leader of `epoch` that publishes `sequence` and removes what is left of those before.
fn lead(store: &Arc<dyn GuardStore>, epoch: u64, sequence: u64) -> EpochGuard {
    let mut guard = enter(store, epoch);
    assert!(guard.publish(sequence, b"").unwrap().is_done());
    assert!(guard.prune().unwrap().is_done());
    guard
}

fn next<P: Procedure>(
    procedure: &mut P,
    store: &dyn GuardStore,
    access: &Access,
) -> Next<P::Output> {
    procedure.step(carry_out(store, access).unwrap()).unwrap()
}

#[test]
fn only_the_last_leader_has_a_fence_and_a_base() {
    let store = memory();
    for epoch in 1..=5 {
        lead(&store, epoch, epoch);
    }
    assert_eq!(store.list("fence-").unwrap(), ["fence-5"]);
    assert_eq!(store.list("base-").unwrap(), ["base-5"]);
    let sequences: Vec<u64> = enter(&store, 6)
        .chain()
        .unwrap()
        .manifests()
        .map(|manifest| manifest.sequence)
        .collect();
    assert_eq!(sequences, [1, 2, 3, 4, 5]);
}

#[test]
fn a_leader_whose_fence_was_removed_publishes_retires_and_prunes_nothing() {
    let store = memory();
    let mut olds = [lead(&store, 1, 1), lead(&store, 2, 2)];
    lead(&store, 3, 3);
    for old in &mut olds {
        assert!(!old.publish(4, b"late").unwrap().is_done());
        assert!(!old.retire_below(9).unwrap().is_done());
        assert!(!old.prune().unwrap().is_done());
    }
    let last = enter(&store, 4);
    assert_eq!(last.newest().unwrap().epoch, 3);
    assert_eq!(last.chain().unwrap().left_over().count(), 2);
}

/// A look rests on it: where the own fence is, no higher one has been removed.
#[test]
fn fences_are_removed_from_the_lowest_up() {
    let store = MemoryGuardStore::new();
    for epoch in [10, 9, 2, 1, 11] {
        let own = OwnFence::new(epoch, Uuid::new_v4()).unwrap();
        let created = store.create_if_absent(&format!("fence-{epoch}"), &own.bytes);
        assert_eq!(created.unwrap(), Creation::Created);
    }
    let (limit, mut removed) = (3, Vec::new());
    let mut prune = Prune::new(own_fence(&store, 11), limit);
    let mut access = prune.begin();
    let pruned = loop {
        if let Access::Remove { name } = &access {
            removed.push(name.clone());
        }
        match next(&mut prune, &store, &access) {
            Next::Access(further) => access = further,
            Next::Done(pruned) => break pruned,
        }
    };
    assert_eq!(pruned, Guarded::Done(limit));
    assert_eq!(removed, ["fence-1", "fence-2", "fence-9"]);
}

/// The fence of `epoch` as it is in the store.
fn own_fence(store: &dyn GuardStore, epoch: u64) -> OwnFence {
    let bytes = store.read(&format!("fence-{epoch}")).unwrap().unwrap();
    OwnFence { epoch, bytes }
}

/// It looked before there was anybody, and was stopped until all that would refuse it was removed but the
/// last fence.
#[test]
fn a_leader_that_was_stopped_before_its_fence_enters_nothing() {
    let store = memory();
    for epoch in [1, 2] {
        let own = OwnFence::new(epoch, Uuid::new_v4()).unwrap();
        let empty = MemoryGuardStore::new();
        let mut late = Announce::new(own.clone());
        let first = late.begin();
        let looked = next(&mut late, &empty, &first);
        let Next::Access(mut access) = looked else {
            panic!("an empty store refused it")
        };
        if epoch == 1 {
            // The other one has an epoch that a former leader had as well.
            lead(&store, 2, 1);
            lead(&store, 3, 2);
        }
        // Its fence is there, and whatever it sees below it.
        while let Next::Access(further) = next(&mut late, store.as_ref(), &access) {
            access = further;
        }
        let base = Base {
            manifest: None,
            left_out: Vec::new(),
            history: Vec::new(),
        };
        let mut settle = Settle::new(own, &base).unwrap();
        let mut access = settle.begin();
        let settled = loop {
            match next(&mut settle, store.as_ref(), &access) {
                Next::Access(further) => access = further,
                Next::Done(settled) => break settled,
            }
        };
        assert!(!settled.is_done());
    }
    assert_eq!(read_newest(store.as_ref()).unwrap().unwrap().0.epoch, 3);
    assert_eq!(highest_fence(store.as_ref()).unwrap(), 3);
    let mut last = enter(&store, 4);
    assert_eq!(last.newest().unwrap().epoch, 3);
    // What it has left is removed like all else.
    assert_eq!(last.prune().unwrap(), Guarded::Done(6));
}

#[test]
fn a_store_that_has_lost_its_only_base_is_not_taken_for_an_empty_one() {
    let store = memory();
    lead(&store, 1, 1);
    lead(&store, 2, 2);
    store.remove("base-2").unwrap();
    let error = read_newest(store.as_ref()).unwrap_err();
    assert!(matches!(error, GuardError::Unsettled { .. }), "{error}");
    let error = EpochGuard::enter(store, 3).unwrap_err();
    assert!(matches!(error, GuardError::Corrupt { .. }), "{error}");
}
