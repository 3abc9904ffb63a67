use actix::prelude::*;
use lockkeeper_core::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Message, Serialize, Deserialize)]
#[rtype(result = "()")]
struct Carried;

rpc_gateway! {
    pub PlainGateway("example", version = 1) { Carried }
}

#[derive(RpcEndpoint)]
#[rpc(gateways(PlainGateway), fenced)]
struct Leader;

impl Actor for Leader {
    type Context = Context<Self>;
}

impl Handler<Carried> for Leader {
    type Result = ();
    fn handle(&mut self, _: Carried, _: &mut Context<Self>) {}
}

fn main() {}
