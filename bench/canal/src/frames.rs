//! The frames: batches of a server, kept as they were on the wire.

use std::time::{Duration, Instant};

use bytes::Bytes;
use lockkeeper_canal::testing::{CanalServer, StoreLimits, Table, Transaction};
use lockkeeper_canal::{CanalConnectorBuilder, ClientIdentity, Filter};

use crate::Failure;

/// KiB of a batch.
pub const FETCH_SIZE: u32 = 5000;

/// Rows of a statement.
const STATEMENT: u64 = 1000;

/// One batch.
pub struct Batch {
    /// As a frame: the length, then the packet.
    pub frame: Vec<u8>,
    /// Its entries.
    pub entries: Vec<Bytes>,
}

/// Records batches with so many rows.
pub async fn record(rows: u64) -> Result<Vec<Batch>, Failure> {
    let table = Table::new("shop", "orders")
        .key("id", "bigint(20) unsigned")
        .column("quantity", "int(11)")
        .column("customer", "varchar(40)")
        .column("amount", "decimal(12,2)")
        .column("placed", "datetime");
    let statements = (0..rows.div_ceil(STATEMENT)).map(move |number| {
        let ids = number * STATEMENT + 1..=((number + 1) * STATEMENT).min(rows);
        let values: Vec<_> = ids
            .map(|id| {
                let quantity = id % 90 + 1;
                let customer = format!("customer number {}", id % 1009);
                let amount = format!("{}.{:02}", id % 100_000, id % 100);
                let second = id % 60;
                let placed = format!("2024-02-29 12:34:{second:02}");
                [
                    id.to_string(),
                    quantity.to_string(),
                    customer,
                    amount,
                    placed,
                ]
            })
            .collect();
        Transaction::new(number + 1).insert_rows(&table, &values)
    });
    let server = CanalServer::builder()
        .destination("example")
        .store(StoreLimits::default())
        .source(statements)
        .start()?;
    let mut connector = CanalConnectorBuilder::new(ClientIdentity::new("example"))
        .address(server.address().to_string())
        .build()?;
    connector.connect().await?;
    connector.subscribe(&Filter::all()).await?;
    let mut batches = Vec::new();
    let mut last = Instant::now();
    loop {
        let Some(message) = connector.get_without_ack(FETCH_SIZE, None).await? else {
            if server.handle().statistics().source_ended {
                break;
            }
            if last.elapsed() > Duration::from_secs(60) {
                return Err("the embedded server gives nothing".into());
            }
            continue;
        };
        last = Instant::now();
        // Out of the frame, so that each batch is a buffer of its own.
        let whole: Vec<u8> = message.raw_entries().concat();
        let (whole, mut at) = (Bytes::from(whole), 0);
        let entries = message.raw_entries().iter().map(|entry| {
            at += entry.len();
            whole.slice(at - entry.len()..at)
        });
        let entries: Vec<_> = entries.collect();
        batches.push(Batch {
            frame: frame(message.id().id(), &entries),
            entries,
        });
        connector.ack(message.id()).await?;
    }
    server.stop();
    Ok(batches)
}

fn varint(mut number: u64, into: &mut Vec<u8>) {
    while number >= 0x80 {
        into.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    into.push(number as u8);
}

/// `Packet{type: MESSAGES, body: Messages{batch_id, messages}}`, as the server's raw path writes it.
fn frame(id: i64, entries: &[Bytes]) -> Vec<u8> {
    let mut body = vec![0x08];
    varint(id as u64, &mut body);
    for entry in entries {
        body.push(0x12);
        varint(entry.len() as u64, &mut body);
        body.extend_from_slice(entry);
    }
    let mut packet = vec![0x18, 0x07, 0x2a];
    varint(body.len() as u64, &mut packet);
    packet.extend(body);
    let mut frame = (packet.len() as u32).to_be_bytes().to_vec();
    frame.extend(packet);
    frame
}
