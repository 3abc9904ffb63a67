//! One connection's requests and their answers, row by row.

use std::time::Duration;

use prost::Message;

use super::super::*;
use super::client::*;
use crate::protocol::generated::packet::{ClientAuth, Packet, PacketType, Sub};
use crate::protocol::packet::packet;
use crate::protocol::password;
use crate::testing::Transaction;
use crate::testing::store::StoreLimits;

const NOTHING: [Heard; 0] = [];
const EMPTY: [Heard; 1] = [Heard::Batch(-1, 0)];

fn locked(version: ServerVersion) -> Lab {
    let settings = ServerSettings {
        version,
        user: "canal".to_owned(),
        password: "secret".to_owned(),
    };
    Lab::with(settings, items())
}

fn memory() -> Lab {
    Lab::with(ServerSettings::default(), StoreLimits::default())
}

#[test]
fn the_handshake_is_the_captured_one() {
    let mut lab = Lab::new();
    lab.dial();
    let expected = [
        &[0, 0, 0, 16, 0x10, 1, 0x18, 1, 0x2a, 10, 0x12, 8],
        &SEEDS[..],
    ]
    .concat();
    assert_eq!(lab.outputs[0].bytes, expected);
}

#[test]
fn success_and_nothing_there_are_the_captured_bytes() {
    let mut lab = Lab::new();
    let client = lab.subscribed();
    assert_eq!(
        lab.outputs[1].bytes,
        [0, 0, 0, 4, 0x10, 1, 0x18, 3].as_slice()
    );
    lab.send(client, &get(1, -1));
    let expected =
        b"\x00\x00\x00\x11\x10\x01\x18\x07\x2a\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
    assert_eq!(lab.outputs[3].bytes, expected.as_slice());
}

#[test]
fn a_batch_goes_without_the_packets_version() {
    let mut lab = Lab::new();
    let client = lab.subscribed();
    lab.commit(1);
    assert_eq!(lab.send(client, &get(10, -1)), [Heard::Batch(1, 2)]);
    assert_eq!(lab.outputs[3].bytes[4..6], [0x18, 7]);
}

#[test]
fn the_right_password_gets_in_in_either_case() {
    for upper in [false, true] {
        let mut lab = locked(ServerVersion::V1_1_7);
        let (client, _) = lab.dial();
        let token = password::token(b"secret", &SEEDS);
        let token = if upper { token.to_uppercase() } else { token };
        assert_eq!(lab.send(client, &auth("canal", &token)), [Heard::Success]);
    }
}

#[test]
fn a_wrong_password_is_refused_and_then_let_in_up_to_1_1_7() {
    let wrong = password::token(b"wrong", &SEEDS);
    for (user, token) in [
        ("canal", wrong.as_str()),
        ("canal", ""),
        ("nobody", wrong.as_str()),
    ] {
        let mut lab = locked(ServerVersion::V1_1_7);
        let (client, _) = lab.dial();
        let heard = lab.send(client, &auth(user, token));
        assert_eq!(heard.len(), 2);
        heard[0].is_failure(400, &format!("auth failed for user:{user}"));
        assert_eq!(heard[1], Heard::Success);
        assert_eq!(
            lab.send(client, &sub(EXAMPLE, "1001", "")),
            [Heard::Success]
        );
    }
}

#[test]
fn a_wrong_password_is_only_refused_from_1_1_8_on() {
    let mut lab = locked(ServerVersion::V1_1_8);
    let (client, _) = lab.dial();
    let heard = lab.send(client, &auth("canal", &password::token(b"wrong", &SEEDS)));
    assert_eq!(heard.len(), 1);
    heard[0].is_failure(400, "auth failed");
    let token = password::token(b"secret", &SEEDS);
    assert_eq!(
        lab.send(client, &auth("canal", &token)),
        [Heard::Success],
        "it may try again"
    );
}

#[test]
fn a_password_that_is_no_hexadecimal_text_closes() {
    for token in ["secret", "7de4", &"x".repeat(40)] {
        let mut lab = locked(ServerVersion::V1_1_7);
        let (client, _) = lab.dial();
        assert_eq!(lab.send(client, &auth("canal", token)), [Heard::Closed]);
        assert_eq!(lab.statistics().broken_connections, 1);
    }
}

#[test]
fn old_servers_know_no_seeds_and_no_passwords() {
    let mut lab = locked(ServerVersion::V1_1_3);
    let (client, heard) = lab.dial();
    assert_eq!(heard, [Heard::Handshake(Vec::new())]);
    assert_eq!(lab.send(client, &auth("nobody", "plain")), [Heard::Success]);
}

#[test]
fn the_oldest_servers_close_after_an_error() {
    let mut lab = locked(ServerVersion::V1_0);
    let (client, _) = lab.dial();
    lab.send(client, &auth("", ""));
    let heard = lab.send(client, &sub("nope", "1001", ""));
    heard[0].is_failure(400, "should start first");
    assert_eq!(heard[1], Heard::Closed);
}

#[test]
fn whatever_comes_first_is_read_as_an_authentication() {
    let mut lab = locked(ServerVersion::V1_1_7);
    let (client, _) = lab.dial();
    let heard = lab.send(client, &sub(EXAMPLE, "1001", ""));
    heard[0].is_failure(400, "auth failed for user:example");
    assert_eq!(heard[1], Heard::Success);
}

#[test]
fn there_is_no_time_out_before_authentication() {
    let mut lab = Lab::new();
    lab.dial();
    assert_eq!(lab.pass(Duration::from_secs(86_400)), []);
}

