//! Scripted faults strike where they are planned, and only there.

use std::time::Duration;

use super::super::*;
use super::client::*;

const NOTHING: [Heard; 0] = [];

fn planned(request: Request, nth: u64, fault: Fault) -> (Lab, ConnectionId) {
    let mut lab = Lab::new();
    let client = lab.subscribed();
    lab.commit(2);
    lab.machine.faults().plan(request, nth, fault);
    (lab, client)
}

#[test]
fn the_nth_get_is_disconnected_and_takes_nothing() {
    let (mut lab, client) = planned(Request::Get, 2, Fault::Disconnect);
    assert_eq!(lab.send(client, &get(2, -1)), [Heard::Batch(1, 2)]);
    assert_eq!(lab.send(client, &get(2, -1)), [Heard::Closed]);
    let client = lab.subscribed();
    assert_eq!(lab.send(client, &get(2, -1)), [Heard::Batch(2, 2)]);
}

#[test]
fn a_lost_answer_takes_the_batch() {
    let (mut lab, client) = planned(Request::Get, 1, Fault::LoseAnswer);
    assert_eq!(lab.send(client, &get(2, -1)), [Heard::Closed]);
    let client = lab.subscribed();
    assert_eq!(lab.send(client, &get(100, -1)), [Heard::Batch(2, 2)]);
}

#[test]
fn a_refused_ack_changes_nothing() {
    let (mut lab, client) = planned(Request::Ack, 1, Fault::refuse("the disk is full"));
    lab.send(client, &get(2, -1));
    lab.send(client, &ack(1))[0].is_failure(400, "the disk is full");
    assert_eq!(lab.statistics().acked_entries, 0);
    assert_eq!(lab.send(client, &ack(1)), NOTHING);
    assert_eq!(lab.statistics().acked_entries, 2);
}

#[test]
fn a_lost_answer_to_an_ack_is_an_ack_that_took_hold() {
    let (mut lab, client) = planned(Request::Ack, 1, Fault::LoseAnswer);
    lab.send(client, &get(2, -1));
    assert_eq!(lab.send(client, &ack(1)), [Heard::Closed]);
    assert_eq!(lab.statistics().acked_entries, 2);
}

#[test]
fn answers_are_garbled_delayed_cut_and_torn() {
    let pause = Duration::from_millis(7);
    for (fault, expected) in [
        (
            Fault::Garbage(Bytes::from_static(b"ha")),
            Output::from(Bytes::from_static(b"ha")),
        ),
        (
            Fault::FrameLength(i32::MAX),
            Output::from(Bytes::from_static(&[0x7f, 0xff, 0xff, 0xff])),
        ),
        (
            Fault::Truncate(2),
            Output {
                then_close: true,
                ..Output::from(Bytes::from_static(&[0, 0]))
            },
        ),
    ] {
        let (mut lab, client) = planned(Request::Get, 1, fault);
        lab.send(client, &get(2, -1));
        assert_eq!(lab.outputs.last(), Some(&expected));
    }
    let (mut lab, client) = planned(Request::Get, 1, Fault::Delay(pause));
    lab.send(client, &get(2, -1));
    assert_eq!(lab.outputs.last().map(|output| output.delay), Some(pause));
    let (mut lab, client) = planned(Request::Get, 1, Fault::Pieces { size: 0, pause });
    lab.send(client, &get(2, -1));
    assert_eq!(
        lab.outputs.last().and_then(|output| output.pieces),
        Some((1, pause))
    );
}

#[test]
fn an_ignored_request_is_never_answered() {
    let (mut lab, client) = planned(Request::Get, 1, Fault::Ignore);
    assert_eq!(lab.send(client, &get(2, -1)), NOTHING);
    assert_eq!(lab.pass(Duration::from_secs(600)), []);
    assert_eq!(
        lab.send(client, &get(2, -1)),
        [Heard::Batch(1, 2)],
        "and takes nothing"
    );
}

#[test]
fn faults_strike_before_a_session_too() {
    let mut lab = Lab::new();
    lab.machine
        .faults()
        .plan(Request::Connect, 1, Fault::Ignore);
    lab.machine
        .faults()
        .plan(Request::Authenticate, 1, Fault::Disconnect);
    let (client, heard) = lab.dial();
    assert_eq!(heard, NOTHING);
    assert_eq!(lab.send(client, &auth("", "")), [Heard::Closed]);
}

#[test]
fn a_stalled_script_gives_nothing() {
    let mut lab = Lab::new();
    let client = lab.subscribed();
    lab.machine
        .destination(EXAMPLE)
        .unwrap()
        .script()
        .set_stalled(true);
    lab.commit(1);
    assert_eq!(lab.send(client, &get(10, -1)), [Heard::Batch(-1, 0)]);
    lab.machine
        .destination(EXAMPLE)
        .unwrap()
        .script()
        .set_stalled(false);
    assert_eq!(lab.send(client, &get(10, -1)), [Heard::Batch(1, 2)]);
}
