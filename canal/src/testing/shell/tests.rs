//! The server over real sockets: what the machine's tests can't see.

use std::io::ErrorKind;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_util::codec::Decoder;

use crate::protocol::frame::FrameCodec;
use crate::protocol::packet::{Authentication, ServerPacket, Subscriber, authentication};
use crate::testing::{
    CanalServer, Fault, Request, Restart, Statistics, StoreLimits, Table, Transaction,
};

/// Against a hang only.
const LIMIT: Duration = Duration::from_secs(120);

/// A client that knows frames and packets, and no rule of theirs.
struct Client {
    stream: TcpStream,
    buffer: BytesMut,
    codec: FrameCodec,
}

fn subscriber() -> Subscriber {
    Subscriber {
        destination: "example".to_owned(),
        client_id: "1001".to_owned(),
    }
}

impl Client {
    async fn dial(server: &CanalServer) -> Self {
        Self {
            stream: TcpStream::connect(server.address()).await.unwrap(),
            buffer: BytesMut::new(),
            codec: FrameCodec::new(64 * 1024 * 1024),
        }
    }

    async fn subscribed(server: &CanalServer) -> Self {
        let mut client = Self::dial(server).await;
        assert!(matches!(
            client.hear().await,
            Some(ServerPacket::Handshake(_))
        ));
        client
            .send(&authentication(Authentication {
                username: "",
                token: "",
                net_read_timeout: 0,
                net_write_timeout: 0,
            }))
            .await;
        client.hear_success().await;
        client.send(&subscriber().subscription("")).await;
        client.hear_success().await;
        client
    }

    async fn send(&mut self, packet: &Bytes) {
        let length = u32::try_from(packet.len()).unwrap();
        self.stream.write_all(&length.to_be_bytes()).await.unwrap();
        self.stream.write_all(packet).await.unwrap();
    }

    /// The next packet; `None` when the server has closed.
    async fn hear(&mut self) -> Option<ServerPacket> {
        let next = async {
            loop {
                if let Some(frame) = self.codec.decode(&mut self.buffer).unwrap() {
                    return Some(ServerPacket::decode(frame).unwrap());
                }
                match self.stream.read_buf(&mut self.buffer).await {
                    Ok(0) => return None,
                    Ok(_) => {}
                    Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
                    Err(error) => panic!("{error}"),
                }
            }
        };
        tokio::time::timeout(LIMIT, next).await.unwrap()
    }

    async fn hear_success(&mut self) {
        match self.hear().await {
            Some(ServerPacket::Ack(ack)) => assert_eq!(ack.code, 0, "{}", ack.message),
            other => panic!("expected success, heard {other:?}"),
        }
    }

    /// Gets a batch; its id and its number of entries.
    async fn get(&mut self, fetch_size: u32, timeout: i64) -> (i64, usize) {
        self.send(&subscriber().get(fetch_size, timeout)).await;
        match self.hear().await {
            Some(ServerPacket::Messages(messages)) => (messages.batch_id, messages.messages.len()),
            other => panic!("expected messages, heard {other:?}"),
        }
    }
}

fn orders() -> Table {
    Table::new("shop", "orders").key("id", "bigint(20)")
}

fn numbers(count: u64) -> impl Iterator<Item = Transaction> + Send + 'static {
    let table = orders();
    (1..=count).map(move |id| Transaction::new(id).insert(&table, [id]))
}

#[tokio::test]
async fn a_source_is_drained_through_a_small_store_in_order() {
    let server = CanalServer::builder()
        .store(StoreLimits::default().with_slots(64))
        .source(numbers(1_000))
        .start()
        .unwrap();
    let mut client = Client::subscribed(&server).await;
    let mut entries = 0;
    for expected in 1.. {
        let (id, count) = client.get(4, -1).await;
        if id == -1 {
            break;
        }
        assert_eq!(id, expected);
        entries += count;
        client.send(&subscriber().acknowledgement(id)).await;
    }
    assert_eq!(entries, 2_000);
    let statistics = server.handle().statistics();
    assert_eq!(statistics.acked_transactions, 1_000);
    assert_eq!(statistics.acked_rows, 1_000);
    assert!(statistics.source_ended);
    server.stop();
}

#[tokio::test]
async fn a_waiting_get_is_answered_when_its_time_is_over() {
    let server = CanalServer::builder().source(numbers(1)).start().unwrap();
    let mut client = Client::subscribed(&server).await;
    assert_eq!(client.get(1_000, 50).await, (1, 2));
}

