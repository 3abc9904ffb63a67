//! Decoding alone, from entries in memory, on one thread.

use std::sync::Arc;

use lockkeeper_canal::Entry;

use crate::client::cpu_seconds;
use crate::frames::Batch;
use crate::{Failure, Order, allocations};

/// What decoding took.
pub struct Decoding {
    pub rows: u64,
    pub cpu: f64,
    pub allocations: u64,
}

pub fn decode(batches: &[Batch]) -> Result<Decoding, Failure> {
    let destination: Arc<str> = "example".into();
    let (cpu, allocated) = (cpu_seconds(), allocations::count());
    let (mut rows, mut check) = (0, 0);
    for raw in batches.iter().flat_map(|batch| &batch.entries) {
        let entry = Entry::decode(destination.clone(), raw.clone())?;
        let Some(change) = entry.row_change()? else {
            continue;
        };
        for row in change.rows::<Order>() {
            if let Some(order) = row?.after {
                check ^= order.check();
                rows += 1;
            }
        }
    }
    std::hint::black_box(check);
    Ok(Decoding {
        rows,
        cpu: cpu_seconds() - cpu,
        allocations: allocations::count() - allocated,
    })
}
