//! tonic: unary gRPC over HTTP/2. It has no one-way call and no actor.

use bench_harness::cell::{Cell, Outcome, Peer, measure};
use bench_harness::{Failure, parent_gone, peer_main, runtime, tell_ready};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Response, Status};

/// A payload.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Data {
    /// Its bytes.
    #[prost(bytes = "vec", tag = "1")]
    pub bytes: Vec<u8>,
}

include!(concat!(env!("OUT_DIR"), "/bench.Echo.rs"));

/// Beyond every payload of the bench.
const FRAME_LIMIT: usize = 256 << 20;

struct Server;

#[tonic::async_trait]
impl echo_server::Echo for Server {
    async fn echo(&self, request: Request<Data>) -> Result<Response<Data>, Status> {
        Ok(Response::new(request.into_inner()))
    }
}

fn serve() -> Result<(), Failure> {
    parent_gone();
    runtime()?.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        tell_ready(listener.local_addr()?);
        let echo = echo_server::EchoServer::new(Server)
            .max_decoding_message_size(FRAME_LIMIT)
            .max_encoding_message_size(FRAME_LIMIT);
        let served = tonic::transport::Server::builder()
            .tcp_nodelay(true)
            .add_service(echo)
            .serve_with_incoming(TcpListenerStream::new(listener));
        Ok(served.await?)
    })
}

struct Client(echo_client::EchoClient<Channel>);

impl Peer for Client {
    async fn echo(&self, payload: Vec<u8>) -> Result<usize, Failure> {
        let answer = self.0.clone().echo(Data { bytes: payload }).await?;
        Ok(answer.into_inner().bytes.len())
    }
}

fn run(address: &str, cell: &Cell) -> Result<Outcome, Failure> {
    runtime()?.block_on(async {
        let channel = Endpoint::new(format!("http://{address}"))?
            .connect()
            .await?;
        let client = echo_client::EchoClient::new(channel)
            .max_decoding_message_size(FRAME_LIMIT)
            .max_encoding_message_size(FRAME_LIMIT);
        measure(Client(client), cell).await
    })
}

fn main() -> Result<(), Failure> {
    peer_main(serve, run)
}