#[test]
fn garbage_and_negative_lengths_close() {
    let mut lab = Lab::new();
    for bytes in [
        &[0xff, 0xff, 0xff, 0xff][..],
        &[0, 0, 0, 3, 0xff, 0xff, 0xff],
    ] {
        let (client, _) = lab.dial();
        assert_eq!(lab.send_bytes(client, bytes.to_vec()), [Heard::Closed]);
        let client = lab.connect();
        assert_eq!(lab.send_bytes(client, bytes.to_vec()), [Heard::Closed]);
    }
    let (client, _) = lab.dial();
    let packet = Packet {
        body: Bytes::from_static(&[0xff, 0xff]),
        ..Packet::default()
    };
    assert_eq!(
        lab.send(client, &packet.encode_to_vec().into()),
        [Heard::Closed]
    );
    assert_eq!(lab.statistics().broken_connections, 5);
}

#[test]
fn a_huge_length_is_waited_for() {
    let mut lab = Lab::new();
    let client = lab.connect();
    assert_eq!(
        lab.send_bytes(client, vec![0x7f, 0xff, 0xff, 0xff, 1, 2]),
        NOTHING
    );
    assert_eq!(lab.send_bytes(client, vec![0; 100_000]), NOTHING);
}

#[test]
fn unsupported_types_are_named_and_the_connection_stays() {
    let mut lab = Lab::new();
    let client = lab.subscribed();
    for (number, name) in [
        (0, "PACKAGETYPECOMPATIBLEPROTO2"),
        (1, "HANDSHAKE"),
        (2, "CLIENTAUTHENTICATION"),
        (3, "ACK"),
        (7, "MESSAGES"),
        (9, "SHUTDOWN"),
        (10, "DUMP"),
        (11, "HEARTBEAT"),
        (99, "UNRECOGNIZED"),
    ] {
        let heard = lab.send(client, &of_type(number));
        heard[0].is_failure(400, &format!("packet type={name} is NOT supported!"));
    }
    let heard = lab.send_bytes(client, vec![0, 0, 0, 0]);
    heard[0].is_failure(400, "PACKAGETYPECOMPATIBLEPROTO2");
    assert_eq!(lab.send(client, &get(1, -1)), EMPTY);
}

#[test]
fn magic_version_and_compression_of_a_client_are_ignored() {
    let mut lab = Lab::new();
    let client = lab.connect();
    let body = Sub {
        destination: EXAMPLE.to_owned(),
        client_id: "1001".to_owned(),
        filter: String::new(),
    };
    let packet = Packet {
        magic_number: Some(99),
        version: Some(42),
        r#type: PacketType::Subscription.into(),
        compression: Some(3),
        body: body.encode_to_vec().into(),
    };
    assert_eq!(
        lab.send(client, &packet.encode_to_vec().into()),
        [Heard::Success]
    );
}

#[test]
fn a_body_that_is_another_message_is_a_protobuf_error() {
    let mut lab = Lab::new();
    let client = lab.connect();
    let packet = Packet {
        r#type: PacketType::Subscription.into(),
        body: Bytes::from_static(b"\x1f\x8b\x08\x00\xff"),
        ..Packet::default()
    };
    let heard = lab.send(client, &packet.encode_to_vec().into());
    heard[0].is_failure(400, "InvalidProtocolBufferException");
    assert_eq!(
        lab.send(client, &sub(EXAMPLE, "1001", "")),
        [Heard::Success]
    );
}

#[test]
fn an_authentication_with_a_destination_subscribes() {
    let mut lab = Lab::new();
    let mut body = ClientAuth {
        destination: EXAMPLE.to_owned(),
        client_id: "1001".to_owned(),
        filter: r"shop\..*".to_owned(),
        ..ClientAuth::default()
    };
    let (client, _) = lab.dial();
    let heard = lab.send(client, &packet(PacketType::ClientAuthentication, &body));
    assert_eq!(heard, [Heard::Success]);
    assert_eq!(lab.send(client, &get(1, -1)), EMPTY);
    assert_eq!(lab.statistics().filter, r"shop\..*");
    body.destination = "nope".to_owned();
    let (client, _) = lab.dial();
    let heard = lab.send(client, &packet(PacketType::ClientAuthentication, &body));
    assert_eq!(heard, [Heard::Closed]);
}

#[test]
fn silence_in_either_direction_closes_even_while_a_get_waits() {
    let second = Duration::from_secs(1);
    for (read, write) in [(1_500, 0), (0, 1_500)] {
        let mut lab = Lab::new();
        let (client, _) = lab.dial();
        lab.send(client, &auth_with("", "", read, write));
        lab.send(client, &sub(EXAMPLE, "1001", ""));
        assert_eq!(lab.send(client, &get(100, 4_000)), NOTHING);
        assert_eq!(lab.pass(second), []);
        assert_eq!(lab.pass(second), [(client, Heard::Closed)]);
        assert_eq!(lab.statistics().idle_connections_closed, 1);
    }
}

#[test]
fn an_empty_ack_keeps_the_reading_side_alive() {
    let mut lab = Lab::new();
    let (client, _) = lab.dial();
    lab.send(client, &auth_with("", "", 1_500, 0));
    for _ in 0..5 {
        assert_eq!(lab.pass(Duration::from_secs(1)), []);
        assert_eq!(lab.send(client, &ack(-1)), NOTHING);
    }
    assert_eq!(lab.statistics().empty_acks, 5);
}

#[test]
fn idle_times_of_zero_are_an_hour() {
    let mut lab = Lab::new();
    let client = lab.connect();
    assert_eq!(lab.pass(Duration::from_secs(3_599)), []);
    assert_eq!(lab.pass(Duration::from_secs(1)), [(client, Heard::Closed)]);
}

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
    let mut lab = memory();
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
