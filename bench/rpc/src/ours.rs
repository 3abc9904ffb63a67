//! Lockkeeper: an endpoint on its own arbiter, called through a gateway.
//!
//! With the sockets on a thread of their own, which is the default, or on the caller's and the endpoint's arbiter.

use std::time::{Duration, Instant};

use actix::prelude::*;
use lockkeeper_core::prelude::*;
use lockkeeper_remote::RemoteBuilderExt;
use serde::{Deserialize, Serialize};

use bench_harness::Failure;
use bench_harness::cell::{Cell, Mode, Outcome, Peer, quantile};

/// Where the sockets live.
#[derive(Clone, Copy, Debug)]
pub enum Sockets {
    OwnThread,
    Shared,
}

/// A service on a free port.
pub async fn service(sockets: Sockets) -> Result<RpcService, RpcError> {
    let service = RpcService::builder().bind("127.0.0.1:0");
    match sockets {
        Sockets::OwnThread => service.start().await,
        Sockets::Shared => service.io_on_this_thread().start().await,
    }
}

#[derive(Message, Serialize, Deserialize)]
#[rtype(result = "serde_bytes::ByteBuf")]
struct Echo(#[serde(with = "serde_bytes")] Vec<u8>);

#[derive(Message, Serialize, Deserialize)]
#[rtype(result = "()")]
struct Note(#[serde(with = "serde_bytes")] Vec<u8>);

#[derive(Message, Serialize, Deserialize)]
#[rtype(result = "u64")]
struct Count;

rpc_gateway! { pub EchoGateway("bench.Echo", version = 1) { Echo, Note, Count } }

#[derive(RpcEndpoint, Default)]
#[rpc(gateways(EchoGateway))]
struct Server {
    notes: u64,
}

impl Actor for Server {
    type Context = Context<Self>;
}

impl Handler<Echo> for Server {
    type Result = MessageResult<Echo>;

    fn handle(&mut self, Echo(payload): Echo, _: &mut Self::Context) -> Self::Result {
        MessageResult(serde_bytes::ByteBuf::from(payload))
    }
}

impl Handler<Note> for Server {
    type Result = ();

    fn handle(&mut self, _: Note, _: &mut Self::Context) {
        self.notes += 1;
    }
}

impl Handler<Count> for Server {
    type Result = u64;

    fn handle(&mut self, Count: Count, _: &mut Self::Context) -> u64 {
        self.notes
    }
}

/// Two endpoints: a large message keeps the thread of `large` busy, not that of `echo`.
pub fn serve(sockets: Sockets) -> Result<(), Failure> {
    System::new().block_on(async {
        let service = service(sockets).await?;
        let mut servers = Vec::new();
        for name in ["echo", "large"] {
            let server = service.start_server(name, Server::default()).await?;
            server.start().await?;
            servers.push(server);
        }
        bench_harness::parent_gone();
        bench_harness::tell_ready(servers[0].address());
        std::future::pending().await
    })
}

struct Ours {
    echo: Gateway<EchoGateway>,
    large: Gateway<EchoGateway>,
}

const LIMIT: Duration = Duration::from_secs(60);

impl Peer for Ours {
    async fn echo(&self, payload: Vec<u8>) -> Result<usize, Failure> {
        Ok(self.echo.send(Echo(payload)).timeout(LIMIT).await?.len())
    }

    fn transfer(&self, bytes: usize) -> Result<(), Failure> {
        let large = self.large.clone();
        let payload = vec![7; bytes];
        // Its first failure ends it, and is told.
        Arbiter::new().spawn(async move {
            loop {
                let sent = large.send(Echo(payload.clone())).timeout(LIMIT).await;
                if let Err(error) = sent {
                    eprintln!("transfers ended: {error}");
                    return;
                }
            }
        });
        Ok(())
    }

    fn note(&self, payload: &[u8]) -> Result<bool, Failure> {
        match self.echo.try_send(Note(payload.to_vec())) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == RpcErrorKind::Full => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    async fn count(&self) -> Result<u64, Failure> {
        Ok(self.echo.send(Count).timeout(LIMIT).await?)
    }
}

pub fn measure(address: &str, cell: &Cell, sockets: Sockets) -> Result<Outcome, Failure> {
    let echo: RpcAddress = address.parse()?;
    let large: RpcAddress = address.replace("/echo", "/large").parse()?;
    System::new().block_on(async {
        if cell.mode == Mode::Connect {
            return connects(&echo, cell, sockets).await;
        }
        let service = service(sockets).await?;
        let ours = Ours {
            echo: service.connect(&echo).await?,
            large: service.connect(&large).await?,
        };
        bench_harness::cell::measure(ours, cell).await
    })
}

/// Each with a service of its own, so that each makes a connection.
async fn connects(address: &RpcAddress, cell: &Cell, sockets: Sockets) -> Result<Outcome, Failure> {
    let begun = Instant::now();
    let mut nanoseconds = Vec::new();
    while begun.elapsed().as_secs_f64() < cell.seconds {
        let service = service(sockets).await?;
        let sent = Instant::now();
        let gateway: Gateway<EchoGateway> = service.connect(address).await?;
        nanoseconds.push(u64::try_from(sent.elapsed().as_nanos())?);
        drop(gateway);
        service.terminate().await?;
    }
    nanoseconds.sort_unstable();
    Ok(Outcome {
        calls_per_second: nanoseconds.len() as f64 / begun.elapsed().as_secs_f64(),
        p50_us: quantile(&nanoseconds, 0.5),
        p99_us: quantile(&nanoseconds, 0.99),
        cpu_us: 0.0,
    })
}
