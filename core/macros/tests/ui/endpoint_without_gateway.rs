use lockkeeper_core::prelude::*;

#[derive(RpcEndpoint)]
struct Nothing;

#[derive(RpcEndpoint)]
#[rpc(gatways(Typo))]
struct Typo;

fn main() {}
