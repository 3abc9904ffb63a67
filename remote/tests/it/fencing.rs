//! Tokens across processes.

use lockkeeper_core::{FencingToken, FencingViolation, Lineage, Outcome, RpcErrorKind};
use uuid::Uuid;

use crate::support::*;

fn token(epoch: u64) -> FencingToken {
    FencingToken::new(Lineage::new(1), epoch, Uuid::from_u128(9))
}

#[actix::test]
async fn the_right_token_is_served_and_a_wrong_one_refused() {
    let (one, two) = (service().await, service().await);
    let server = one
        .start_fenced_server("leader", Leader::default(), token(5))
        .await
        .unwrap();
    server.start().await.unwrap();
    let address = server.address();
    for (epoch, violation) in [
        (4, FencingViolation::CallerIsStale),
        (6, FencingViolation::EndpointIsStale),
    ] {
        // It may be told at connect, or by the first call.
        let error = match two
            .connect_fenced::<LeaderGateway>(&address, token(epoch))
            .await
        {
            Ok(leader) => leader.send(Add(1)).await.unwrap_err(),
            Err(error) => error,
        };
        let kind = RpcErrorKind::Fenced(violation);
        assert_eq!((error.kind(), error.outcome()), (kind, Outcome::Refused));
    }
    let leader = two
        .connect_fenced::<LeaderGateway>(&address, token(5))
        .await
        .unwrap();
    assert_eq!(leader.send(Add(1)).await.unwrap(), 1);
}

#[actix::test]
async fn a_call_after_the_change_of_the_token_is_refused() {
    let (one, two) = (service().await, service().await);
    let server = one
        .start_fenced_server("leader", Leader::default(), token(5))
        .await
        .unwrap();
    server.start().await.unwrap();
    let leader = two
        .connect_fenced::<LeaderGateway>(&server.address(), token(5))
        .await
        .unwrap();
    assert_eq!(leader.send(Add(1)).await.unwrap(), 1);
    server.revoke().await.unwrap();
    let error = leader.send(Add(1)).await.unwrap_err();
    assert_eq!(
        error.kind(),
        RpcErrorKind::Fenced(FencingViolation::NotLeader)
    );
    server.set_token(token(6));
    let error = leader.send(Add(1)).await.unwrap_err();
    assert_eq!(
        error.kind(),
        RpcErrorKind::Fenced(FencingViolation::CallerIsStale)
    );
    let leader = two
        .connect_fenced::<LeaderGateway>(&server.address(), token(6))
        .await
        .unwrap();
    assert_eq!(leader.send(Add(1)).await.unwrap(), 2);
}

#[actix::test]
async fn missing_token() {
    let (one, two) = (service().await, service().await);
    let server = one
        .start_fenced_server("leader", Leader::default(), token(5))
        .await
        .unwrap();
    server.start().await.unwrap();
    // The typed connect asks for a token; a peer that does not care for types sends none.
    let request = lockkeeper_core::transport::ConnectRequest {
        address: server.address(),
        gateway: <LeaderGateway as lockkeeper_core::RpcGateway>::DESCRIPTOR,
        shapes: &[],
        token: None,
        deadline: (std::time::Instant::now() + LIMIT).into(),
    };
    let transport = two.transport().unwrap();
    let error = match transport.connect(request).await {
        Err(error) => error,
        Ok(session) => {
            let call = lockkeeper_core::transport::OutboundCall {
                method: 0,
                payload: lockkeeper_core::codec::encode(&Add(1)).unwrap(),
                deadline: (std::time::Instant::now() + LIMIT).into(),
            };
            session.ask(call).await.unwrap_err()
        }
    };
    assert_eq!(
        (error.kind(), error.outcome()),
        (RpcErrorKind::MissingToken, Outcome::Refused)
    );
    let leader = two
        .connect_fenced::<LeaderGateway>(&server.address(), token(5))
        .await
        .unwrap();
    assert_eq!(leader.send(Add(1)).await.unwrap(), 1);
}
