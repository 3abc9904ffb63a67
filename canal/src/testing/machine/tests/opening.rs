//! Connecting, authenticating, frames that are none, silence.

use std::time::Duration;

use prost::Message;

use super::super::*;
use super::client::*;
use crate::protocol::generated::packet::{ClientAuth, Packet, PacketType, Sub};
use crate::protocol::packet::packet;
use crate::protocol::password;

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
