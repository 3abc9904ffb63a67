//! The smallest example: a counter that other processes can add to.

use actix::prelude::*;
use lockkeeper_core::prelude::*;
use serde::{Deserialize, Serialize};

/// Adds, and answers the new total.
#[derive(Debug, Message, Serialize, Deserialize)]
#[rtype(result = "i64")]
pub struct Add(pub i64);

rpc_gateway! {
    /// What a counter can be asked.
    pub CounterGateway("example.Counter", version = 1) { Add }
}

/// Counts from zero; forgets with its process.
#[derive(Debug, Default, RpcEndpoint)]
#[rpc(gateways(CounterGateway))]
pub struct Counter {
    total: i64,
}

impl Actor for Counter {
    type Context = Context<Self>;
}

impl Handler<Add> for Counter {
    type Result = i64;

    fn handle(&mut self, Add(number): Add, _: &mut Context<Self>) -> i64 {
        self.total += number;
        self.total
    }
}
