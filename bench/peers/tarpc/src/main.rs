//! tarpc over TCP with bincode. It has no one-way call and no actor.

use std::time::{Duration, Instant};

use bench_harness::cell::{Cell, Outcome, Peer, measure};
use bench_harness::{Failure, parent_gone, peer_main, runtime, tell_ready};
use futures::StreamExt;
use serde_bytes::ByteBuf;
use tarpc::serde_transport::tcp;
use tarpc::server::{BaseChannel, Channel};
use tarpc::tokio_serde::formats::Bincode;
use tarpc::{client, context};

const LIMIT: Duration = Duration::from_secs(60);
/// Beyond every payload of the bench.
const FRAME_LIMIT: usize = 256 << 20;

#[tarpc::service]
trait Echo {
    async fn echo(payload: ByteBuf) -> ByteBuf;
}

#[derive(Clone)]
struct Server;

impl Echo for Server {
    async fn echo(self, _: context::Context, payload: ByteBuf) -> ByteBuf {
        payload
    }
}

fn serve() -> Result<(), Failure> {
    parent_gone();
    runtime()?.block_on(async {
        let mut listener = tcp::listen(("127.0.0.1", 0), Bincode::default).await?;
        listener.config_mut().max_frame_length(FRAME_LIMIT);
        tell_ready(listener.local_addr());
        while let Some(transport) = listener.next().await {
            let requests = BaseChannel::with_defaults(transport?).execute(Server.serve());
            tokio::spawn(requests.for_each(|answer| async move {
                tokio::spawn(answer);
            }));
        }
        Ok(())
    })
}

struct Client(EchoClient);

impl Peer for Client {
    async fn echo(&self, payload: Vec<u8>) -> Result<usize, Failure> {
        let mut context = context::current();
        context.deadline = Instant::now() + LIMIT;
        Ok(self.0.echo(context, ByteBuf::from(payload)).await?.len())
    }
}

fn run(address: &str, cell: &Cell) -> Result<Outcome, Failure> {
    runtime()?.block_on(async {
        let mut connect = tcp::connect(address, Bincode::default);
        connect.config_mut().max_frame_length(FRAME_LIMIT);
        let mut config = client::Config::default();
        config.max_in_flight_requests = 4096;
        config.pending_request_buffer = 4096;
        let client = EchoClient::new(config, connect.await?).spawn();
        measure(Client(client), cell).await
    })
}

fn main() -> Result<(), Failure> {
    peer_main(serve, run)
}
