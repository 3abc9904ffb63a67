//! Payloads made to exhaust the stack or the memory of the process that reads them.

use std::collections::BTreeMap;

use actix::prelude::*;
use bytes::Bytes;
use lockkeeper_core::prelude::*;
use lockkeeper_core::transport::{ConnectRequest, OutboundCall, RemoteSession};
use lockkeeper_core::{Outcome, RpcGateway};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

use crate::peer::Peer;
use crate::support::*;

/// A message that may hold itself, in every way in which one can.
#[derive(Message, Serialize, Deserialize)]
#[rtype(result = "u64")]
pub enum Tree {
    Leaf,
    New(Box<Tree>),
    Pair(u8, Box<Tree>),
    Fields { within: Box<Tree> },
    List(Vec<Tree>),
    Table(BTreeMap<u8, Tree>),
    Maybe(Option<Box<Tree>>),
}

impl Tree {
    fn leaves(&self) -> u64 {
        match self {
            Self::Leaf => 1,
            Self::New(tree) | Self::Pair(_, tree) | Self::Fields { within: tree } => tree.leaves(),
            Self::List(trees) => trees.iter().map(Self::leaves).sum(),
            Self::Table(trees) => trees.values().map(Self::leaves).sum(),
            Self::Maybe(tree) => tree.as_ref().map_or(0, |tree| tree.leaves()),
        }
    }
}

/// Lists of lists, without anything between them.
#[derive(Message, Serialize, Deserialize)]
#[rtype(result = "()")]
pub struct Lists(Vec<Lists>);

/// Tables of tables.
#[derive(Message, Serialize, Deserialize)]
#[rtype(result = "()")]
pub struct Tables(BTreeMap<u8, Tables>);

/// An option of itself: MessagePack has no byte for that, so any value holds another without end.
#[derive(Message, Serialize, Deserialize)]
#[rtype(result = "()")]
pub struct Endless(Option<Box<Endless>>);

rpc_gateway! {
    /// What a reader of trees is asked.
    pub TreeGateway("test.Tree", version = 1) { Tree, Lists, Tables, Endless }
}

/// Counts leaves.
#[derive(RpcEndpoint, Default)]
#[rpc(gateways(TreeGateway))]
pub struct Reader;

impl Actor for Reader {
    type Context = Context<Self>;
}

impl Handler<Tree> for Reader {
    type Result = u64;

    fn handle(&mut self, tree: Tree, _: &mut Context<Self>) -> u64 {
        tree.leaves()
    }
}

macro_rules! ignored {
    ($($message:ident)*) => {$(
        impl Handler<$message> for Reader {
            type Result = ();

            fn handle(&mut self, _: $message, _: &mut Context<Self>) {}
        }
    )*};
}
ignored!(Lists Tables Endless);

const TREE: u16 = 0;
const LISTS: u16 = 1;
const TABLES: u16 = 2;
const ENDLESS: u16 = 3;
const LEVELS: usize = 100_000;

/// What a peer that does not care for types can send: which message, and its bytes.
fn payloads() -> Vec<(u16, Vec<u8>)> {
    let huge = |marker: u8| vec![marker, 0xFF, 0xFF, 0xFF, 0xFF];
    vec![
        (LISTS, [0x91].repeat(LEVELS)),
        (TABLES, [0x81, 0x01].repeat(LEVELS)),
        (ENDLESS, vec![0x01]),
        (ENDLESS, [0x91].repeat(LEVELS)),
        (TREE, b"\x81\xa3New".repeat(LEVELS)),
        (TREE, b"\x81\xa4Pair\x92\x01".repeat(LEVELS)),
        (TREE, b"\x81\xa6Fields\x91".repeat(LEVELS)),
        (TREE, b"\x81\xa4List\x91".repeat(LEVELS)),
        (TREE, b"\x81\xa5Table\x81\x01".repeat(LEVELS)),
        (TREE, b"\x81\xa5Maybe".repeat(LEVELS)),
        // Lists, tables, texts, bytes and extensions of 4 GiB.
        (LISTS, huge(0xDD)),
        (TABLES, huge(0xDF)),
        (TREE, [b"\x81\xa4List".to_vec(), huge(0xDD)].concat()),
        (TREE, huge(0xDB)),
        (TREE, huge(0xC6)),
        (TREE, [huge(0xC9), vec![1]].concat()),
    ]
}

async fn session(service: &RpcService, address: RpcAddress) -> Arc<dyn RemoteSession> {
    let request = ConnectRequest {
        address,
        gateway: TreeGateway::DESCRIPTOR,
        shapes: TreeGateway::shapes(),
        token: None,
        deadline: (std::time::Instant::now() + LIMIT).into(),
    };
    let transport = service.transport().unwrap();
    transport.connect(request).await.unwrap()
}

#[actix::test]
async fn hostile_payloads_are_refused_by_name_and_the_process_lives_on() {
    let peer = Peer::start();
    let service = service().await;
    let address = peer.endpoint("tree");
    let session = session(&service, address.clone()).await;
    for (method, payload) in payloads() {
        let payload = Bytes::from(payload);
        session.tell(method, payload.clone()).unwrap();
        let call = OutboundCall {
            method,
            payload: payload.clone(),
            deadline: (std::time::Instant::now() + LIMIT).into(),
        };
        let error = session.ask(call).await.unwrap_err();
        let name = TreeGateway::DESCRIPTOR.method_name(method);
        assert_eq!(
            (error.kind(), error.outcome()),
            (RpcErrorKind::Decode, Outcome::Refused),
            "{name} {:x?}: {error}",
            &payload[..payload.len().min(16)]
        );
        assert!(error.text().contains(name), "{error}");
    }
    let reader = service.connect::<TreeGateway>(&address).await.unwrap();
    let tree = Tree::List(vec![Tree::Leaf, Tree::New(Box::new(Tree::Leaf))]);
    assert_eq!(reader.send(tree).await.unwrap(), 2);
    assert!(peer.peak_memory_bytes() < 128 << 20);
}
