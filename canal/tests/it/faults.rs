//! What a broken server, network or stranger does: each a typed error in bounded time, no panic.

use std::time::Duration;

use lockkeeper_canal::{
    CanalConnectorBuilder, CanalError, ClientIdentity, Filter, SessionPhase, SimpleCanalConnector,
};

use crate::peer::{ACK, HANDSHAKE, Line, NOTHING, Peer, batch, error};

/// Long enough for loopback on a busy machine where an answer comes.
const ANSWERED: Duration = Duration::from_secs(120);
/// The same where none comes in the end; it is not waited for ([`none_comes`]).
const SILENT: Duration = Duration::from_secs(60);

/// From now on nobody says anything, and the clock jumps to the end of whatever is waited for.
fn none_comes() {
    tokio::time::pause();
}

fn builder(address: &str) -> CanalConnectorBuilder {
    CanalConnectorBuilder::new(ClientIdentity::new("example"))
        .address(address)
        .credentials("canal", "secret")
        .connect_timeout(ANSWERED)
        .request_timeout(ANSWERED)
}

fn connector(address: &str) -> SimpleCanalConnector {
    builder(address).build().unwrap()
}

/// What a connector says that meets a peer with this script.
async fn connect_error(script: impl AsyncFnOnce(Line)) -> CanalError {
    let peer = Peer::listen().await;
    let mut connector = connector(&peer.address);
    let (result, ()) = tokio::join!(connector.connect(), async {
        script(peer.accept().await).await;
    });
    assert!(!connector.check_valid());
    let error = connector.get_without_ack(1, None).await.unwrap_err();
    assert_eq!(error, CanalError::NotConnected);
    result.unwrap_err()
}

/// A connector that has subscribed, and its peer's end.
async fn subscribed(
    peer: &Peer,
    mut connector: SimpleCanalConnector,
) -> (SimpleCanalConnector, Line) {
    let client = async {
        connector.connect().await.unwrap();
        connector.subscribe(&Filter::all()).await.unwrap();
        connector
    };
    tokio::join!(client, peer.subscribed())
}

/// What a subscribed connector's GET says when it is answered like this.
async fn get_error(answer: &[u8]) -> CanalError {
    let peer = Peer::listen().await;
    let (mut connector, mut line) = subscribed(&peer, connector(&peer.address)).await;
    let (result, ()) = tokio::join!(connector.get_without_ack(1, None), async {
        line.receive().await.unwrap();
        line.raw(answer).await;
    });
    let error = result.unwrap_err();
    assert!(error.ends_connection() && !connector.check_valid());
    line.closed().await;
    error
}

#[tokio::test]
async fn an_authentication_error_closes_whatever_comes_behind_it() {
    let found = connect_error(async |mut line| {
        line.send(HANDSHAKE).await;
        line.receive().await.unwrap();
        // Servers below 1.1.8 send both.
        line.send(&error("auth failed for user:canal")).await;
        line.send(ACK).await;
        line.closed().await;
    });
    let message = "auth failed for user:canal".to_owned();
    assert_eq!(
        found.await,
        CanalError::AuthFailed {
            user: "canal".into(),
            message
        }
    );
}

#[tokio::test]
async fn a_server_that_closes_after_authentication_is_named_so() {
    let found = connect_error(async |mut line| {
        line.send(HANDSHAKE).await;
        line.receive().await.unwrap();
    });
    let CanalError::Closed { phase, reason } = found.await else {
        panic!("not closed")
    };
    assert_eq!(phase, SessionPhase::Authentication);
    assert!(reason.contains("password"), "{reason}");
}

