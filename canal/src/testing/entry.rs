//! Entries of a transaction, with headers and positions, as the real server makes them.

use super::filter::Filter;
use super::store::{StoredEntry, StoredKind};
use super::transaction::{Event, InvalidTransaction, Transaction};
use super::wire::{put_bytes, put_length, put_number, put_signed};

/// Numbers of `EntryType`.
const TRANSACTION_BEGIN: u64 = 1;
const ROW_DATA: u64 = 2;
const TRANSACTION_END: u64 = 3;
/// `Type.MYSQL`.
const MYSQL: u64 = 2;

/// Bytes of a binlog event's own header and of a rows event's fixed part, roughly.
const EVENT_OVERHEAD: usize = 31;

/// Makes entries, and knows where in the binlog the next one lies.
#[derive(Debug)]
pub(crate) struct EntryEncoder {
    journal: String,
    offset: u64,
    server_id: u64,
}

impl Default for EntryEncoder {
    fn default() -> Self {
        Self {
            journal: "binlog.000001".to_owned(),
            offset: 4,
            server_id: 1,
        }
    }
}

/// What differs between the headers of one transaction's entries.
struct Heading<'a> {
    schema: &'a str,
    table: &'a str,
    /// 0: not sent, as for begin and end.
    event_type: u64,
    /// 0: no `rowsCount`.
    rows: u64,
    event_length: usize,
}

impl Heading<'_> {
    fn boundary() -> Self {
        Self {
            schema: "",
            table: "",
            event_type: 0,
            rows: 0,
            event_length: EVENT_OVERHEAD,
        }
    }
}

impl EntryEncoder {
    /// The entries of a transaction that is committed at `now` (milliseconds since 1970) unless it
    /// says otherwise, as far as `filter` lets them through.
    pub(crate) fn encode(
        &mut self,
        transaction: Transaction,
        now: u64,
        filter: &Filter,
    ) -> Result<Vec<StoredEntry>, InvalidTransaction> {
        if let Some(error) = transaction.error {
            return Err(error);
        }
        if let Some((journal, offset)) = transaction.position {
            self.journal = journal;
            self.offset = offset;
        }
        self.server_id = transaction.server_id.unwrap_or(self.server_id);
        let time = transaction.execute_time.unwrap_or(now) / 1_000 * 1_000;
        let mut entries = Vec::with_capacity(transaction.events.len() + 2);
        if let Some(thread_id) = transaction.begin_thread {
            let mut body = Vec::new();
            put_signed(&mut body, 4, thread_id);
            let heading = Heading::boundary();
            entries.push(self.entry(
                &heading,
                TRANSACTION_BEGIN,
                &[&body],
                time,
                StoredKind::Begin,
            ));
        }
        for event in transaction.events {
            let passes = match &event {
                Event::Rows { table, .. } => filter.passes(table.schema(), table.name()),
                Event::Statement { schema, table, .. } if !table.is_empty() => {
                    filter.passes(schema, table)
                }
                Event::Statement { .. } | Event::Raw(_) => true,
            };
            let entry = self.event(event, time);
            if passes {
                entries.push(entry);
            }
        }
        if let Some(xid) = transaction.xid {
            let mut body = Vec::new();
            put_bytes(&mut body, 2, xid.to_string().as_bytes());
            let heading = Heading::boundary();
            entries.push(self.entry(&heading, TRANSACTION_END, &[&body], time, StoredKind::End));
        }
        Ok(entries)
    }

    fn event(&mut self, event: Event, time: u64) -> StoredEntry {
        match event {
            Event::Rows {
                table,
                event_type,
                rows,
                count,
                binlog_size,
            } => {
                let heading = Heading {
                    schema: table.schema(),
                    table: table.name(),
                    event_type: event_type.number(),
                    rows: count,
                    event_length: EVENT_OVERHEAD + binlog_size,
                };
                let mut change = Vec::new();
                put_number(&mut change, 1, table_id(&table));
                put_number(&mut change, 2, event_type.number());
                put_number(&mut change, 10, 0);
                self.entry(
                    &heading,
                    ROW_DATA,
                    &[&change, &rows],
                    time,
                    StoredKind::Rows,
                )
            }
            Event::Statement {
                schema,
                table,
                event_type,
                sql,
                is_ddl,
            } => {
                let heading = Heading {
                    schema: &schema,
                    table: &table,
                    event_type: event_type.number(),
                    rows: 0,
                    event_length: EVENT_OVERHEAD + sql.len(),
                };
                let mut change = Vec::new();
                put_number(&mut change, 2, event_type.number());
                put_number(&mut change, 10, u64::from(is_ddl));
                put_bytes(&mut change, 11, sql.as_bytes());
                put_bytes(&mut change, 14, schema.as_bytes());
                let kind = if is_ddl {
                    StoredKind::Ddl
                } else {
                    StoredKind::Rows
                };
                self.entry(&heading, ROW_DATA, &[&change], time, kind)
            }
            Event::Raw(bytes) => StoredEntry {
                bytes,
                rows: 0,
                kind: StoredKind::Rows,
            },
        }
    }

    fn entry(
        &mut self,
        heading: &Heading<'_>,
        entry_type: u64,
        body: &[&[u8]],
        time: u64,
        kind: StoredKind,
    ) -> StoredEntry {
        let header = self.header(heading, time);
        let body_length = body.iter().map(|part| part.len()).sum();
        let mut entry = Vec::with_capacity(header.len() + body_length + 24);
        put_bytes(&mut entry, 1, &header);
        put_number(&mut entry, 2, entry_type);
        put_length(&mut entry, 3, body_length);
        for part in body {
            entry.extend_from_slice(part);
        }
        self.offset += u64::try_from(heading.event_length).unwrap_or(0);
        StoredEntry {
            bytes: entry.into(),
            rows: heading.rows,
            kind,
        }
    }

    /// Fields in the order and presence of the real server's.
    fn header(&self, heading: &Heading<'_>, time: u64) -> Vec<u8> {
        let mut header = Vec::with_capacity(128);
        put_number(&mut header, 1, 1);
        put_bytes(&mut header, 2, self.journal.as_bytes());
        put_number(&mut header, 3, self.offset);
        put_number(&mut header, 4, self.server_id);
        put_bytes(&mut header, 5, b"UTF-8");
        put_number(&mut header, 6, time);
        put_number(&mut header, 7, MYSQL);
        put_bytes(&mut header, 8, heading.schema.as_bytes());
        put_bytes(&mut header, 9, heading.table.as_bytes());
        put_number(
            &mut header,
            10,
            u64::try_from(heading.event_length).unwrap_or(0),
        );
        if heading.event_type != 0 {
            put_number(&mut header, 11, heading.event_type);
        }
        if heading.rows > 0 {
            let mut pair = Vec::new();
            put_bytes(&mut pair, 1, b"rowsCount");
            put_bytes(&mut pair, 2, heading.rows.to_string().as_bytes());
            put_bytes(&mut header, 12, &pair);
        }
        header
    }
}

/// A number for the table, the same in every run.
fn table_id(table: &super::table::Table) -> u64 {
    let mut id: u32 = 0x811c_9dc5;
    for byte in table
        .schema()
        .bytes()
        .chain([b'.'])
        .chain(table.name().bytes())
    {
        id = (id ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    }
    u64::from(id)
}
