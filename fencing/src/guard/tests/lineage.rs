//! Tokens of one coordination store, and of another one.

use std::sync::Arc;

use lockkeeper_core::token::FencingToken;
use uuid::Uuid;

use crate::guard::{
    EpochGuard, GuardError, GuardStore, Guarded, MemoryGuardStore, adopt_lineage, current_lineage,
    read_newest,
};

fn token(lineage: u64, epoch: u64) -> FencingToken {
    FencingToken::new(lineage, epoch, Uuid::new_v4())
}

fn memory() -> Arc<dyn GuardStore> {
    Arc::new(MemoryGuardStore::new())
}

fn enter(store: &Arc<dyn GuardStore>, token: FencingToken) -> EpochGuard {
    let entered = EpochGuard::enter_with(store.clone(), &token).unwrap();
    entered.done().unwrap()
}

#[test]
fn another_lineage_is_refused_until_it_is_adopted_and_continues_the_history() {
    let store = memory();
    assert_eq!(current_lineage(store.as_ref()).unwrap(), None);
    let mut old = enter(&store, token(1, 40));
    assert_eq!(old.epoch(), 40);
    assert!(old.publish(1, b"old").unwrap().is_done());
    // Lower or higher, its epochs mean nothing here.
    for epoch in [1, 99] {
        let refused = EpochGuard::enter_with(store.clone(), &token(2, epoch)).unwrap_err();
        let GuardError::LineageChanged { expected, found } = refused else {
            panic!("{refused}")
        };
        assert_eq!((expected, found), (1_u64.into(), 2_u64.into()));
        let current = current_lineage(store.as_ref()).unwrap();
        assert_eq!(current, Some(1_u64.into()));
    }
    assert!(
        old.publish(2, b"old").unwrap().is_done(),
        "a refusal changes nothing"
    );

    for _ in 0..2 {
        let above = adopt_lineage(store.as_ref(), 1_u64.into(), 2_u64.into()).unwrap();
        assert_eq!(above, 40);
        let current = current_lineage(store.as_ref()).unwrap();
        assert_eq!(current, Some(2_u64.into()));
    }
    let mut new = enter(&store, token(2, 1));
    assert_eq!(new.epoch(), 41);
    assert_eq!(new.newest().unwrap().sequence, 2);
    assert_eq!(
        old.publish(3, b"old").unwrap(),
        Guarded::SteppedDown { highest: 41 }
    );
    assert!(new.publish(3, b"new").unwrap().is_done());
    assert_eq!(read_newest(store.as_ref()).unwrap().unwrap().1, b"new");
    // The former lineage is refused now, and comes back only by the same step.
    let refused = EpochGuard::enter_with(store.clone(), &token(1, 1_000)).unwrap_err();
    assert!(
        matches!(refused, GuardError::LineageChanged { .. }),
        "{refused}"
    );
    let above = adopt_lineage(store.as_ref(), 2_u64.into(), 1_u64.into()).unwrap();
    assert_eq!(above, 41);
    assert_eq!(enter(&store, token(1, 41)).epoch(), 82);
}

#[test]
fn an_adoption_that_expects_another_former_lineage_is_refused() {
    let store = memory();
    enter(&store, token(1, 1));
    let refused = adopt_lineage(store.as_ref(), 7_u64.into(), 2_u64.into()).unwrap_err();
    assert!(
        matches!(refused, GuardError::LineageChanged { .. }),
        "{refused}"
    );
    assert_eq!(enter(&store, token(1, 2)).epoch(), 2);
}

#[test]
fn a_leader_that_slips_in_during_an_adoption_keeps_its_order() {
    let store = memory();
    enter(&store, token(1, 5));
    adopt_lineage(store.as_ref(), 1_u64.into(), 2_u64.into()).unwrap();
    // It had passed the check before, and fences with a higher epoch than the new lineage's first.
    let mut late = EpochGuard::enter(store.clone(), 7).unwrap().done().unwrap();
    let stepped_down = EpochGuard::enter_with(store.clone(), &token(2, 1)).unwrap();
    assert!(matches!(stepped_down, Guarded::SteppedDown { highest: 7 }));
    // The new lineage's leaderships go on to count, and pass it.
    let mut new = enter(&store, token(2, 3));
    assert!(!late.publish(1, b"late").unwrap().is_done());
    assert!(new.publish(1, b"new").unwrap().is_done());
}

#[test]
fn epochs_that_do_not_fit_are_told() {
    let store = memory();
    enter(&store, token(1, u64::MAX - 1));
    adopt_lineage(store.as_ref(), 1_u64.into(), 2_u64.into()).unwrap();
    let told = EpochGuard::enter_with(store, &token(2, 2)).unwrap_err();
    assert!(matches!(told, GuardError::EpochsExhausted { .. }), "{told}");
}
