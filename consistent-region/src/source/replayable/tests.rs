//! The operator by itself: cuts and resets are played by hand.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::FutureExt;

use super::*;
use crate::operator::Wish;

fn start(buffer: &ReplayBuffer<u32>) -> ReplayableStart<u32> {
    let mut start = ReplayableStart::new(InstanceContext::alone("start"), buffer);
    start.resumed_at(0, 0).unwrap();
    start
}

/// What it gives without waiting, and whether it ends.
fn given(start: &mut ReplayableStart<u32>, region: &RegionHandle) -> (Vec<u32>, bool) {
    let mut output = Output::new();
    loop {
        let polled = poll_fn(|cx| start.poll_produce(cx, &mut output, region)).now_or_never();
        match polled {
            Some(Ok(Produced::More)) => {}
            Some(Ok(Produced::End)) => return (output.take(), true),
            Some(Err(error)) => panic!("{error}"),
            None => return (output.take(), false),
        }
    }
}

fn quiet() -> RegionHandle {
    RegionHandle::new(|_| {})
}

fn cut(start: &mut ReplayableStart<u32>, seq: u64) -> Vec<u8> {
    let cut = Cut {
        seq,
        term: 1,
        attempt: 1,
        completed: seq - 1,
        last: false,
    };
    let mut state = Vec::new();
    start.prepare(cut).unwrap().state.unwrap()(&mut state).unwrap();
    state
}

#[test]
fn a_reset_gives_again_what_the_cut_does_not_cover() {
    let buffer = ReplayBuffer::new(100);
    let sender = buffer.sender();
    let mut operator = start(&buffer);
    for n in 0..10 {
        sender.try_send(n).unwrap();
    }
    assert_eq!(
        given(&mut operator, &quiet()).0,
        (0..10).collect::<Vec<_>>()
    );
    let state = cut(&mut operator, 1);
    for n in 10..20 {
        sender.try_send(n).unwrap();
    }
    assert_eq!(
        given(&mut operator, &quiet()).0,
        (10..20).collect::<Vec<_>>()
    );
    drop(sender);

    // The operator died and is made anew; the buffer has survived.
    let mut successor = ReplayableStart::new(InstanceContext::alone("start"), &buffer);
    successor.reset(&mut &state[..], 1).unwrap();
    successor.resumed_at(1, 0).unwrap();
    assert_eq!(given(&mut successor, &quiet()), ((10..20).collect(), true));

    // Without a cut everything comes again.
    successor.reset_to_initial_state().unwrap();
    successor.resumed_at(0, 0).unwrap();
    assert_eq!(given(&mut successor, &quiet()).0.len(), 20);
}

#[test]
fn what_no_cut_needs_any_more_makes_room_and_is_told_as_covered() {
    let buffer = ReplayBuffer::new(4);
    let sender = buffer.sender();
    let mut operator = start(&buffer);
    let receipts: Vec<_> = (0..4).map(|n| sender.try_send(n).unwrap()).collect();
    assert_eq!(sender.try_send(4).unwrap_err(), NotTaken(4));
    let mut waiting = Box::pin(sender.send(4));
    assert!(waiting.as_mut().now_or_never().is_none());

    let wished = Arc::new(AtomicBool::new(false));
    let region = RegionHandle::new({
        let wished = Arc::clone(&wished);
        move |wish| {
            assert_eq!(wish, Wish::Cut);
            wished.store(true, Ordering::SeqCst);
        }
    });
    assert_eq!(given(&mut operator, &region).0, [0, 1, 2, 3]);
    assert!(wished.load(Ordering::SeqCst), "a full buffer needs a cut");
    cut(&mut operator, 1);
    operator.region_checkpointed(1, 0).unwrap();
    assert!(
        waiting.as_mut().now_or_never().is_none(),
        "the initial state is retained"
    );
    let covered = receipts[3].clone().covered().now_or_never();
    assert!(covered.is_none());
    cut(&mut operator, 2);
    operator.region_checkpointed(2, 1).unwrap();
    let covered = receipts[3].clone().covered().now_or_never();
    assert_eq!(covered, Some(Ok(())));
    assert!(waiting.as_mut().now_or_never().is_some());
    assert_eq!(given(&mut operator, &quiet()).0, [4]);
}

#[test]
fn a_buffer_that_was_lost_with_its_process_is_noticed() {
    let lost = ReplayBuffer::new(100);
    lost.sender().try_send(1).unwrap();
    let mut operator = start(&lost);
    given(&mut operator, &quiet());
    let state = cut(&mut operator, 1);

    let buffer = ReplayBuffer::new(100);
    let sender = buffer.sender();
    sender.try_send(7).unwrap();
    let context = InstanceContext::alone("start");
    let mut failing = ReplayableStart::new(context.clone(), &buffer);
    let error = failing.reset(&mut &state[..], 1).unwrap_err();
    assert!(matches!(error, OperatorError::Permanent(_)), "{error}");
    let error = failing.reset_to_initial_state().unwrap_err();
    assert!(error.to_string().contains("no cut covered"), "{error}");

    let mut going_on = ReplayableStart::new(context, &buffer).on_lost_buffer(OnLostBuffer::GoOn);
    going_on.reset(&mut &state[..], 1).unwrap();
    going_on.resumed_at(1, 1).unwrap();
    assert_eq!(given(&mut going_on, &quiet()).0, [7]);
}
