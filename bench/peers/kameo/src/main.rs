//! kameo: remote actors over libp2p (TCP, noise, yamux).
//!
//! Bursts of one-way messages and a thousand calls at once break its connection, so these cells have no kameo.

use std::time::Duration;

use bench_harness::cell::{Cell, Outcome, Peer, measure};
use bench_harness::{Failure, parent_gone, peer_main, runtime, tell_ready};
use futures::StreamExt;
use kameo::prelude::*;
use kameo::remote;
use libp2p::identity::Keypair;
use libp2p::{
    Multiaddr, SwarmBuilder, noise, swarm::NetworkBehaviour, swarm::SwarmEvent, tcp, yamux,
};
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

const LIMIT: Duration = Duration::from_secs(60);
/// Beyond every payload of the bench; its encoding nearly doubles one.
const MESSAGE_LIMIT: u64 = 256 << 20;
/// Twice as many streams as the bench has calls at once.
const STREAMS: usize = 4096;

#[derive(Actor, RemoteActor)]
struct Server;

#[derive(Serialize, Deserialize)]
struct Echo(ByteBuf);

#[derive(Serialize, Deserialize, Reply)]
struct Answer(ByteBuf);

#[remote_message]
impl Message<Echo> for Server {
    type Reply = Answer;

    async fn handle(&mut self, Echo(payload): Echo, _: &mut Context<Self, Answer>) -> Answer {
        Answer(payload)
    }
}

#[derive(NetworkBehaviour)]
struct Behaviour {
    kameo: remote::Behaviour,
}

/// The server's key is known, so that its client can name it.
fn server_key() -> Result<Keypair, Failure> {
    Ok(Keypair::ed25519_from_bytes([7; 32])?)
}

fn swarm(key: Keypair) -> Result<libp2p::Swarm<Behaviour>, Failure> {
    let swarm = SwarmBuilder::with_existing_identity(key)
        .with_tokio()
        .with_tcp(
            tcp::Config::default().nodelay(true),
            noise::Config::new,
            yamux::Config::default,
        )?
        .with_behaviour(|key| {
            let config = remote::messaging::Config::default()
                .with_request_timeout(LIMIT)
                .with_max_concurrent_streams(STREAMS)
                .with_request_size_maximum(MESSAGE_LIMIT)
                .with_response_size_maximum(MESSAGE_LIMIT);
            Ok(Behaviour {
                kameo: remote::Behaviour::new(key.public().to_peer_id(), config),
            })
        })?
        .with_swarm_config(|config| config.with_idle_connection_timeout(Duration::from_secs(600)))
        .build();
    swarm.behaviour().kameo.init_global();
    Ok(swarm)
}

fn serve() -> Result<(), Failure> {
    parent_gone();
    runtime()?.block_on(async {
        let mut swarm = swarm(server_key()?)?;
        swarm.listen_on("/ip4/127.0.0.1/tcp/0".parse()?)?;
        let address = loop {
            if let SwarmEvent::NewListenAddr { address, .. } = swarm.select_next_some().await {
                break address;
            }
        };
        swarm.add_external_address(address.clone());
        tokio::spawn(async move {
            loop {
                swarm.select_next_some().await;
            }
        });
        let server = Server::spawn(Server);
        server.register("echo").await?;
        tell_ready(address);
        std::future::pending().await
    })
}

struct Client(RemoteActorRef<Server>);

impl Peer for Client {
    async fn echo(&self, payload: Vec<u8>) -> Result<usize, Failure> {
        let answer = self.0.ask(&Echo(ByteBuf::from(payload))).await;
        Ok(answer.map_err(|error| format!("{error:?}"))?.0.len())
    }
}

fn run(address: &str, cell: &Cell) -> Result<Outcome, Failure> {
    let address: Multiaddr = address.parse()?;
    runtime()?.block_on(async {
        let mut swarm = swarm(Keypair::generate_ed25519())?;
        swarm.add_peer_address(server_key()?.public().to_peer_id(), address.clone());
        swarm.dial(address)?;
        tokio::spawn(async move {
            loop {
                swarm.select_next_some().await;
            }
        });
        let server = loop {
            // until the connection stands, nobody is found
            if let Ok(Some(server)) = RemoteActorRef::<Server>::lookup("echo").await {
                break server;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        measure(Client(server), cell).await
    })
}

fn main() -> Result<(), Failure> {
    peer_main(serve, run)
}
