//! What a restarted server delivers: from the cursor on, and the entry at the cursor once more.

use std::time::Duration;

use super::super::*;
use super::client::*;

const SECOND: Duration = Duration::from_secs(1);

/// Three transactions, of which the first and half of the second are acknowledged.
fn one_and_a_half(lab: &mut Lab) -> ConnectionId {
    let client = lab.subscribed();
    lab.commit(3);
    assert_eq!(lab.send(client, &get(3, -1)), [Heard::Batch(1, 3)]);
    lab.send(client, &ack(1));
    assert_eq!(lab.send(client, &get(1, -1)), [Heard::Batch(2, 1)]);
    client
}

#[test]
fn a_graceful_restart_goes_on_at_the_last_acknowledged_boundary() {
    let mut lab = Lab::new();
    let old = one_and_a_half(&mut lab);
    assert_eq!(
        lab.machine.restart(Restart::Graceful),
        [Action::Close { id: old }]
    );
    let client = lab.subscribed();
    // the end of the first transaction, then the second and third whole; ids start at 1
    assert_eq!(lab.send(client, &get(100, -1)), [Heard::Batch(1, 5)]);
}

#[test]
fn a_subscription_outlives_a_restart() {
    let mut lab = Lab::new();
    one_and_a_half(&mut lab);
    lab.machine.restart(Restart::Graceful);
    let client = lab.connect();
    assert_eq!(lab.send(client, &get(100, -1)), [Heard::Batch(1, 5)]);
}

#[test]
fn a_killed_server_forgets_acks_since_the_cursor_was_written() {
    let mut lab = Lab::new();
    one_and_a_half(&mut lab);
    lab.machine.restart(Restart::Killed);
    let client = lab.subscribed();
    assert_eq!(
        lab.send(client, &get(100, -1)),
        [Heard::Batch(1, 6)],
        "from the start"
    );
}

#[test]
fn a_written_cursor_outlives_a_kill() {
    let mut lab = Lab::new();
    one_and_a_half(&mut lab);
    lab.pass(SECOND);
    lab.machine.restart(Restart::Killed);
    let client = lab.subscribed();
    assert_eq!(lab.send(client, &get(100, -1)), [Heard::Batch(1, 5)]);
}

#[test]
fn a_lost_cursor_loses_what_was_not_acknowledged() {
    let mut lab = Lab::new();
    one_and_a_half(&mut lab);
    lab.machine.restart(Restart::CursorLost);
    let client = lab.connect();
    lab.send(client, &get(1, -1))[0].is_failure(400, "should subscribe first");
    lab.send(client, &sub(EXAMPLE, "1001", ""));
    assert_eq!(lab.send(client, &get(100, -1)), [Heard::Batch(-1, 0)]);
    lab.commit(1);
    assert_eq!(lab.send(client, &get(100, -1)), [Heard::Batch(1, 2)]);
}

#[test]
fn a_forgotten_client_id_drags_everyone_back() {
    let mut lab = Lab::new();
    let forgotten = lab.connect();
    lab.send(forgotten, &sub(EXAMPLE, "7", ""));
    one_and_a_half(&mut lab);
    lab.machine.restart(Restart::Graceful);
    let client = lab.subscribed();
    assert_eq!(lab.send(client, &get(100, -1)), [Heard::Batch(1, 6)]);
}