#[tokio::test]
async fn garbage_instead_of_a_handshake() {
    let found = connect_error(async |mut line| line.raw(b"HTTP/1.1 400 Bad Request\r\n\r\n").await);
    let limit = 256 * 1024 * 1024;
    assert_eq!(
        found.await,
        CanalError::FrameTooLarge {
            length: 0x4854_5450,
            limit
        }
    );
    let found = connect_error(async |mut line| line.raw(b"\xff\xff\xff\xff").await);
    assert!(matches!(found.await, CanalError::Protocol(_)));
    let found = connect_error(async |mut line| line.send(b"\xff\xff\xff\xff").await);
    assert!(matches!(found.await, CanalError::Protocol(_)));
    let found = connect_error(async |mut line| line.send(ACK).await);
    assert!(matches!(found.await, CanalError::Protocol(_)));
}

#[tokio::test]
async fn a_frame_length_of_two_gibibytes() {
    let error = get_error(b"\x7f\xff\xff\xff").await;
    let limit = 256 * 1024 * 1024;
    assert_eq!(
        error,
        CanalError::FrameTooLarge {
            length: 0x7fff_ffff,
            limit
        }
    );
}

#[tokio::test]
async fn a_batch_above_the_limit_names_both() {
    let peer = Peer::listen().await;
    let small = builder(&peer.address).frame_limit(100).build().unwrap();
    let (mut connector, mut line) = subscribed(&peer, small).await;
    let (result, ()) = tokio::join!(connector.get_without_ack(1, None), async {
        line.receive().await.unwrap();
        line.send(&batch(1, &["a long transaction's number"; 9]))
            .await;
    });
    let error = result.unwrap_err();
    assert!(
        matches!(
            error,
            CanalError::FrameTooLarge {
                length: 101..,
                limit: 100
            }
        ),
        "{error}"
    );
}

#[tokio::test]
async fn garbage_instead_of_a_batch() {
    assert!(matches!(
        get_error(b"\x00\x00\x00\x02\xff\xff").await,
        CanalError::Protocol(_)
    ));
    assert!(matches!(
        get_error(b"\x80\x00\x00\x00").await,
        CanalError::Protocol(_)
    ));
    // a compressed packet
    let error = get_error(b"\x00\x00\x00\x04\x18\x07\x20\x03").await;
    assert!(error.to_string().contains("compression"), "{error}");
}

#[tokio::test]
async fn an_acks_error_is_not_taken_for_the_next_gets_answer() {
    let peer = Peer::listen().await;
    let (mut connector, mut line) = subscribed(&peer, connector(&peer.address)).await;
    let client = async {
        let message = connector.get_without_ack(1, None).await.unwrap().unwrap();
        connector.ack(message.id()).await.unwrap();
        (
            message.id(),
            connector.get_without_ack(1, None).await.unwrap_err(),
        )
    };
    let server = async {
        line.receive().await.unwrap();
        line.send(&batch(1, &["57"])).await;
        assert_eq!(line.receive().await.unwrap()[1], 8, "ack");
        line.send(&error(
            "ack error , clientId:1001 batchId:1 is not exist , please check",
        ))
        .await;
        line.receive().await.unwrap();
        line.send(&batch(2, &["58"])).await;
        line.closed().await;
    };
    let ((id, error), ()) = tokio::join!(client, server);
    assert!(
        matches!(error, CanalError::UnknownBatch { batch, .. } if batch == id),
        "{error}"
    );
    assert_eq!(
        connector.get_without_ack(1, None).await.unwrap_err(),
        CanalError::NotConnected
    );
}

#[tokio::test]
async fn a_server_that_says_nothing_is_given_up() {
    let peer = Peer::listen().await;
    let mut connector = builder(&peer.address)
        .connect_timeout(SILENT)
        .build()
        .unwrap();
    let (result, _line) = tokio::join!(connector.connect(), async {
        let line = peer.accept().await;
        none_comes();
        line
    });
    tokio::time::resume();
    let phase = SessionPhase::Handshake;
    assert_eq!(
        result.unwrap_err(),
        CanalError::Timeout {
            phase,
            after: SILENT
        }
    );
    let mut connector = builder(&peer.address)
        .connect_timeout(SILENT)
        .build()
        .unwrap();
    let (result, _line) = tokio::join!(connector.connect(), async {
        let mut line = peer.accept().await;
        line.send(HANDSHAKE).await;
        line.receive().await.expect("it says who it is");
        none_comes();
        line
    });
    let phase = SessionPhase::Authentication;
    assert_eq!(
        result.unwrap_err(),
        CanalError::Timeout {
            phase,
            after: SILENT
        }
    );
}

