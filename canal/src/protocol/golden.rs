//! Packets against frames that were captured from the Java client and server of 1.1.7.

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use prost::Message as _;
use tokio_util::codec::{Decoder, Encoder};

use super::frame::{DEFAULT_FRAME_LIMIT, FrameCodec};
use super::generated::entry::{Entry, EntryType, Header, RowChange, TransactionEnd};
use super::generated::packet::{Messages, PacketType};
use super::packet::*;
use super::password::token;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

fn framed(packet: Bytes) -> Vec<u8> {
    let mut wire = BytesMut::new();
    FrameCodec::new(DEFAULT_FRAME_LIMIT)
        .encode(packet, &mut wire)
        .unwrap();
    wire.to_vec()
}

fn unframed(text: &str) -> Bytes {
    let mut wire = BytesMut::from(&hex(text)[..]);
    let frame = FrameCodec::new(DEFAULT_FRAME_LIMIT)
        .decode(&mut wire)
        .unwrap()
        .unwrap();
    assert!(
        wire.is_empty(),
        "the frame's length is not that of the recorded bytes"
    );
    frame
}

fn example() -> Subscriber {
    Subscriber {
        destination: "example".to_owned(),
        client_id: "1001".to_owned(),
    }
}

#[test]
fn authentication_is_the_java_clients() {
    let token = token(b"canal", &[1, 2, 3, 4, 5, 6, 7, 8]);
    let packet = authentication(Authentication {
        username: "canal",
        token: &token,
        net_read_timeout: 3_600_000,
        net_write_timeout: 3_600_000,
    });
    let golden = "0000003f18022a3b0a0563616e616c1228376465343436393064386535333738326362363138\
                  303461323435356332383461336262666230361880dddb012080dddb01";
    assert_eq!(framed(packet), hex(golden));
}

#[test]
fn subscription_and_unsubscription_are_the_java_clients() {
    assert_eq!(
        framed(example().subscription(r"db\..*,x\.y")),
        hex("0000002018042a1c0a076578616d706c651204313030313a0b64625c2e2e2a2c785c2e79")
    );
    assert_eq!(
        framed(example().subscription("")),
        hex("00000013 18 04 2a 0f 0a076578616d706c65120431303031")
    );
    assert_eq!(
        framed(example().unsubscription()),
        hex("0000001318052a0f0a076578616d706c65120431303031")
    );
}

#[test]
fn get_always_carries_time_out_and_unit() {
    assert_eq!(
        framed(example().get(100, -1)),
        hex("0000002418062a200a076578616d706c65120431303031186420ffffffffffffffffff0128023000")
    );
    assert_eq!(
        framed(example().get(100, 500)),
        hex("0000001c 18 06 2a 18 0a076578616d706c65 120431303031 18 64 20 f403 28 02 30 00")
    );
}

#[test]
fn acknowledgements_and_rollback_are_the_java_clients() {
    assert_eq!(
        framed(example().acknowledgement(5)),
        hex("0000001518082a110a076578616d706c651204313030311805")
    );
    assert_eq!(
        framed(example().acknowledgement(NO_BATCH)),
        hex("0000001e18082a1a0a076578616d706c6512043130303118ffffffffffffffffff01")
    );
    assert_eq!(
        framed(example().rollback_all()),
        hex("00000013180c2a0f0a076578616d706c65120431303031")
    );
}

#[test]
fn heartbeat_is_a_packet_type_alone() {
    assert_eq!(framed(heartbeat()), hex("00000002180b"));
}

#[test]
fn handshake_gives_the_seeds() {
    let packet = unframed("00000010 10 01 18 01 2a 0a 12 08 50d043e0a03b48e3");
    let ServerPacket::Handshake(handshake) = ServerPacket::decode(packet).unwrap() else {
        panic!("not a handshake");
    };
    assert_eq!(handshake.seeds, hex("50d043e0a03b48e3"));
}

#[test]
fn handshake_without_version_and_seeds_is_accepted() {
    let packet = ServerPacket::decode(Bytes::from(hex("18012a00"))).unwrap();
    assert_eq!(packet, ServerPacket::Handshake(Default::default()));
}

