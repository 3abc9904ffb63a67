//! A program with lockkeeper-fencing alone: what a deposed leader publishes is in nobody's history.
use std::sync::Arc;

use lockkeeper_fencing::prelude::*;

fn main() -> Result<(), GuardError> {
    let store: Arc<dyn GuardStore> = Arc::new(MemoryGuardStore::new());
    let Guarded::Done(mut leader) = EpochGuard::enter(store, 1)? else {
        unreachable!("no one else knows this store");
    };
    println!("published: {}", leader.publish(1, b"first")?.is_done());
    Ok(())
}
