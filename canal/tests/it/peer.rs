//! A peer that says what a script tells it, byte by byte.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// The server's first packet, with 8 bytes of seeds.
pub(crate) const HANDSHAKE: &[u8] =
    b"\x10\x01\x18\x01\x2a\x0a\x12\x08\x01\x02\x03\x04\x05\x06\x07\x08";
/// Success.
pub(crate) const ACK: &[u8] = b"\x10\x01\x18\x03";
/// A GET's answer without entries.
pub(crate) const NOTHING: &[u8] =
    b"\x10\x01\x18\x07\x2a\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";

/// A listener on a port of its own.
pub(crate) struct Peer {
    listener: TcpListener,
    pub(crate) address: String,
}

impl Peer {
    pub(crate) async fn listen() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        Self { listener, address }
    }

    /// An address at which nobody listens.
    pub(crate) async fn nobody() -> String {
        Self::listen().await.address
    }

    pub(crate) async fn accept(&self) -> Line {
        Line(self.listener.accept().await.unwrap().0)
    }

    /// A client that has authenticated.
    pub(crate) async fn authenticated(&self) -> Line {
        let mut line = self.accept().await;
        line.send(HANDSHAKE).await;
        assert_eq!(line.receive().await.unwrap()[1], 2, "authentication");
        line.send(ACK).await;
        line
    }

    /// A client that has subscribed.
    pub(crate) async fn subscribed(&self) -> Line {
        let mut line = self.authenticated().await;
        assert_eq!(line.receive().await.unwrap()[1], 4, "subscription");
        line.send(ACK).await;
        assert_eq!(line.receive().await.unwrap()[1], 12, "rollback");
        assert_eq!(line.receive().await.unwrap()[1], 11, "heartbeat");
        line.send(&error("packet type=HEARTBEAT is NOT supported!"))
            .await;
        line
    }
}

/// A connection.
pub(crate) struct Line(TcpStream);

impl Line {
    /// A packet in a frame.
    pub(crate) async fn send(&mut self, packet: &[u8]) {
        let length = u32::try_from(packet.len()).unwrap().to_be_bytes();
        self.raw(&[&length[..], packet].concat()).await;
    }

    pub(crate) async fn raw(&mut self, bytes: &[u8]) {
        // The client may have closed already.
        let _ = self.0.write_all(bytes).await;
    }

    /// The next packet; `None` at the end of the connection.
    pub(crate) async fn receive(&mut self) -> Option<Vec<u8>> {
        let length = self.0.read_u32().await.ok()?;
        let mut packet = vec![0; usize::try_from(length).unwrap()];
        self.0.read_exact(&mut packet).await.ok()?;
        Some(packet)
    }

    /// Waits until the client has closed.
    pub(crate) async fn closed(mut self) {
        let end = async { while self.receive().await.is_some() {} };
        tokio::time::timeout(Duration::from_secs(120), end)
            .await
            .expect("the client closes");
    }
}

fn varint(mut number: usize, into: &mut Vec<u8>) {
    while number >= 0x80 {
        into.push(u8::try_from(number & 0x7f).unwrap() | 0x80);
        number >>= 7;
    }
    into.push(u8::try_from(number).unwrap());
}

fn field(tag: u8, bytes: &[u8], into: &mut Vec<u8>) {
    into.push(tag << 3 | 2);
    varint(bytes.len(), into);
    into.extend_from_slice(bytes);
}

/// An ack with code 400.
pub(crate) fn error(text: &str) -> Vec<u8> {
    let mut body = vec![0x08, 0x90, 0x03];
    field(2, text.as_bytes(), &mut body);
    let mut packet = ACK.to_vec();
    field(5, &body, &mut packet);
    packet
}

/// A batch of transaction ends with these ids.
pub(crate) fn batch(id: u8, transactions: &[&str]) -> Vec<u8> {
    let mut body = vec![0x08, id];
    for transaction in transactions {
        let mut end = Vec::new();
        field(2, transaction.as_bytes(), &mut end);
        let mut entry = vec![0x10, 0x03];
        field(3, &end, &mut entry);
        field(2, &entry, &mut body);
    }
    let mut packet = vec![0x18, 0x07];
    field(5, &body, &mut packet);
    packet
}
