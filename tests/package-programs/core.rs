//! A program with lockkeeper-core alone: addresses and a service within one process.
use lockkeeper_core::prelude::*;

fn main() -> Result<(), RpcError> {
    let service = RpcService::builder().build()?;
    let address: RpcAddress = "lockkeeper://127.0.0.1:7171/counter".parse()?;
    println!("{} is here: {}", address.endpoint().as_str(), service.endpoint("counter").is_some());
    Ok(())
}
