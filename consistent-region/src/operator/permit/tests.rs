//! Permits without a region: the gate is kept by the test.

use std::sync::Mutex;
use std::thread;

use futures_util::FutureExt;
use futures_util::task::noop_waker_ref;

use super::*;

/// A handle, the keeper of its gate, and the wishes that were asked for.
fn gate() -> (RegionHandle, Keeper, Arc<Mutex<Vec<Wish>>>) {
    let gate = Arc::new(Gate::new(GateState::default()));
    let wishes = Arc::new(Mutex::new(Vec::new()));
    let asked = Arc::clone(&wishes);
    let handle = RegionHandle {
        paused: Arc::default(),
        ask: Arc::new(move |wish| asked.lock().unwrap().push(wish)),
        gate: Arc::clone(&gate),
    };
    (handle, Keeper(gate), wishes)
}

fn is_empty(keeper: &Keeper) -> bool {
    keeper.is_empty(&std::task::Context::from_waker(noop_waker_ref()))
}

#[test]
fn s26_a_permit_is_given_only_while_tuples_may_flow() {
    let (handle, keeper, _) = gate();
    assert!(handle.try_permit().is_none());
    keeper.open(7);
    let permit = handle.try_permit().unwrap();
    assert_eq!((permit.seq(), permit.attempt()), (7, 0));
    keeper.close();
    assert!(handle.try_permit().is_none());
    assert!(!is_empty(&keeper), "a round waits for the permit");
    drop(permit);
    assert!(is_empty(&keeper));
}

#[test]
fn s26_make_consistent_says_what_came_of_the_cut() {
    let (handle, keeper, wishes) = gate();
    keeper.open(7);
    let mut permit = handle.try_permit().unwrap();
    let mut made = Box::pin(permit.make_consistent());
    assert!(made.as_mut().now_or_never().is_none());
    assert_eq!(*wishes.lock().unwrap(), [Wish::Cut]);
    assert!(is_empty(&keeper), "the permit is given back meanwhile");
    keeper.close();
    keeper.open(8);
    assert!(made.as_mut().now_or_never().is_none(), "only prepared");
    keeper.complete(7);
    let made = made.now_or_never().unwrap();
    assert_eq!(made, Ok(MadeConsistent::Completed { seq: 7 }));
    assert_eq!(permit.seq(), 8, "it is held again");

    let mut made = Box::pin(permit.make_consistent_non_blocking());
    assert!(made.as_mut().now_or_never().is_none());
    keeper.close();
    assert!(made.as_mut().now_or_never().is_none(), "tuples are paused");
    keeper.open(9);
    let made = made.now_or_never().unwrap();
    assert_eq!(made, Ok(MadeConsistent::CheckpointPending { seq: 8 }));

    let mut made = Box::pin(permit.make_consistent());
    assert!(made.as_mut().now_or_never().is_none());
    keeper.abandon(9);
    let made = made.now_or_never().unwrap();
    assert_eq!(made, Ok(MadeConsistent::Failed { seq: 9 }));
    drop(permit);
    keeper.open(10);
    let mut permit = handle.try_permit().unwrap();

    let mut made = Box::pin(permit.make_consistent());
    assert!(made.as_mut().now_or_never().is_none());
    keeper.supersede(3);
    assert!(made.as_mut().now_or_never().is_none(), "not reset yet");
    keeper.open(12);
    let made = made.now_or_never().unwrap();
    assert_eq!(made, Ok(MadeConsistent::Reset { attempt: 3 }));

    let mut made = Box::pin(permit.make_consistent());
    assert!(made.as_mut().now_or_never().is_none());
    drop(keeper);
    assert_eq!(made.now_or_never().unwrap(), Err(InstanceOver));
    assert_eq!(permit.seq(), 0);
}

#[test]
fn s26_threads_in_make_consistent_do_not_keep_a_round_from_anothers_permit() {
    const THREADS: usize = 8;
    let (handle, keeper, wishes) = gate();
    keeper.open(1);
    let other = handle.try_permit().unwrap();
    let waiting: Vec<_> = (0..THREADS)
        .map(|_| {
            let mut permit = handle.try_permit().unwrap();
            thread::spawn(move || futures_executor::block_on(permit.make_consistent()))
        })
        .collect();
    // Each asks before it gives its permit back; the other's is the last.
    while wishes.lock().unwrap().len() < THREADS {
        thread::yield_now();
    }
    keeper.close();
    drop(other);
    while !is_empty(&keeper) {
        thread::yield_now();
    }
    keeper.open(2);
    keeper.complete(1);
    for thread in waiting {
        let made = thread.join().unwrap();
        assert_eq!(made, Ok(MadeConsistent::Completed { seq: 1 }));
    }
}