#[tokio::test]
async fn a_pushed_transaction_fills_a_waiting_get() {
    let server = CanalServer::builder().start().unwrap();
    let mut client = Client::subscribed(&server).await;
    let handle = server.handle();
    client.send(&subscriber().get(1, 60_000)).await;
    client.send(&subscriber().acknowledgement(-1)).await;
    for xid in 1..=20 {
        let transaction = Transaction::new(xid).insert(&orders(), [xid]);
        handle.commit(transaction).unwrap();
    }
    assert!(
        matches!(client.hear().await, Some(ServerPacket::Messages(messages)) if messages.batch_id == 1)
    );
}

#[tokio::test]
async fn counts_can_be_awaited() {
    let server = CanalServer::builder().source(numbers(1)).start().unwrap();
    let handle = server.handle();
    let waited = tokio::spawn(async move {
        let acked = |statistics: &Statistics| statistics.acked_transactions == 1;
        handle.wait_until(LIMIT, acked).await
    });
    let mut client = Client::subscribed(&server).await;
    let (id, _) = client.get(1_000, -1).await;
    client.send(&subscriber().acknowledgement(id)).await;
    assert_eq!(waited.await.unwrap().unwrap().acks, 1);
    let never = server
        .handle()
        .wait_until(Duration::from_millis(1), |statistics| statistics.acks == 2)
        .await;
    assert_eq!(never.unwrap_err().statistics.acks, 1);
}

#[tokio::test]
async fn torn_and_cut_answers_reach_the_socket() {
    let server = CanalServer::builder().source(numbers(3)).start().unwrap();
    let handle = server.handle();
    let mut client = Client::subscribed(&server).await;
    let pause = Duration::from_millis(1);
    handle.inject(Request::Get, 1, Fault::Pieces { size: 7, pause });
    assert_eq!(client.get(1_000, -1).await, (1, 6));
    handle.inject(Request::Get, 1, Fault::Truncate(3));
    client.send(&subscriber().get(1_000, -1)).await;
    assert_eq!(client.hear().await, None);
    assert_eq!(client.buffer.len(), 3);
}

#[tokio::test]
async fn a_server_that_goes_away_comes_back_on_the_same_address() {
    let server = CanalServer::builder().source(numbers(2)).start().unwrap();
    let handle = server.handle();
    let mut client = Client::subscribed(&server).await;
    assert_eq!(client.get(1_000, -1).await, (1, 4));
    handle.stop_listening().unwrap();
    handle.restart(Restart::Killed);
    assert_eq!(client.hear().await, None);
    let refused = TcpStream::connect(server.address()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    handle.start_listening().unwrap();
    let mut client = Client::subscribed(&server).await;
    assert_eq!(
        client.get(1_000, -1).await,
        (1, 4),
        "nothing was acknowledged"
    );
    assert_eq!(handle.statistics().connections, 2);
}

#[tokio::test]
async fn a_closed_connection_is_noticed() {
    let server = CanalServer::builder().start().unwrap();
    let client = Client::subscribed(&server).await;
    assert_eq!(server.handle().statistics().open_connections, 1);
    drop(client);
    let gone = |statistics: &Statistics| statistics.open_connections == 0;
    server.handle().wait_until(LIMIT, gone).await.unwrap();
}

#[tokio::test]
async fn a_stopped_server_closes_and_refuses() {
    let server = CanalServer::builder().start().unwrap();
    let (address, handle) = (server.address(), server.handle());
    let mut client = Client::subscribed(&server).await;
    server.stop();
    assert_eq!(client.hear().await, None);
    assert!(TcpStream::connect(address).await.is_err());
    assert_eq!(
        handle.start_listening().unwrap_err().kind(),
        ErrorKind::NotConnected
    );
}

#[tokio::test]
async fn each_destination_has_its_own_script() {
    let server = CanalServer::builder()
        .destination("example")
        .source(numbers(1))
        .destination("other")
        .source(numbers(2))
        .start()
        .unwrap();
    let other = server.destination("other").unwrap();
    let taken = |statistics: &Statistics| statistics.taken_transactions == 2;
    other.stall();
    other.resume();
    other.wait_until(LIMIT, taken).await.unwrap();
    assert!(server.destination("third").is_none());
    let twice = CanalServer::builder()
        .destination("a")
        .destination("a")
        .start();
    assert_eq!(twice.unwrap_err().kind(), ErrorKind::InvalidInput);
}

#[test]
fn a_client_far_ahead_does_not_pile_up_in_the_server() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let server = CanalServer::builder().start().unwrap();
        let mut client = Client::subscribed(&server).await;
        let ask = subscriber().get(1, -1);
        for _ in 0..2_000 {
            client.send(&ask).await;
        }
        for _ in 0..2_000 {
            assert!(matches!(
                client.hear().await,
                Some(ServerPacket::Messages(_))
            ));
        }
        assert_eq!(server.handle().statistics().gets, 2_000);
    });
}
