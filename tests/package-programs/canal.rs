//! A program with lockkeeper-canal alone: a connector, ready to connect.
use lockkeeper_canal::prelude::*;

fn main() -> Result<(), CanalError> {
    let connector = CanalConnectorBuilder::new(ClientIdentity::new("example"))
        .address("127.0.0.1:11111")
        .build()?;
    println!("{:?} {:?}", connector.identity(), Filter::table("shop", "orders"));
    Ok(())
}
