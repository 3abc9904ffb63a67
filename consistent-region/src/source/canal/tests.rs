//! The source by itself, against the in-process server: cuts and resets are played by hand.

mod drawn;

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use lockkeeper_canal::testing::{
    CanalServer, Fault, Request, Restart, StoreLimits, Table, Transaction,
};
use lockkeeper_canal::{CanalConnectorBuilder, ClientIdentity, Filter};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::{CanalSource, CanalSourceConfig, Mapped};
use crate::operator::{
    Cut, InstanceContext, Operator, OperatorError, Output, Prepared, Produced, RegionHandle,
    StageOutput, StartOperator, Wish,
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

/// Gives the rows that are wanted, up to the last.
fn wanted(
    is_wanted: impl Fn(u64) -> Result<bool, String> + Send + 'static,
) -> super::MapEntry<u64> {
    Box::new(move |entry| {
        let Some(change) = entry.row_change()? else {
            return Ok(Mapped::Tuples(vec![]));
        };
        let mut rows = Vec::new();
        for row in change.rows::<(u64,)>() {
            let row = row?.after.map_or(0, |(n,)| n);
            if row > ROWS {
                return Ok(Mapped::End(rows));
            }
            if is_wanted(row)? {
                rows.push(row);
            }
        }
        Ok(Mapped::Tuples(rows))
    })
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
        Self::start_with(server, slots, |_| {})
    }

    fn start_with(
        server: &CanalServer,
        slots: u64,
        configure: impl FnOnce(&mut CanalSourceConfig),
    ) -> Self {
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
        configure(&mut config);
        let cuts_wanted = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&cuts_wanted);
        let region = RegionHandle::new(move |wish| {
            assert_eq!(wish, Wish::Cut);
            count.fetch_add(1, Ordering::SeqCst);
        });
        let context = InstanceContext::alone("source");
        let mut source = CanalSource::new(config, context, wanted(|_| Ok(true)));
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
        let (seq, prepared) = self.prepare();
        let mut state = Vec::new();
        prepared.state.unwrap()(&mut state).unwrap();
        self.complete(seq, state, prepared.stage);
    }

    /// With a spool: the state waits for what lies there, which this arbiter has to write.
    async fn cut_with_spool(&mut self) {
        let (seq, prepared) = self.prepare();
        let write = prepared.state.unwrap();
        let state = spawn_blocking(move || {
            let mut state = Vec::new();
            write(&mut state).map(|()| state)
        });
        let state = timeout(LIMIT, state).await.unwrap().unwrap();
        self.complete(seq, state.unwrap(), prepared.stage);
    }

    fn prepare(&mut self) -> (u64, Prepared) {
        self.cuts_wanted.store(0, Ordering::SeqCst);
        let seq = self.saved.last().map_or(0, |saved| saved.0) + 1;
        let cut = Cut {
            seq,
            term: 1,
            attempt: 0,
            completed: seq - 1,
            last: false,
        };
        (seq, self.source.prepare(cut).unwrap())
    }

    fn complete(&mut self, seq: u64, state: Vec<u8>, stage: Option<StageOutput>) {
        if let Some(stage) = stage {
            let token = stage().unwrap();
            let committer = self.source.committer().unwrap();
            committer.commit(seq, &token).unwrap();
        }
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

    /// Runs to the end, resetting whenever the source fails; or to what no reset mends.
    async fn end(&mut self) -> Result<(), String> {
        for _ in 0..20 {
            match self.until(|_| false).await {
                Ok(ended) => {
                    assert!(ended);
                    return Ok(());
                }
                Err(OperatorError::Permanent(reason)) => return Err(reason),
                Err(_) => self.reset(0),
            }
        }
        panic!("the source failed again and again");
    }

    /// Every row came once, in order.
    async fn finish(mut self) {
        self.end().await.unwrap();
        assert_eq!(self.rows, (1..=ROWS).collect::<Vec<_>>());
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
fn a_batch_is_acknowledged_once_however_many_cuts_come_before_the_server_has_confirmed_it() {
    local(async {
        let server = server(64);
        let mut played = Played::start(&server, 64);
        played.until(|played| played.rows.len() >= 3).await.unwrap();
        // nothing is awaited between them: the task that acknowledges has no turn
        for _ in 0..5 {
            played.cut();
        }
        assert!(played.until(|_| false).await.unwrap(), "no reset is needed");
        assert_eq!(played.rows, (1..=ROWS).collect::<Vec<_>>());
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

/// What a region does with a cut that it ends with, off the arbiter as it does.
async fn end(played: &mut Played) {
    played.cuts_wanted.store(0, Ordering::SeqCst);
    let seq = played.saved.last().map_or(0, |saved| saved.0) + 1;
    let cut = Cut {
        seq,
        term: 1,
        attempt: 0,
        completed: seq - 1,
        last: true,
    };
    let prepared = played.source.prepare(cut).unwrap();
    let mut state = Vec::new();
    prepared.state.unwrap()(&mut state).unwrap();
    let token = prepared.stage.unwrap()().unwrap();
    played.saved.push((seq, state, played.rows.len()));
    let committer = played.source.committer().unwrap();
    assert!(!committer.can_take_back(), "an acknowledgement is for good");
    let commit = tokio::task::spawn_blocking(move || committer.commit(seq, &token));
    timeout(LIMIT, commit).await.unwrap().unwrap().unwrap();
    let oldest = played.oldest_retained();
    played.source.region_checkpointed(seq, oldest).unwrap();
}

#[test]
fn the_last_cut_acknowledges_all_that_it_covers_and_the_region_goes_on_from_it() {
    local(async {
        let server = server(16_384);
        let mut played = Played::start(&server, 16_384);
        for rows in [30, 60] {
            played
                .until(|played| played.rows.len() >= rows)
                .await
                .unwrap();
            played.cut();
        }
        played
            .until(|played| played.rows.len() >= 90)
            .await
            .unwrap();
        let rows = played.rows.len() as u64;
        end(&mut played).await;
        // Already: the commit has waited for it.
        let acked = server.handle().statistics().acked_rows;
        assert_eq!(
            acked, rows,
            "the last cut's rows are left to the next client"
        );

        // Stopped, and started again.
        played.reset(0);
        played.finish().await;
    });
}

#[test]
fn a_batch_that_goes_on_behind_the_end_is_left_to_the_next_client() {
    local(async {
        let server = CanalServer::builder().start().unwrap();
        let table = Table::new("shop", "numbers").key("n", "bigint(20) unsigned");
        // The end in the middle of a transaction, and so of a batch.
        let transaction = Transaction::new(1)
            .insert(&table, [1_u64])
            .insert(&table, [ROWS + 1])
            .insert(&table, [2_u64]);
        server.handle().commit(transaction).unwrap();
        let mut played = Played::start_with(&server, 16_384, |config| config.fetch_size = 1_024);
        assert!(played.until(|_| false).await.unwrap());
        assert_eq!(played.rows, [1]);
        end(&mut played).await;
        let statistics = server.handle().statistics();
        assert_eq!(
            statistics.acked_rows, 0,
            "the row behind the end is acknowledged"
        );
    });
}

#[test]
fn a_bad_row_that_was_left_out_stays_left_out_when_it_comes_again() {
    use crate::source::commands::SourceCommands;
    local(async {
        let server = CanalServer::builder().start().unwrap();
        let table = Table::new("shop", "numbers").key("n", "varchar(9)");
        for (id, row) in [(1, "1"), (2, "two"), (3, "3"), (4, "999")] {
            server
                .handle()
                .commit(Transaction::new(id).at(id * 1_000).insert(&table, [row]))
                .unwrap();
        }
        let mut played = Played::start(&server, 16_384);
        let error = played.until(|_| false).await.unwrap_err();
        let OperatorError::Permanent(text) = error else {
            panic!("{error}");
        };
        assert!(text.contains("n=two"), "{text}");
        // As the text says: `a bad row: example at JOURNAL:OFFSET: …`.
        let position = text
            .split_whitespace()
            .nth(5)
            .unwrap()
            .trim_end_matches(':');
        let commands = SourceCommands::new(Arc::clone(played.source.context.store()));
        let source = played.source.context.instance().clone();
        commands.skip(&source, position).unwrap();
        played.reset(0);
        played.until(|played| played.rows == [1, 3]).await.unwrap();
        played.cut();
        // It comes again, and lies before the cut.
        played.reset(0);
        assert!(played.until(|_| false).await.unwrap());
        assert_eq!(played.rows, [1, 3]);
        for _ in 0..2 {
            played.cut();
        }
        // Nothing goes back behind it any more.
        let forgotten = async {
            while !commands.pending(&source).unwrap().is_empty() {
                tokio::task::yield_now().await;
            }
        };
        timeout(LIMIT, forgotten).await.unwrap();
    });
}

#[test]
fn bad_rows_become_dead_letters_once_although_they_come_again() {
    local(async {
        let folder = tempfile::tempdir().unwrap();
        let dead = folder.path().to_owned();
        let server = CanalServer::builder().start().unwrap();
        let table = Table::new("shop", "numbers").key("n", "varchar(9)");
        for (id, row) in [(1, "1"), (2, "two"), (3, "3"), (4, "999")] {
            server
                .handle()
                .commit(Transaction::new(id).at(id * 1_000).insert(&table, [row]))
                .unwrap();
        }
        let mut played = Played::start_with(&server, 16_384, move |config| {
            config.on_bad_row = crate::source::bad_row::OnBadRow::DeadLetter {
                folder: dead,
                limit_per_cut: 10,
            };
        });
        played.until(|played| played.rows == [1, 3]).await.unwrap();
        played.cut();
        played.reset(0);
        assert!(played.until(|_| false).await.unwrap());
        played.cut();
        let letters = std::fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.is_file())
            .map(|path| std::fs::read_to_string(path).unwrap())
            .collect::<String>();
        assert_eq!(letters.lines().count(), 1, "{letters}");
        assert!(letters.contains("n=two"), "{letters}");
    });
}

#[test]
fn a_changed_source_counts_at_least_once_when_that_is_wanted_and_says_so_in_its_state() {
    local(async {
        let server = server(16_384);
        let mut played = Played::start_with(&server, 16_384, |config| {
            config.on_source_change = crate::source::change::OnSourceChange::AtLeastOnce;
        });
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
        while !played.until(|_| false).await.unwrap_or(false) {
            played.reset(0);
        }
        played.cut();
        let state = &played.saved.last().unwrap().1;
        let saved: super::operator::Saved = rmp_serde::from_slice(state).unwrap();
        assert_eq!(saved.changes, 1);
    });
}

/// A source with a spool, whose server and region ask for no cut.
fn spooling(server: &CanalServer) -> Played {
    Played::start_with(server, 1 << 20, |config| {
        config.spool = true;
        config.idle_before_cut = Duration::from_secs(3_600);
    })
}

#[test]
fn a_spool_lets_a_server_forget_rows_before_any_cut_and_a_reset_reads_them_there() {
    local(async {
        // The server's buffer is smaller than the job, and nobody takes a cut.
        let server = server(64);
        let mut played = spooling(&server);
        played
            .until(|played| played.rows.len() >= 300)
            .await
            .unwrap();
        assert!(played.saved.is_empty(), "a cut was taken");
        let acked = server.handle().statistics().acked_rows;
        assert!(acked > 0, "nothing was acknowledged");
        // Everything comes again: what the server forgot, from the spool.
        played.reset(0);
        played.finish().await;
    });
}

#[test]
fn a_spooled_row_that_is_missing_is_a_permanent_error_and_no_silent_loss() {
    local(async {
        let server = server(64);
        let mut played = spooling(&server);
        played
            .until(|played| played.rows.len() >= 200)
            .await
            .unwrap();
        let store = Arc::clone(played.source.context.store());
        let mut segments: Vec<String> = store.list_objects().unwrap();
        segments.retain(|name| name.starts_with("spool-source.0-"));
        segments.sort_by_key(|name| name.rsplit('-').next().unwrap().parse::<u64>().unwrap());
        assert!(segments.len() > 2, "{segments:?}");
        store.remove_object(&segments[1]).unwrap();
        played.reset(0);
        let error = played.until(|_| false).await.unwrap_err();
        assert!(matches!(error, OperatorError::Permanent(_)), "{error}");
        assert!(
            error.to_string().contains("is missing from the spool"),
            "{error}"
        );
    });
}

/// What a program gets that is started on what another one has left.
fn restarted(
    played: Played,
    is_wanted: impl Fn(u64) -> Result<bool, String> + Send + 'static,
) -> Played {
    let (config, context) = (played.source.config.clone(), played.source.context.clone());
    let mut restarted = played;
    restarted.source = CanalSource::new(config, context, wanted(is_wanted));
    restarted
}

#[test]
fn spooled_rows_are_mapped_anew_also_those_that_the_map_before_had_no_use_for() {
    local(async {
        let server = server(64);
        let mut played = spooling(&server);
        let config = played.source.config.clone();
        let context = played.source.context.clone();
        played.source = CanalSource::new(config, context, wanted(|row| Ok(row % 100 == 0)));
        played.source.resumed_at(0, 0).unwrap();
        played
            .until(|played| played.rows.contains(&100))
            .await
            .unwrap();
        played.cut_with_spool().await;
        played
            .until(|played| played.rows.contains(&300))
            .await
            .unwrap();
        assert_eq!(played.rows, [100, 200, 300]);
        assert!(server.handle().statistics().acked_rows >= 200);

        // From the cut on, the other map gets every row.
        let mut restarted = restarted(played, |_| Ok(true));
        restarted.reset(0);
        assert_eq!(restarted.rows, [100]);
        restarted.end().await.unwrap();
        let behind = restarted.rows[1];
        assert!((101..=300).contains(&behind), "{behind}");
        let expected: Vec<u64> = (behind..=ROWS).collect();
        assert_eq!(restarted.rows[1..], expected);
    });
}

#[test]
fn a_bad_row_in_the_spool_is_good_for_a_program_that_can_read_it() {
    local(async {
        let server = server(64);
        let played = spooling(&server);
        let mut played = restarted(played, |row| match row {
            200 => Err("not understood".to_owned()),
            _ => Ok(true),
        });
        played.source.resumed_at(0, 0).unwrap();
        let error = played.end().await.unwrap_err();
        assert!(error.contains("not understood"), "{error}");
        let rows = played.rows.len();
        // As long as nobody mends it, it fails at the same place.
        played.reset(0);
        let error = played.end().await.unwrap_err();
        assert!(error.contains("not understood"), "{error}");
        assert_eq!(played.rows.len(), rows);

        let mut mended = restarted(played, |_| Ok(true));
        mended.reset(0);
        mended.finish().await;
    });
}

#[test]
fn a_region_that_was_run_with_a_spool_fails_without_one() {
    local(async {
        let server = server(64);
        let mut played = spooling(&server);
        played
            .until(|played| played.rows.len() >= 100)
            .await
            .unwrap();
        played.cut_with_spool().await;
        let (_, state, _) = played.saved.last().unwrap().clone();
        let (mut config, context) = (played.source.config.clone(), played.source.context.clone());
        config.spool = false;
        let mut without = CanalSource::new(config, context, wanted(|_| Ok(true)));
        without.reset(&mut &state[..], 1).unwrap();
        let error = without.resumed_at(1, 0).unwrap_err();
        assert!(matches!(error, OperatorError::Permanent(_)), "{error}");
        assert!(
            error.to_string().contains("CanalSourceConfig::spool"),
            "{error}"
        );
    });
}
