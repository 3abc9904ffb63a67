//! A program with lockkeeper-remote: a service that other processes can call.
// with: core
use lockkeeper_core::prelude::*;
use lockkeeper_remote::prelude::*;

#[actix_rt::main]
async fn main() -> Result<(), RpcError> {
    let service = RpcService::builder().bind("127.0.0.1:0").start().await?;
    println!("a transport: {}", service.transport().is_some());
    Ok(())
}
