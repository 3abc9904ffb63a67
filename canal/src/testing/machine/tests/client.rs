//! A raw client on the machine: frames in, decoded answers out, a clock that tests move.

use std::time::{Duration, Instant};

use bytes::Bytes;
use prost::Message;

use super::super::*;
use crate::protocol::generated::entry::{Entry, RowChange, TransactionEnd};
use crate::protocol::generated::packet::{
    Ack, ClientAck, ClientAuth, ClientRollback, Get, Handshake, Messages, Packet, PacketType, Sub,
    Unsub,
};
use crate::protocol::packet::packet;
use crate::testing::destination::Script;
use crate::testing::store::{BatchMode, StoreLimits};
use crate::testing::{Table, Transaction};

pub(super) const SEEDS: [u8; 8] = [1, 2, 3, 4, 5, 6, 7, 8];
pub(super) const EXAMPLE: &str = "example";

/// What a client hears.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Heard {
    Handshake(Vec<u8>),
    Success,
    Failure(i32, String),
    /// The batch's id and the number of its entries.
    Batch(i64, usize),
    Closed,
}

impl Heard {
    #[track_caller]
    pub(super) fn is_failure(&self, code: i32, text: &str) {
        match self {
            Self::Failure(heard, message) => {
                assert_eq!(*heard, code, "{message}");
                assert!(message.contains(text), "{message}");
            }
            other => panic!("expected error {code} {text}, heard {other:?}"),
        }
    }
}

/// The server under test with a clock of its own.
pub(super) struct Lab {
    pub(super) machine: ServerMachine,
    pub(super) now: Moment,
    pub(super) outputs: Vec<Output>,
    last_id: u64,
    xid: u64,
}

/// Which entry of those that [`Lab::commit`] made this is: transaction n has 2n - 2 and 2n - 1.
pub(super) fn index(entry: &Bytes) -> u64 {
    let entry = Entry::decode(entry.clone()).unwrap();
    if entry.entry_type == Some(3) {
        let end = TransactionEnd::decode(entry.store_value).unwrap();
        return end.transaction_id.parse::<u64>().unwrap() * 2 - 1;
    }
    let change = RowChange::decode(entry.store_value).unwrap();
    let id = &change.row_datas[0].after_columns[0].value;
    std::str::from_utf8(id).unwrap().parse::<u64>().unwrap() * 2 - 2
}

/// The entries of the last batch that was sent.
pub(super) fn last_entries(lab: &Lab) -> Vec<u64> {
    let frame = &lab.outputs.last().unwrap().bytes[4..];
    let packet = Packet::decode(frame).unwrap();
    let messages = Messages::decode(packet.body).unwrap();
    messages.messages.iter().map(index).collect()
}

/// One connection of a lab, by id.
pub(super) type Raw = ConnectionId;

impl Lab {
    pub(super) fn new() -> Self {
        Self::with(ServerSettings::default(), items())
    }

    pub(super) fn with(settings: ServerSettings, limits: StoreLimits) -> Self {
        let destination = Destination::new(
            EXAMPLE.to_owned(),
            limits,
            Duration::from_secs(1),
            Script::default(),
        );
        Self {
            machine: ServerMachine::new(settings, vec![destination]),
            now: Moment {
                instant: Instant::now(),
                unix: 1_700_000_000_000,
            },
            outputs: Vec::new(),
            last_id: 0,
            xid: 0,
        }
    }

    /// Commits `count` transactions of one row each: two entries.
    pub(super) fn commit(&mut self, count: u64) {
        let table = Table::new("shop", "orders").key("id", "bigint(20)");
        for _ in 0..count {
            self.xid += 1;
            let transaction = Transaction::new(self.xid).insert(&table, [self.xid]);
            self.push(transaction);
        }
    }

    pub(super) fn push(&mut self, transaction: Transaction) {
        let destination = self.machine.destination(EXAMPLE).unwrap();
        destination.script().push(transaction).unwrap();
    }

    pub(super) fn statistics(&self) -> Statistics {
        self.machine.statistics(EXAMPLE)
    }

    /// Lets time pass; says what each connection hears meanwhile.
    pub(super) fn pass(&mut self, time: Duration) -> Vec<(Raw, Heard)> {
        self.now.instant += time;
        self.event(Event::Woken)
    }

    pub(super) fn event(&mut self, event: Event) -> Vec<(Raw, Heard)> {
        let mut heard = Vec::new();
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            for action in self.machine.step(self.now, event) {
                match action {
                    Action::Write { id, output } => {
                        heard.extend(decode(&output.bytes).into_iter().map(|heard| (id, heard)));
                        if output.then_close {
                            heard.push((id, Heard::Closed));
                            events.push(Event::Disconnected { id });
                        } else {
                            events.push(Event::Written { id });
                        }
                        self.outputs.push(output);
                    }
                    Action::Read { .. } => {}
                    Action::Close { id } => heard.push((id, Heard::Closed)),
                }
            }
        }
        heard
    }

    /// A new connection and what it hears first.
    pub(super) fn dial(&mut self) -> (Raw, Vec<Heard>) {
        self.last_id += 1;
        let id = ConnectionId(self.last_id);
        let heard = self.event(Event::Connected { id, seeds: SEEDS });
        (id, only(id, heard))
    }

    /// A connection that is authenticated without a password.
    pub(super) fn connect(&mut self) -> Raw {
        let (id, heard) = self.dial();
        assert!(matches!(heard[..], [Heard::Handshake(_)]), "{heard:?}");
        assert_eq!(self.send(id, &auth("", "")), [Heard::Success]);
        id
    }

    /// A connection with client id 1001 subscribed.
    pub(super) fn subscribed(&mut self) -> Raw {
        let id = self.connect();
        assert_eq!(self.send(id, &sub(EXAMPLE, "1001", "")), [Heard::Success]);
        id
    }

    /// Sends packets in one go; says what this connection hears at once.
    pub(super) fn send_all(&mut self, id: Raw, packets: &[Bytes]) -> Vec<Heard> {
        let frames: Vec<u8> = packets.iter().flat_map(framed).collect();
        self.send_bytes(id, frames)
    }

    pub(super) fn send(&mut self, id: Raw, packet: &Bytes) -> Vec<Heard> {
        self.send_all(id, std::slice::from_ref(packet))
    }

    pub(super) fn send_bytes(&mut self, id: Raw, bytes: impl Into<Bytes>) -> Vec<Heard> {
        let bytes = bytes.into();
        let heard = self.event(Event::Received { id, bytes });
        only(id, heard)
    }
}

