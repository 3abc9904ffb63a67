use actix::Message;
use lockkeeper_core::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Message, Serialize, Deserialize)]
#[rtype(result = "()")]
struct Carried;

#[derive(Message, Serialize, Deserialize)]
#[rtype(result = "()")]
struct CarriedToo;

#[derive(Message, Serialize, Deserialize)]
#[rtype(result = "()")]
struct Foreign;

rpc_gateway! {
    pub ExampleGateway("example", version = 1) { Carried, CarriedToo }
}

fn ask(gateway: &Gateway<ExampleGateway>) {
    drop(gateway.send(Carried));
    drop(gateway.send(Foreign));
}

fn main() {}
