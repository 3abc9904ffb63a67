//! Bytes on the wire of a fenced ask of 16 bytes, counted between caller and endpoint.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use actix::prelude::*;
use bench_harness::Failure;
use bench_harness::report::Figure;
use bench_harness::report::Goal::AtMost;
use lockkeeper_core::prelude::*;
use lockkeeper_core::{FencingToken, Lineage};
use lockkeeper_remote::RemoteBuilderExt;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

const CALLS: u64 = 10_000;

#[derive(Message, Serialize, Deserialize)]
#[rtype(result = "serde_bytes::ByteBuf")]
struct Echo(#[serde(with = "serde_bytes")] Vec<u8>);

rpc_gateway! { fenced LeaderGateway("bench.Leader", version = 1) { Echo } }

#[derive(RpcEndpoint)]
#[rpc(gateways(LeaderGateway), fenced)]
struct Leader;

impl Actor for Leader {
    type Context = Context<Self>;
}

impl Handler<Echo> for Leader {
    type Result = MessageResult<Echo>;

    fn handle(&mut self, Echo(payload): Echo, _: &mut Context<Self>) -> Self::Result {
        MessageResult(serde_bytes::ByteBuf::from(payload))
    }
}

/// Passes bytes on and counts them.
fn pass(mut from: TcpStream, mut to: TcpStream, count: Arc<AtomicU64>) {
    std::thread::spawn(move || {
        let mut bytes = [0; 64 << 10];
        // the end of either side ends it
        while let Ok(read @ 1..) = from.read(&mut bytes) {
            count.fetch_add(read as u64, Ordering::SeqCst);
            if to.write_all(&bytes[..read]).is_err() {
                return;
            }
        }
    });
}

/// (out, in) of one call; both ends in this process, and the counter between them.
fn bytes_of_one_call() -> Result<(f64, f64), Failure> {
    let counter = TcpListener::bind("127.0.0.1:0")?;
    let outside = counter.local_addr()?;
    let inside = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let (sent, received) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let counts = (Arc::clone(&sent), Arc::clone(&received));
    std::thread::spawn(move || -> std::io::Result<()> {
        let (caller, _) = counter.accept()?;
        let callee = TcpStream::connect(inside)?;
        for stream in [&caller, &callee] {
            stream.set_nodelay(true)?;
        }
        pass(caller.try_clone()?, callee.try_clone()?, counts.0);
        pass(callee, caller, counts.1);
        Ok(())
    });
    System::new().block_on(async {
        let callee = RpcService::builder()
            .bind(inside.to_string())
            .advertise(outside.to_string())
            .start()
            .await?;
        let token = FencingToken::new(Lineage::new(1), 1, Uuid::from_u128(1));
        let server = callee.start_fenced_server("leader", Leader, token).await?;
        server.start().await?;
        let caller = RpcService::builder().bind("127.0.0.1:0").start().await?;
        let leader = caller
            .connect_fenced::<LeaderGateway>(&server.address(), token)
            .await?;
        leader.send(Echo(vec![7; 16])).await?;
        let before = (sent.load(Ordering::SeqCst), received.load(Ordering::SeqCst));
        for _ in 0..CALLS {
            leader.send(Echo(vec![7; 16])).await?;
        }
        let of_one =
            |now: &AtomicU64, before| (now.load(Ordering::SeqCst) - before) as f64 / CALLS as f64;
        Ok((of_one(&sent, before.0), of_one(&received, before.1)))
    })
}

/// The figures; pings are in them, some bytes a second.
pub fn figures() -> Result<[Figure; 2], Failure> {
    let (bytes_out, bytes_in) = bytes_of_one_call()?;
    let figure = |name, value| Figure::new(name, "bytes", AtMost(40.0), Some(value)).runs(1);
    Ok([
        figure("rpc.wire.fenced.16B.bytes_out", bytes_out).peer("flink, as measured before", 941.0),
        figure("rpc.wire.fenced.16B.bytes_in", bytes_in).peer("flink, as measured before", 233.0),
    ])
}
