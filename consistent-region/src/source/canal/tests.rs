//! The source by itself, against the in-process server: cuts and resets are played by hand.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use lockkeeper_canal::testing::{
    CanalServer, Fault, Request, Restart, StoreLimits, Table, Transaction,
};
use lockkeeper_canal::{CanalConnectorBuilder, ClientIdentity, Filter};
use tokio::time::timeout;

use super::{CanalSource, CanalSourceConfig, Mapped};
use crate::operator::{
    Cut, InstanceContext, Operator, OperatorError, Output, Produced, RegionHandle, StartOperator,
    Wish,
};

/// Against a hang only: five times what a slow machine needs.
const LIMIT: Duration = Duration::from_secs(50);
const ROWS: u64 = 400;

/// A server whose transaction `n` inserts row `n`; row `ROWS + 1` ends the source.
fn server(slots: usize) -> CanalServer {
    let table = Table::new("shop", "numbers").key("n", "bigint(20) unsigned");
    let script = (1..=ROWS + 1).map(move |n| Transaction::new(n).at(n * 1_000).insert(&table, [n]));
    CanalServer::builder()
        .store(StoreLimits::default().with_slots(slots))
        .source(script)
        .start()
        .unwrap()
}

/// The source under test, and what a region would keep for it.
struct Played {
    source: CanalSource<u64>,
    region: RegionHandle,
    cuts_wanted: Arc<AtomicU64>,
    /// State at each complete cut, and how many rows it covers.
    saved: Vec<(u64, Vec<u8>, usize)>,
    rows: Vec<u64>,
}

impl Played {
    fn start(server: &CanalServer, slots: u64) -> Self {
        let address = server.address().to_string();
        let connector = move || {
            CanalConnectorBuilder::new(ClientIdentity::new("example"))
                .address(&address)
                .build()
        };
        let mut config = CanalSourceConfig::new(Arc::new(connector), Filter::all());
        config.fetch_size = 1;
        config.server_buffer_entries = slots;
        config.idle_before_cut = Duration::from_millis(30);
        config.longest_back_off = Duration::from_millis(50);
        let cuts_wanted = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&cuts_wanted);
        let region = RegionHandle::new(move |wish| {
            assert_eq!(wish, Wish::Cut);
            count.fetch_add(1, Ordering::SeqCst);
        });
        let map = Box::new(|entry: &lockkeeper_canal::Entry| {
            let Some(change) = entry.row_change()? else {
                return Ok(Mapped::Tuples(vec![]));
            };
            let mut rows = Vec::new();
            for row in change.rows::<(u64,)>() {
                let row = row?.after.map_or(0, |(n,)| n);
                if row > ROWS {
                    return Ok(Mapped::End(rows));
                }
                rows.push(row);
            }
            Ok(Mapped::Tuples(rows))
        });
        let mut source = CanalSource::new(config, InstanceContext::alone("source"), map);
        source.resumed_at(0, 0).unwrap();
        Self {
            source,
            region,
            cuts_wanted,
            saved: Vec::new(),
            rows: Vec::new(),
        }
    }

    /// Polls until `enough` holds or the source ends; `Ok(true)` at the end.
    async fn until(&mut self, enough: impl Fn(&Self) -> bool) -> Result<bool, OperatorError> {
        let mut output = Output::new();
        loop {
            if enough(self) {
                return Ok(false);
            }
            let polled = poll_fn(|cx| {
                let polled = self.source.poll_produce(cx, &mut output, &self.region);
                // a wish comes while the source waits
                if polled.is_pending() && self.cuts_wanted.load(Ordering::SeqCst) > 0 {
                    return Poll::Ready(None);
                }
                polled.map(Some)
            });
            let produced = timeout(LIMIT, polled).await.unwrap();
            self.rows.extend(output.take());
            match produced {
                Some(Ok(Produced::End)) => return Ok(true),
                Some(Ok(Produced::More)) => {}
                Some(Err(error)) => return Err(error),
                None => self.cut(),
            }
        }
    }

    fn oldest_retained(&self) -> u64 {
        match self.saved.as_slice() {
            [.., before, _] => before.0,
            _ => 0,
        }
    }

    fn cut(&mut self) {
        self.cuts_wanted.store(0, Ordering::SeqCst);
        let seq = self.saved.last().map_or(0, |saved| saved.0) + 1;
        let cut = Cut {
            seq,
            term: 1,
            attempt: 0,
            completed: seq - 1,
            last: false,
        };
        let mut state = Vec::new();
        self.source.prepare(cut).unwrap().state.unwrap()(&mut state).unwrap();
        self.saved.push((seq, state, self.rows.len()));
        let oldest = self.oldest_retained();
        self.source.region_checkpointed(seq, oldest).unwrap();
    }

    /// Goes back to the newest cut, or `back` cuts before it.
    fn reset(&mut self, back: usize) {
        let oldest = self.oldest_retained();
        self.saved.truncate(self.saved.len() - back);
        match self.saved.last() {
            Some((seq, state, rows)) => {
                self.source.reset(&mut state.as_slice(), 1).unwrap();
                self.source.resumed_at(*seq, oldest).unwrap();
                self.rows.truncate(*rows);
            }
            None => {
                self.source.reset_to_initial_state().unwrap();
                self.source.resumed_at(0, oldest).unwrap();
                self.rows.clear();
            }
        }
    }

    /// Runs to the end, resetting whenever the source fails; every row came once, in order.
    async fn finish(mut self) {
        for _ in 0..20 {
            match self.until(|_| false).await {
                Ok(ended) => {
                    assert!(ended);
                    assert_eq!(self.rows, (1..=ROWS).collect::<Vec<_>>());
                    return;
                }
                Err(OperatorError::Permanent(reason)) => panic!("{reason}"),
                Err(_) => self.reset(0),
            }
        }
        panic!("the source failed again and again");
    }
}

