//! GET: what it takes, and how long it waits.

use std::time::Duration;

use super::super::*;
use super::client::*;
use crate::testing::Transaction;
use crate::testing::store::StoreLimits;

const NOTHING: [Heard; 0] = [];
const EMPTY: [Heard; 1] = [Heard::Batch(-1, 0)];

fn memory() -> Lab {
    Lab::with(ServerSettings::default(), StoreLimits::default())
}

#[test]
fn get_without_waiting_answers_at_once() {
    let mut lab = Lab::new();
    let client = lab.subscribed();
    assert_eq!(lab.send(client, &get(10, -1)), EMPTY);
    lab.commit(2);
    assert_eq!(lab.send(client, &get(3, -7)), [Heard::Batch(1, 3)]);
    assert_eq!(lab.send(client, &get(3, -1)), [Heard::Batch(2, 1)]);
    assert_eq!(lab.send(client, &get(3, -1)), EMPTY);
}

#[test]
fn get_waits_until_the_batch_is_full_or_the_time_is_over() {
    let mut lab = Lab::new();
    let client = lab.subscribed();
    lab.commit(1);
    assert_eq!(lab.send(client, &get(4, 1_500)), NOTHING);
    assert_eq!(lab.pass(Duration::from_millis(1_499)), []);
    assert_eq!(
        lab.pass(Duration::from_millis(1)),
        [(client, Heard::Batch(1, 2))]
    );
    assert_eq!(lab.send(client, &get(4, 1_500)), NOTHING);
    lab.commit(2);
    assert_eq!(
        lab.pass(Duration::ZERO),
        [(client, Heard::Batch(2, 4))],
        "full: at once"
    );
}

#[test]
fn full_means_kibibytes_in_memory_size() {
    let mut lab = memory();
    let client = lab.subscribed();
    lab.commit(4);
    assert_eq!(
        lab.send(client, &get(1, 1_000)),
        NOTHING,
        "8 entries are less than 1 KiB"
    );
    lab.commit(2);
    assert!(matches!(
        lab.pass(Duration::ZERO)[..],
        [(_, Heard::Batch(1, 8..=12))]
    ));
}

#[test]
fn a_timeout_of_zero_or_none_waits_for_ever() {
    for timeout in [Some(0), None] {
        let mut lab = Lab::new();
        let client = lab.subscribed();
        lab.commit(1);
        let packet = get_from(EXAMPLE, "1001", 4, timeout, Some(2));
        assert_eq!(lab.send(client, &packet), NOTHING);
        assert_eq!(lab.pass(Duration::from_secs(3_000)), []);
        lab.commit(1);
        assert_eq!(lab.pass(Duration::ZERO), [(client, Heard::Batch(1, 4))]);
    }
}

#[test]
fn timeouts_have_javas_units() {
    for (unit, timeout, milliseconds) in [
        (Some(0), 5_000_000, 5),
        (None, 5_000_000, 5),
        (Some(1), 5_000, 5),
        (Some(2), 5, 5),
        (Some(3), 5, 5_000),
        (Some(4), 5, 300_000),
        (Some(77), 5, 5),
    ] {
        let mut lab = Lab::new();
        let client = lab.subscribed();
        let packet = get_from(EXAMPLE, "1001", 4, Some(timeout), unit);
        assert_eq!(lab.send(client, &packet), NOTHING);
        assert_eq!(
            lab.pass(Duration::from_millis(milliseconds - 1)),
            [],
            "{unit:?}"
        );
        let heard = lab.pass(Duration::from_millis(1));
        assert_eq!(heard, [(client, Heard::Batch(-1, 0))], "{unit:?}");
    }
}

#[test]
fn fetch_sizes_that_hold_no_entry_are_refused() {
    let mut lab = memory();
    let client = lab.subscribed();
    lab.commit(1);
    for fetch_size in [-1, 2_097_152, i32::MAX] {
        lab.send(client, &get(fetch_size, -1))[0].is_failure(400, "IndexOutOfBounds");
    }
    assert_eq!(lab.send(client, &get(0, -1)), [Heard::Batch(1, 1)]);
    assert_eq!(lab.send(client, &get(2_097_151, -1)), [Heard::Batch(2, 1)]);
    let mut lab = Lab::new();
    let client = lab.subscribed();
    lab.commit(1);
    for fetch_size in [0, -1] {
        lab.send(client, &get(fetch_size, -1))[0].is_failure(400, "IndexOutOfBounds");
    }
    assert_eq!(lab.send(client, &get(i32::MAX, -1)), [Heard::Batch(1, 2)]);
}

#[test]
fn requests_sent_at_once_are_answered_in_order() {
    let mut lab = Lab::new();
    let client = lab.subscribed();
    lab.commit(2);
    let heard = lab.send_all(
        client,
        &[get(2, -1), ack(1), get(2, -1), ack(7), get(2, -1)],
    );
    assert_eq!(heard[..2], [Heard::Batch(1, 2), Heard::Batch(2, 2)]);
    heard[2].is_failure(400, "batchId:7 is not exist");
    assert_eq!(heard[3..], [Heard::Batch(-1, 0)]);
}

#[test]
fn a_store_without_room_gives_nothing_until_an_ack() {
    let mut lab = Lab::with(ServerSettings::default(), items().with_slots(4));
    let client = lab.subscribed();
    lab.commit(4);
    assert_eq!(lab.send(client, &get(100, -1)), [Heard::Batch(1, 4)]);
    assert_eq!(lab.send(client, &get(100, -1)), EMPTY);
    lab.send(client, &ack(1));
    assert_eq!(lab.send(client, &get(100, -1)), [Heard::Batch(2, 4)]);
}

#[test]
fn an_isolated_ddl_comes_in_a_batch_of_its_own() {
    let mut lab = Lab::with(ServerSettings::default(), items().with_ddl_isolation(true));
    let client = lab.subscribed();
    lab.commit(1);
    lab.push(Transaction::ddl(
        "shop",
        "orders",
        "ALTER TABLE orders ADD note TEXT",
    ));
    lab.commit(1);
    assert_eq!(lab.send(client, &get(100, -1)), [Heard::Batch(1, 2)]);
    assert_eq!(lab.send(client, &get(100, -1)), [Heard::Batch(2, 1)]);
    assert_eq!(lab.send(client, &get(100, -1)), [Heard::Batch(3, 2)]);
}