#[tokio::test]
async fn a_get_that_is_not_answered_is_given_up() {
    let peer = Peer::listen().await;
    let impatient = builder(&peer.address)
        .request_timeout(SILENT)
        .build()
        .unwrap();
    let (mut connector, mut line) = subscribed(&peer, impatient).await;
    let (result, ()) = tokio::join!(connector.get_without_ack(1, None), async {
        line.receive().await.expect("it asks");
        none_comes();
    });
    tokio::time::resume();
    let error = result.unwrap_err();
    let timeout = CanalError::Timeout {
        phase: SessionPhase::Streaming,
        after: SILENT,
    };
    assert_eq!(error, timeout);
    assert!(!connector.check_valid());
    line.closed().await;
}

#[tokio::test]
async fn a_server_that_is_gone_and_back() {
    let mut connector = connector(&Peer::nobody().await);
    assert!(matches!(
        connector.connect().await.unwrap_err(),
        CanalError::Unreachable(_)
    ));
    let peer = Peer::listen().await;
    let (mut connector, line) = subscribed(&peer, self::connector(&peer.address)).await;
    drop(line);
    let error = connector.get_without_ack(1, None).await.unwrap_err();
    assert!(matches!(error, CanalError::Closed { .. }), "{error}");
    assert_eq!(
        connector.confirm_acks().await.unwrap_err(),
        CanalError::NotConnected
    );
    let (mut connector, mut line) = subscribed(&peer, connector).await;
    let (fetched, ()) = tokio::join!(connector.get_without_ack(1, None), async {
        line.receive().await.unwrap();
        line.send(NOTHING).await;
    });
    assert!(fetched.unwrap().is_none());
}

#[tokio::test]
async fn the_next_address_is_tried_when_one_is_dead() {
    let peer = Peer::listen().await;
    let mut connector = CanalConnectorBuilder::new(ClientIdentity::new("example"))
        .addresses([Peer::nobody().await, peer.address.clone()])
        .build()
        .unwrap();
    let (result, _line) = tokio::join!(connector.connect(), peer.authenticated());
    result.unwrap();
    assert_eq!(connector.address(), Some(&*peer.address));
}

#[tokio::test]
async fn an_answer_that_comes_byte_by_byte() {
    let peer = Peer::listen().await;
    let (mut connector, mut line) = subscribed(&peer, connector(&peer.address)).await;
    let packet = batch(1, &["57", "58"]);
    let length = u32::try_from(packet.len()).unwrap().to_be_bytes();
    let (fetched, ()) = tokio::join!(connector.get_without_ack(1, None), async {
        line.receive().await.unwrap();
        for byte in [&length[..], &packet].concat() {
            line.raw(&[byte]).await;
            tokio::task::yield_now().await;
        }
    });
    let message = fetched.unwrap().unwrap();
    let ids: Vec<_> = message
        .entries()
        .map(|entry| entry.unwrap().transaction_end_id().unwrap())
        .collect();
    assert_eq!(ids, [Some("57".to_owned()), Some("58".to_owned())]);
}

#[test]
fn settings_without_a_server_are_refused() {
    let error = CanalConnectorBuilder::new(ClientIdentity::new("example"))
        .build()
        .unwrap_err();
    assert!(matches!(error, CanalError::InvalidArgument(_)));
    let error = builder("a:1")
        .request_timeout(Duration::MAX)
        .build()
        .unwrap_err();
    assert!(matches!(error, CanalError::InvalidArgument(_)));
}