/// A store that counts entries, so that tests can.
pub(super) fn items() -> StoreLimits {
    StoreLimits::default().with_batch_mode(BatchMode::ItemSize)
}

#[track_caller]
fn only(id: Raw, heard: Vec<(Raw, Heard)>) -> Vec<Heard> {
    heard
        .into_iter()
        .map(|(by, heard)| {
            assert_eq!(by, id, "another connection heard {heard:?}");
            heard
        })
        .collect()
}

pub(super) fn framed(packet: &Bytes) -> Vec<u8> {
    let mut frame = u32::try_from(packet.len()).unwrap().to_be_bytes().to_vec();
    frame.extend_from_slice(packet);
    frame
}

/// Decodes whole frames; what is no frame is left out.
fn decode(mut bytes: &[u8]) -> Vec<Heard> {
    let mut heard = Vec::new();
    while let Some((prefix, rest)) = bytes.split_first_chunk::<4>() {
        let length = usize::try_from(u32::from_be_bytes(*prefix)).unwrap();
        let Some((frame, rest)) = rest.split_at_checked(length) else {
            break;
        };
        bytes = rest;
        let packet = Packet::decode(frame).unwrap();
        heard.push(match PacketType::try_from(packet.r#type).unwrap() {
            PacketType::Handshake => {
                Heard::Handshake(Handshake::decode(packet.body).unwrap().seeds.to_vec())
            }
            PacketType::Ack => {
                let ack = Ack::decode(packet.body).unwrap();
                match ack.error_code.unwrap_or(0) {
                    0 => Heard::Success,
                    code => Heard::Failure(code, ack.error_message),
                }
            }
            PacketType::Messages => {
                let messages = Messages::decode(packet.body).unwrap();
                Heard::Batch(messages.batch_id, messages.messages.len())
            }
            other => panic!("a server does not send {other:?}"),
        });
    }
    heard
}

pub(super) fn auth(user: &str, password: &str) -> Bytes {
    auth_with(user, password, 0, 0)
}

pub(super) fn auth_with(user: &str, password: &str, read: i32, write: i32) -> Bytes {
    let body = ClientAuth {
        username: user.to_owned(),
        password: Bytes::copy_from_slice(password.as_bytes()),
        net_read_timeout: Some(read),
        net_write_timeout: Some(write),
        ..ClientAuth::default()
    };
    packet(PacketType::ClientAuthentication, &body)
}

pub(super) fn sub(destination: &str, client_id: &str, filter: &str) -> Bytes {
    let body = Sub {
        destination: destination.to_owned(),
        client_id: client_id.to_owned(),
        filter: filter.to_owned(),
    };
    packet(PacketType::Subscription, &body)
}

pub(super) fn unsub(destination: &str, client_id: &str) -> Bytes {
    let body = Unsub {
        destination: destination.to_owned(),
        client_id: client_id.to_owned(),
        filter: String::new(),
    };
    packet(PacketType::Unsubscription, &body)
}

/// A GET of client 1001, waiting so many milliseconds.
pub(super) fn get(fetch_size: i32, timeout: i64) -> Bytes {
    get_as("1001", fetch_size, timeout)
}

pub(super) fn get_as(client_id: &str, fetch_size: i32, timeout: i64) -> Bytes {
    get_from(EXAMPLE, client_id, fetch_size, Some(timeout), Some(2))
}

pub(super) fn get_from(
    destination: &str,
    client_id: &str,
    fetch_size: i32,
    timeout: Option<i64>,
    unit: Option<i32>,
) -> Bytes {
    let body = Get {
        destination: destination.to_owned(),
        client_id: client_id.to_owned(),
        fetch_size,
        timeout,
        unit,
        auto_ack: Some(true),
    };
    packet(PacketType::Get, &body)
}

pub(super) fn ack(batch_id: i64) -> Bytes {
    ack_at(EXAMPLE, "1001", batch_id)
}

pub(super) fn ack_at(destination: &str, client_id: &str, batch_id: i64) -> Bytes {
    let body = ClientAck {
        destination: destination.to_owned(),
        client_id: client_id.to_owned(),
        batch_id,
    };
    packet(PacketType::ClientAck, &body)
}

/// 0 is all.
pub(super) fn rollback(batch_id: i64) -> Bytes {
    rollback_at(EXAMPLE, "1001", batch_id)
}

pub(super) fn rollback_at(destination: &str, client_id: &str, batch_id: i64) -> Bytes {
    let body = ClientRollback {
        destination: destination.to_owned(),
        client_id: client_id.to_owned(),
        batch_id,
    };
    packet(PacketType::ClientRollback, &body)
}

pub(super) fn of_type(number: i32) -> Bytes {
    let packet = Packet {
        r#type: number,
        ..Packet::default()
    };
    packet.encode_to_vec().into()
}
