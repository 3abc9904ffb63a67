use actix::Message;
use lockkeeper_core::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Message, Serialize, Deserialize)]
#[rtype(result = "()")]
struct Carried;

rpc_gateway! {
    pub fenced LeaderGateway("example", version = 1) { Carried }
}

async fn connect(service: &RpcService, address: &RpcAddress) {
    let _ = service.connect::<LeaderGateway>(address).await;
}

fn main() {}
