//! row changes of the embedded Canal server → counts by key → a file a cut.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_canal::testing::{CanalServerHandle, Table, Transaction};
use lockkeeper_canal::{CanalConnectorBuilder, ClientIdentity, Entry, Filter};
use lockkeeper_consistent_region::graph::Region;
use lockkeeper_consistent_region::sink::FileSink;
use lockkeeper_consistent_region::source::canal::{CanalSource, CanalSourceConfig, Mapped};
use lockkeeper_consistent_region::testing::Counts;

use crate::numbers::KEYS;

fn table() -> Table {
    Table::new("shop", "numbers").key("n", "bigint(20) unsigned")
}

/// Inserts the rows `from..to`, a hundred a transaction.
pub(crate) fn insert(server: &CanalServerHandle, from: u64, to: u64) {
    let mut next = from;
    while next < to {
        let end = to.min(next + 100);
        let mut transaction = Transaction::new(next + 1).at((next + 1) * 1_000);
        for row in next..end {
            transaction = transaction.insert(&table(), [row]);
        }
        server.commit(transaction).unwrap();
        next = end;
    }
}

/// Counts the rows until row `end` has come.
pub(crate) fn region(address: &str, end: u64, output: &Path) -> Region {
    region_with(address, end, output, |_| {})
}

pub(crate) fn region_with(
    address: &str,
    end: u64,
    output: &Path,
    configure: impl FnOnce(&mut CanalSourceConfig),
) -> Region {
    let address = address.to_owned();
    let connector = move || {
        CanalConnectorBuilder::new(ClientIdentity::new("example"))
            .address(&address)
            .build()
    };
    let mut config = CanalSourceConfig::new(Arc::new(connector), Filter::all());
    config.fetch_size = 4;
    config.longest_back_off = Duration::from_millis(50);
    configure(&mut config);
    let mut graph = Region::builder("numbers");
    let rows = graph.start("numbers", move |context| {
        let map = Box::new(move |entry: &Entry| {
            let Some(change) = entry.row_change()? else {
                return Ok(Mapped::Tuples(vec![]));
            };
            let mut rows = Vec::new();
            for row in change.rows::<(u64,)>() {
                if let Some((number,)) = row?.after {
                    rows.push(number);
                }
            }
            if rows.last() == Some(&(end - 1)) {
                return Ok(Mapped::End(rows));
            }
            Ok(Mapped::Tuples(rows))
        });
        CanalSource::new(config.clone(), context, map)
    });
    let key = |number: &u64| number % KEYS;
    let counts = graph.keyed("counts", rows, 2, key, |_| Counts::of_keys(KEYS));
    let folder = output.to_owned();
    graph.end("sink", counts, move |context| {
        FileSink::new(context, &folder, "cut-", ".txt", |_, counts, to| {
            for (key, count) in counts {
                writeln!(to, "{key} {count}")?;
            }
            Ok(())
        })
    });
    graph.build().unwrap()
}