fn local(test: impl Future<Output = ()>) {
    actix_rt::Runtime::new().unwrap().block_on(test);
}

#[test]
fn every_row_comes_once_over_cuts_and_resets() {
    local(async {
        let server = server(16_384);
        let mut played = Played::start(&server, 16_384);
        for rows in [20, 90, 150] {
            played
                .until(|played| played.rows.len() >= rows)
                .await
                .unwrap();
            played.cut();
            played
                .until(|played| played.rows.len() >= rows + 30)
                .await
                .unwrap();
            played.reset(0);
        }
        played.finish().await;
    });
}

#[test]
fn a_fall_back_to_the_oldest_retained_cut_loses_nothing() {
    local(async {
        let server = server(16_384);
        let mut played = Played::start(&server, 16_384);
        for rows in [30, 60, 90] {
            played
                .until(|played| played.rows.len() >= rows)
                .await
                .unwrap();
            played.cut();
        }
        server
            .handle()
            .wait_until(LIMIT, |seen| seen.acked_transactions >= 30)
            .await
            .unwrap();
        played.reset(1);
        played.finish().await;
    });
}

#[test]
fn a_buffer_smaller_than_the_job_does_not_stop_it() {
    local(async {
        let server = server(64);
        Played::start(&server, 64).finish().await;
    });
}

#[test]
fn a_server_that_is_killed_and_starts_earlier_is_recognised() {
    local(async {
        let server = server(16_384);
        let mut played = Played::start(&server, 16_384);
        for rows in [40, 80, 120, 160] {
            played
                .until(|played| played.rows.len() >= rows)
                .await
                .unwrap();
            played.cut();
        }
        server
            .handle()
            .wait_until(LIMIT, |seen| seen.acked_transactions >= 80)
            .await
            .unwrap();
        server.handle().restart(Restart::Killed);
        played.finish().await;
    });
}

/// What a thief's GET between our rollback and our first GET looks like from here: what was rolled
/// back does not come.
#[test]
fn a_replay_whose_beginning_somebody_took_is_asked_for_again() {
    local(async {
        let server = server(16_384);
        let mut played = Played::start(&server, 16_384);
        played
            .until(|played| played.rows.len() >= 40)
            .await
            .unwrap();
        played.cut();
        played
            .until(|played| played.rows.len() >= 80)
            .await
            .unwrap();
        server.handle().inject(Request::Rollback, 1, Fault::Ignore);
        played.reset(0);
        let Err(OperatorError::Retry(reason)) = played.until(|_| false).await else {
            panic!("rows are missing without a word");
        };
        assert!(reason.contains("rolling back again"), "{reason}");
        played.reset(0);
        played.finish().await;
    });
}

#[test]
fn a_server_that_lost_its_place_is_a_permanent_error_not_a_silent_loss() {
    local(async {
        let server = server(16_384);
        let mut played = Played::start(&server, 16_384);
        played
            .until(|played| played.rows.len() >= 40)
            .await
            .unwrap();
        played.cut();
        played
            .until(|played| played.rows.len() >= 80)
            .await
            .unwrap();
        server.handle().restart(Restart::CursorLost);
        let table = Table::new("shop", "numbers").key("n", "bigint(20) unsigned");
        for n in 1_000..1_003 {
            server
                .handle()
                .commit(Transaction::new(n).insert(&table, [n]))
                .unwrap();
        }
        loop {
            match played.until(|_| false).await {
                Err(OperatorError::Permanent(reason)) => {
                    assert!(reason.contains("fits none"), "{reason}");
                    return;
                }
                Err(_) => played.reset(0),
                Ok(_) => panic!("rows were lost without a word"),
            }
        }
    });
}

#[test]
fn a_row_that_does_not_fit_stops_the_region_and_names_its_place() {
    local(async {
        let server = CanalServer::builder().start().unwrap();
        let table = Table::new("shop", "numbers").key("n", "varchar(9)");
        server
            .handle()
            .commit(Transaction::new(1).insert(&table, ["one"]))
            .unwrap();
        let mut played = Played::start(&server, 16_384);
        let error = played.until(|_| false).await.unwrap_err();
        assert!(matches!(error, OperatorError::Permanent(_)));
        let text = error.to_string();
        assert!(text.contains("numbers") && text.contains("one"), "{text}");
    });
}
