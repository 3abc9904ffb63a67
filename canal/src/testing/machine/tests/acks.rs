//! CLIENTACK and CLIENTROLLBACK: answered only when they are refused.

use super::super::*;
use super::client::*;
use crate::testing::store::StoreLimits;

const NOTHING: [Heard; 0] = [];

#[test]
fn an_ack_has_no_answer_and_auto_ack_does_nothing() {
    let mut lab = Lab::new();
    let client = lab.subscribed();
    lab.commit(1);
    assert_eq!(lab.send(client, &get(10, -1)), [Heard::Batch(1, 2)]);
    assert_eq!(lab.statistics().outstanding_batches, 1);
    assert_eq!(lab.send(client, &ack(1)), NOTHING);
    let statistics = lab.statistics();
    assert_eq!(statistics.outstanding_batches, 0);
    assert_eq!(statistics.acked_transactions, 1);
    assert_eq!(statistics.acked_entries, 2);
    assert_eq!(statistics.acked_rows, 1);
}

#[test]
fn acks_are_refused_by_their_reason() {
    let mut lab = Lab::new();
    let client = lab.subscribed();
    lab.commit(2);
    lab.send(client, &get(2, -1));
    lab.send(client, &get(2, -1));
    lab.send(client, &ack(0))[0].is_failure(402, "batchId should assign value");
    lab.send(client, &ack(9))[0].is_failure(
        400,
        "ack error , clientId:1001 batchId:9 is not exist , please check",
    );
    lab.send(client, &ack(2))[0].is_failure(400, "batchId:2 is not the firstly:1");
    assert_eq!(lab.send(client, &ack(1)), NOTHING, "nothing had changed");
    lab.send(client, &ack(1))[0].is_failure(400, "batchId:1 is not exist");
    assert_eq!(lab.send(client, &ack(2)), NOTHING);
    assert_eq!(lab.statistics().refused, 4);
}

#[test]
fn rollback_of_all_voids_ids_and_delivers_again() {
    let mut lab = Lab::new();
    let client = lab.subscribed();
    lab.commit(2);
    assert_eq!(lab.send(client, &get(2, -1)), [Heard::Batch(1, 2)]);
    assert_eq!(lab.send(client, &get(2, -1)), [Heard::Batch(2, 2)]);
    lab.send(client, &ack(1));
    assert_eq!(lab.send(client, &rollback(0)), NOTHING);
    lab.send(client, &ack(2))[0].is_failure(400, "is not exist");
    assert_eq!(lab.send(client, &get(10, -1)), [Heard::Batch(3, 2)]);
}

#[test]
fn rollback_of_one_batch_must_name_the_first() {
    let mut lab = Lab::new();
    let client = lab.subscribed();
    lab.commit(2);
    lab.send(client, &get(2, -1));
    lab.send(client, &get(2, -1));
    lab.send(client, &rollback(2))[0].is_failure(400, "batchId:2 is not the firstly:1");
    lab.send(client, &rollback(9))[0]
        .is_failure(400, "rollback error, clientId:1001 batchId:9 is not exist");
    assert_eq!(lab.send(client, &rollback(1)), NOTHING);
    assert_eq!(lab.send(client, &get(2, -1)), [Heard::Batch(3, 2)]);
}

#[test]
fn rollback_of_one_batch_and_ack_of_the_next_loses_rows() {
    let mut lab = Lab::with(ServerSettings::default(), StoreLimits::default());
    let client = lab.subscribed();
    lab.commit(3);
    for id in 1..=2 {
        assert_eq!(lab.send(client, &get(0, -1)), [Heard::Batch(id, 1)]);
    }
    lab.send(client, &rollback(1));
    assert_eq!(lab.send(client, &ack(2)), NOTHING);
    lab.send(client, &get(1_000, -1))[0].is_failure(400, "NullPointerException");
    lab.send(client, &rollback(0));
    assert_eq!(
        lab.send(client, &get(1_000, -1)),
        [Heard::Batch(3, 4)],
        "2 of 6 are lost"
    );
}