#[test]
fn an_ack_without_a_body_is_success() {
    let packet = ServerPacket::decode(unframed("00000004 10 01 18 03")).unwrap();
    assert_eq!(
        packet,
        ServerPacket::Ack(ServerAck {
            code: 0,
            message: String::new()
        })
    );
}

#[test]
fn an_ack_with_a_code_carries_its_text() {
    let packet = ServerPacket::decode(Bytes::from(hex("100118032a07 08 9003 1202 6e6f"))).unwrap();
    assert_eq!(
        packet,
        ServerPacket::Ack(ServerAck {
            code: 400,
            message: "no".to_owned()
        })
    );
}

#[test]
fn an_empty_answer_has_batch_id_minus_one() {
    let packet = unframed("00000011 10 01 18 07 2a 0b 08 ffffffffffffffffff01");
    let expected = Messages {
        batch_id: NO_BATCH,
        messages: Vec::new(),
    };
    assert_eq!(
        ServerPacket::decode(packet).unwrap(),
        ServerPacket::Messages(expected)
    );
}

#[test]
fn a_recorded_transaction_end_is_read_without_a_copy() {
    let frame = unframed(
        "0000003e 18 07 2a 3a 08 03 12 36 0a2c 0801 120d62696e6c6f672e303030303031 18ca0e 2001 \
         2a055554462d38 30d0aaa0d3a234 3802 4200 4a00 501f 1003 1a04 12023537",
    );
    let range = frame.as_ptr_range();
    let ServerPacket::Messages(messages) = ServerPacket::decode(frame.clone()).unwrap() else {
        panic!("not messages");
    };
    assert_eq!(messages.batch_id, 3);
    let [entry] = &messages.messages[..] else {
        panic!("not one entry")
    };
    assert!(range.contains(&entry.as_ptr()));
    let entry = Entry::decode(entry.clone()).unwrap();
    assert!(range.contains(&entry.store_value.as_ptr()));
    assert_eq!(entry.entry_type(), EntryType::TransactionEnd);
    let header = entry.header.unwrap();
    assert_eq!(
        (header.logfile_name.as_str(), header.logfile_offset),
        ("binlog.000001", 1866)
    );
    assert_eq!((header.server_id, header.event_length), (1, 31));
    let end = TransactionEnd::decode(entry.store_value).unwrap();
    assert_eq!(end.transaction_id, "57");
}

#[test]
fn compressed_packets_are_refused() {
    for compression in ["02", "03", "04"] {
        let bytes = Bytes::from(hex(&format!("1807 20{compression}")));
        assert!(matches!(
            ServerPacket::decode(bytes),
            Err(PacketError::Compressed(2..=4))
        ));
    }
    assert!(ServerPacket::decode(Bytes::from(hex("1807 2000"))).is_ok());
    assert!(ServerPacket::decode(Bytes::from(hex("1807 2001"))).is_ok());
}

#[test]
fn packets_that_only_clients_send_are_refused() {
    let bytes = example().get(1, -1);
    assert!(matches!(
        ServerPacket::decode(bytes),
        Err(PacketError::UnexpectedType(6))
    ));
    assert!(matches!(
        ServerPacket::decode(packet(PacketType::Shutdown, &())),
        Err(PacketError::UnexpectedType(9))
    ));
}

proptest! {
    #[test]
    fn any_bytes_decode_or_fail_but_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let bytes = Bytes::from(bytes);
        let _ = ServerPacket::decode(bytes.clone());
        let _ = Entry::decode(bytes.clone());
        let _ = Header::decode(bytes.clone());
        let _ = RowChange::decode(bytes.clone());
        let _ = TransactionEnd::decode(bytes);
    }

    #[test]
    fn a_damaged_batch_never_panics(at in 0_usize..66, to in any::<u8>()) {
        let mut bytes = hex(
            "18072a3a080312360a2c0801120d62696e6c6f672e30303030303118ca0e20012a055554462d3830d0aaa0\
             d3a234380242004a00501f10031a0412023537",
        );
        let at = at % bytes.len();
        bytes[at] = to;
        if let Ok(ServerPacket::Messages(messages)) = ServerPacket::decode(Bytes::from(bytes)) {
            for entry in messages.messages {
                let _ = Entry::decode(entry);
            }
        }
    }
}
