//! ractor_cluster: actors of two nodes, found by a process group.

use std::time::Duration;

use bench_harness::cell::{Cell, Outcome, Peer, measure};
use bench_harness::{Failure, parent_gone, peer_main, runtime, tell_ready};
use ractor::rpc::CallResult;
use ractor::{Actor, ActorProcessingErr, ActorRef, MessagingErr, RpcReplyPort};
use ractor_cluster::{NodeServer, NodeServerMessage, RactorClusterMessage};

const LIMIT: Option<Duration> = Some(Duration::from_secs(60));
const GROUP: &str = "echo";

#[derive(RactorClusterMessage)]
enum Call {
    #[rpc]
    Echo(Vec<u8>, RpcReplyPort<Vec<u8>>),
    Note(Vec<u8>),
    #[rpc]
    Count(RpcReplyPort<u64>),
}

struct Server;

impl Actor for Server {
    type Msg = Call;
    type State = u64;
    type Arguments = ();

    async fn pre_start(&self, me: ActorRef<Call>, (): ()) -> Result<u64, ActorProcessingErr> {
        ractor::pg::join(GROUP.to_owned(), vec![me.get_cell()]);
        Ok(0)
    }

    async fn handle(
        &self,
        _: ActorRef<Call>,
        call: Call,
        notes: &mut u64,
    ) -> Result<(), ActorProcessingErr> {
        match call {
            Call::Echo(payload, reply) => reply.send(payload)?,
            Call::Note(_) => *notes += 1,
            Call::Count(reply) => reply.send(*notes)?,
        }
        Ok(())
    }
}

async fn node(port: u16, name: &str) -> Result<ActorRef<NodeServerMessage>, Failure> {
    let server = NodeServer::new(
        port,
        "bench".to_owned(),
        name.to_owned(),
        "localhost".to_owned(),
        None,
        None,
    )
    .with_listen_addr([127, 0, 0, 1].into())
    .with_max_inbound_frame_size(1 << 30);
    Ok(Actor::spawn(None, server, ()).await?.0)
}

/// A port that is free now; the node can't say which one it has bound.
fn free_port() -> std::io::Result<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?
        .local_addr()?
        .port())
}

fn serve() -> Result<(), Failure> {
    parent_gone();
    runtime()?.block_on(async {
        let port = free_port()?;
        node(port, "server").await?;
        Actor::spawn(None, Server, ()).await?;
        tell_ready(format_args!("127.0.0.1:{port}"));
        std::future::pending().await
    })
}

struct Client(ActorRef<Call>);

fn value<T>(result: Result<CallResult<T>, MessagingErr<Call>>) -> Result<T, Failure> {
    match result {
        Ok(CallResult::Success(value)) => Ok(value),
        Ok(_) => Err("the call got no answer".into()),
        Err(error) => Err(format!("{error:?}").into()),
    }
}

impl Peer for Client {
    async fn echo(&self, payload: Vec<u8>) -> Result<usize, Failure> {
        let call = |reply| Call::Echo(payload, reply);
        value(self.0.call(call, LIMIT).await).map(|payload| payload.len())
    }

    fn note(&self, payload: &[u8]) -> Result<bool, Failure> {
        // its queues have no bound: there is room always
        let note = Call::Note(payload.to_vec());
        self.0.cast(note).map_err(|error| format!("{error:?}"))?;
        Ok(true)
    }

    async fn count(&self) -> Result<u64, Failure> {
        value(self.0.call(Call::Count, LIMIT).await)
    }
}

fn run(address: &str, cell: &Cell) -> Result<Outcome, Failure> {
    runtime()?.block_on(async {
        let node = node(0, "client").await?;
        ractor_cluster::client_connect(&node, address).await?;
        let server = loop {
            if let Some(server) = ractor::pg::get_members(&GROUP.to_owned())
                .into_iter()
                .next()
            {
                break server.into();
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        };
        measure(Client(server), cell).await
    })
}

fn main() -> Result<(), Failure> {
    peer_main(serve, run)
}
