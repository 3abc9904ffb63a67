//! Several connections, several client ids: one cursor, one read pointer, one lock.

use std::time::Duration;

use super::super::*;
use super::client::*;

const NOTHING: [Heard; 0] = [];

#[test]
fn two_connections_with_one_client_id_share_a_cursor() {
    let mut lab = Lab::new();
    let first = lab.subscribed();
    let second = lab.subscribed();
    lab.commit(3);
    assert_eq!(lab.send(first, &get(2, -1)), [Heard::Batch(1, 2)]);
    assert_eq!(
        lab.send(second, &get(2, -1)),
        [Heard::Batch(2, 2)],
        "a stolen batch"
    );
    assert_eq!(lab.send(first, &get(2, -1)), [Heard::Batch(3, 2)]);
    assert_eq!(
        lab.send(second, &ack(1)),
        NOTHING,
        "either may ack the other's"
    );
    lab.send(second, &rollback(0));
    lab.send(first, &ack(3))[0].is_failure(400, "is not exist");
    assert_eq!(lab.send(first, &get(100, -1)), [Heard::Batch(4, 4)]);
}

#[test]
fn two_client_ids_share_one_read_pointer() {
    let mut lab = Lab::new();
    let first = lab.subscribed();
    let second = lab.connect();
    lab.send(second, &sub(EXAMPLE, "1002", ""));
    lab.commit(1);
    assert_eq!(
        lab.send(second, &get_as("1002", 10, -1)),
        [Heard::Batch(1, 2)]
    );
    assert_eq!(lab.send(first, &get(10, -1)), [Heard::Batch(-1, 0)]);
    assert_eq!(lab.send(second, &ack_at(EXAMPLE, "1002", 1)), NOTHING);
    assert_eq!(lab.statistics().unacknowledged_entries, 0);
}

#[test]
fn a_waiting_get_holds_the_lock_against_gets_and_rollbacks_but_not_subscriptions() {
    let mut lab = Lab::new();
    let waiting = lab.subscribed();
    let other = lab.subscribed();
    lab.commit(1);
    assert_eq!(lab.send(waiting, &get(100, 2_000)), NOTHING);
    assert_eq!(lab.send(other, &rollback(0)), NOTHING);
    assert_eq!(lab.send(other, &get(100, -1)), NOTHING);
    let third = lab.connect();
    assert_eq!(lab.send(third, &sub(EXAMPLE, "1001", "")), [Heard::Success]);
    assert_eq!(
        lab.pass(Duration::from_secs(2)),
        [(waiting, Heard::Batch(1, 2)), (other, Heard::Batch(2, 2))],
        "the rollback came behind the first batch, and gave it back"
    );
}

#[test]
fn the_wait_of_a_get_counts_from_when_it_has_the_lock() {
    let mut lab = Lab::new();
    let first = lab.subscribed();
    let second = lab.subscribed();
    let second_is = |heard: &[(ConnectionId, Heard)], id| {
        assert_eq!(heard, [(id, Heard::Batch(-1, 0))]);
    };
    lab.send(first, &get(100, 1_000));
    lab.send(second, &get(100, 1_000));
    second_is(&lab.pass(Duration::from_secs(1)), first);
    assert_eq!(lab.pass(Duration::from_millis(999)), []);
    second_is(&lab.pass(Duration::from_millis(1)), second);
}

#[test]
fn a_dead_connections_get_takes_a_batch_that_only_a_rollback_brings_back() {
    let mut lab = Lab::new();
    let dead = lab.subscribed();
    assert_eq!(lab.send(dead, &get(4, 0)), NOTHING);
    lab.event(Event::Disconnected { id: dead });
    let client = lab.subscribed();
    assert_eq!(
        lab.send(client, &get(4, -1)),
        NOTHING,
        "it waits behind the dead one"
    );
    lab.commit(3);
    assert_eq!(lab.pass(Duration::ZERO), [(client, Heard::Batch(2, 2))]);
    lab.send(client, &rollback(0));
    assert_eq!(lab.send(client, &get(100, -1)), [Heard::Batch(3, 6)]);
}
