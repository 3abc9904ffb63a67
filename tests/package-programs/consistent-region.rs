//! A program with lockkeeper-consistent-region alone: the builder of a graph, which refuses an empty one.
use lockkeeper_consistent_region::prelude::*;

fn main() {
    match Region::builder("orders").build() {
        Ok(region) => println!("{} with fingerprint {:x}", region.name(), region.fingerprint()),
        Err(error) => println!("refused: {error}"),
    }
}
