//! Who may ask for what: destinations, client ids, subscriptions, filters.

use std::time::Duration;

use super::super::*;
use super::client::*;

const NOTHING: [Heard; 0] = [];
const EMPTY: [Heard; 1] = [Heard::Batch(-1, 0)];

#[test]
fn an_unknown_destination_should_start_first() {
    let mut lab = Lab::new();
    let client = lab.subscribed();
    for packet in [
        sub("nope", "1001", ""),
        unsub("nope", "1001"),
        get_from("nope", "1001", 1, Some(-1), Some(2)),
        ack_at("nope", "1001", 1),
        rollback_at("nope", "1001", 0),
    ] {
        let heard = lab.send(client, &packet);
        heard[0].is_failure(400, "destination:nope should start first");
    }
    assert_eq!(lab.send(client, &get(1, -1)), EMPTY, "the connection stays");
}

#[test]
fn empty_destination_or_client_id_is_401() {
    let mut lab = Lab::new();
    let client = lab.connect();
    for packet in [
        sub("", "1001", ""),
        sub(EXAMPLE, "", ""),
        unsub(EXAMPLE, ""),
        get_from(EXAMPLE, "", 1, Some(-1), Some(2)),
        ack_at("", "1001", 1),
        rollback_at(EXAMPLE, "", 0),
    ] {
        lab.send(client, &packet)[0].is_failure(401, "destination or clientId is null");
    }
}

#[test]
fn a_client_id_is_a_java_short() {
    let mut lab = Lab::new();
    let client = lab.connect();
    for id in ["abc", "70000", "40000"] {
        lab.send(client, &sub(EXAMPLE, id, ""))[0].is_failure(400, "NumberFormatException");
    }
    assert_eq!(lab.send(client, &sub(EXAMPLE, "-5", "")), [Heard::Success]);
}

#[test]
fn without_a_subscription_only_some_requests_are_refused() {
    let mut lab = Lab::new();
    let client = lab.connect();
    for packet in [get(1, -1), ack(1)] {
        lab.send(client, &packet)[0].is_failure(400, "should subscribe first");
    }
    assert_eq!(lab.send(client, &rollback(0)), NOTHING);
    assert_eq!(lab.send(client, &rollback(7)), NOTHING);
    assert_eq!(lab.send(client, &unsub(EXAMPLE, "1001")), [Heard::Success]);
    assert_eq!(lab.statistics().rollbacks, 0);
}

#[test]
fn after_unsubscribing_a_client_should_subscribe_first() {
    let mut lab = Lab::new();
    let client = lab.subscribed();
    lab.commit(1);
    lab.send(client, &get(10, -1));
    assert_eq!(lab.send(client, &unsub(EXAMPLE, "1001")), [Heard::Success]);
    lab.send(client, &get(10, -1))[0].is_failure(400, "should subscribe first");
    lab.send(client, &ack(1))[0].is_failure(400, "should subscribe first");
}

#[test]
fn a_filter_holds_for_what_is_read_afterwards_and_an_empty_one_keeps_it() {
    let mut lab = Lab::with(ServerSettings::default(), items().with_slots(2));
    let client = lab.subscribed();
    lab.commit(2);
    lab.pass(Duration::ZERO);
    lab.send(client, &sub(EXAMPLE, "1001", "nomatch"));
    lab.send(client, &sub(EXAMPLE, "1001", ""));
    assert_eq!(lab.statistics().filter, "nomatch");
    assert_eq!(
        lab.send(client, &get(100, -1)),
        [Heard::Batch(1, 2)],
        "read before"
    );
    lab.send(client, &ack(1));
    assert_eq!(
        lab.send(client, &get(100, -1)),
        [Heard::Batch(2, 1)],
        "an end alone"
    );
}

#[test]
fn a_broken_filter_stalls_until_a_good_one_comes() {
    let mut lab = Lab::new();
    let client = lab.subscribed();
    assert_eq!(
        lab.send(client, &sub(EXAMPLE, "1001", "(((")),
        [Heard::Success]
    );
    lab.commit(1);
    assert_eq!(lab.send(client, &get(100, -1)), EMPTY);
    lab.send(client, &sub(EXAMPLE, "1001", r"shop\..*"));
    assert_eq!(lab.send(client, &get(100, -1)), [Heard::Batch(1, 2)]);
}

#[test]
fn a_destination_that_runs_elsewhere_should_start_first() {
    let mut lab = Lab::new();
    let client = lab.subscribed();
    lab.send(client, &get(100, 5_000));
    lab.machine.destination(EXAMPLE).unwrap().running = false;
    let heard = lab.pass(Duration::ZERO);
    heard[0]
        .1
        .is_failure(400, "destination:example should start first");
    lab.send(client, &sub(EXAMPLE, "1001", ""))[0].is_failure(400, "should start first");
    lab.machine.destination(EXAMPLE).unwrap().running = true;
    assert_eq!(lab.send(client, &get(100, -1)), EMPTY);
}
