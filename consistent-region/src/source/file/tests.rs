//! The source by itself: cuts and resets are played by hand.

use std::future::poll_fn;
use std::path::Path;

use tokio::time::timeout;

use super::*;
use crate::operator::{
    Cut, InstanceContext, Operator, OperatorError, Output, Produced, RegionHandle, StartOperator,
};
use crate::source::commands::SourceCommands;

/// Against a hang only.
const LIMIT: Duration = Duration::from_secs(50);

struct Played {
    source: FileSource<u64>,
    context: InstanceContext,
    rows: Vec<u64>,
    seq: u64,
}

impl Played {
    fn start(config: &FileSourceConfig) -> Self {
        let context = InstanceContext::alone("source");
        let mut source = FileSource::json(context.clone(), config.clone());
        source.resumed_at(0, 0).unwrap();
        Self {
            source,
            context,
            rows: Vec::new(),
            seq: 0,
        }
    }

    /// Polls until it has `count` rows or ends; whether it ended.
    async fn until(&mut self, count: usize) -> Result<bool, OperatorError> {
        let region = RegionHandle::new(|_| {});
        let mut output = Output::new();
        while self.rows.len() < count {
            let polled = poll_fn(|cx| self.source.poll_produce(cx, &mut output, &region));
            let produced = timeout(LIMIT, polled).await.expect("nothing comes")?;
            self.rows.extend(output.take());
            if produced == Produced::End {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn reach_the_end(&mut self) -> Result<(), OperatorError> {
        assert!(self.until(usize::MAX).await?);
        Ok(())
    }

    fn cut(&mut self) -> Vec<u8> {
        self.seq += 1;
        let cut = Cut {
            seq: self.seq,
            term: 1,
            attempt: 1,
            completed: self.seq - 1,
            last: false,
        };
        let prepared = self.source.prepare(cut).unwrap();
        if let Some(stage) = prepared.stage {
            let token = stage().unwrap();
            let committer = self.source.committer().unwrap();
            committer.commit(self.seq, &token).unwrap();
        }
        let mut state = Vec::new();
        prepared.state.unwrap()(&mut state).unwrap();
        state
    }

    fn reset(&mut self, state: &[u8]) {
        self.source.reset(&mut &state[..], 1).unwrap();
        self.source.resumed_at(self.seq, 0).unwrap();
    }
}

fn local(test: impl Future<Output = ()>) {
    actix_rt::Runtime::new().unwrap().block_on(test);
}

fn write(path: &Path, numbers: std::ops::Range<u64>) {
    let lines: String = numbers.map(|n| format!("{n}\n")).collect();
    std::fs::write(path, lines).unwrap();
}

#[test]
fn files_are_read_in_order_and_a_reset_goes_on_behind_the_cut() {
    local(async {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (folder.path().join("one"), folder.path().join("two"));
        write(&one, 0..5_000);
        write(&two, 5_000..5_500);
        // The last line has no end, and counts.
        std::fs::write(folder.path().join("three"), "5500\r\n\n5501").unwrap();
        let config = FileSourceConfig::new([one, two, folder.path().join("three")]);
        let mut played = Played::start(&config);
        let mut cuts = Vec::new();
        for count in [1, 2_000, 5_200] {
            played.until(count).await.unwrap();
            cuts.push((played.cut(), played.rows.len()));
        }
        played.reach_the_end().await.unwrap();
        assert_eq!(played.rows, (0..5_502).collect::<Vec<_>>());
        let last = played.cut();
        for (state, rows) in cuts {
            played.reset(&state);
            played.rows.truncate(rows);
            played.reach_the_end().await.unwrap();
            assert_eq!(played.rows, (0..5_502).collect::<Vec<_>>());
        }
        played.reset(&last);
        played.reach_the_end().await.unwrap();
        assert_eq!(
            played.rows.len(),
            5_502,
            "an ended source gives nothing more"
        );
        played.source.reset_to_initial_state().unwrap();
        played.source.resumed_at(0, 0).unwrap();
        played.rows.clear();
        played.reach_the_end().await.unwrap();
        assert_eq!(played.rows.len(), 5_502);
    });
}

#[test]
fn a_file_that_grows_is_followed_line_by_line() {
    use std::io::Write as _;
    local(async {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("growing");
        write(&path, 0..10);
        let mut config = FileSourceConfig::new([&path]);
        config.follow = true;
        config.pause = Duration::from_millis(1);
        let mut played = Played::start(&config);
        played.until(10).await.unwrap();
        let mut file = std::fs::OpenOptions::new()
            .append(true)
            .open(&path)
            .unwrap();
        // Half a line is none.
        file.write_all(b"10\n1").unwrap();
        played.until(11).await.unwrap();
        file.write_all(b"1\n").unwrap();
        played.until(12).await.unwrap();
        assert_eq!(played.rows, (0..12).collect::<Vec<_>>());
        // A file that is cut off is another one.
        write(&path, 0..1);
        let error = played.until(13).await.unwrap_err();
        assert!(matches!(error, OperatorError::Permanent(_)), "{error}");
        assert!(error.to_string().contains("was cut to 2 bytes"), "{error}");
    });
}

#[test]
fn another_file_of_the_same_name_stops_the_region_or_counts_at_least_once() {
    local(async {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("numbers");
        write(&path, 0..100);
        let mut config = FileSourceConfig::new([&path]);
        let mut played = Played::start(&config);
        played.reach_the_end().await.unwrap();
        // The region was stopped before the end was seen.
        let mut state: serde_json::Value = serde_json::from_slice(&played.cut()).unwrap();
        state["ended"] = false.into();
        let state = serde_json::to_vec(&state).unwrap();
        for (numbers, what) in [(1_000..1_100, "another line 100"), (0..1, "has 2 bytes")] {
            write(&path, numbers);
            let mut stopped = Played::start(&config);
            stopped.reset(&state);
            let error = stopped.reach_the_end().await.unwrap_err();
            assert!(matches!(error, OperatorError::Permanent(_)), "{error}");
            assert!(error.to_string().contains(what), "{error}");
        }
        config.on_source_change = OnSourceChange::AtLeastOnce;
        let mut going_on = Played::start(&config);
        going_on.reset(&state);
        going_on.reach_the_end().await.unwrap();
        assert_eq!(going_on.rows, [0]);
        let state: serde_json::Value = serde_json::from_slice(&going_on.cut()).unwrap();
        assert_eq!(state["changes"], 1, "{state}");
    });
}

#[test]
fn a_bad_line_fails_the_region_by_its_place_and_a_skip_goes_on_behind_it() {
    local(async {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("numbers");
        std::fs::write(&path, "1\n2\nthree\n4\n").unwrap();
        let config = FileSourceConfig::new([&path]);
        let mut played = Played::start(&config);
        let state = played.cut();
        let error = played.reach_the_end().await.unwrap_err();
        assert!(matches!(error, OperatorError::Permanent(_)), "{error}");
        let (text, position) = (error.to_string(), format!("{}:3", path.display()));
        assert!(text.contains(&position) && text.contains("three"), "{text}");

        // A retry without a skip comes to the same.
        played.rows.clear();
        played.reset(&state);
        assert!(played.reach_the_end().await.is_err());

        let commands = SourceCommands::new(played.context.store().clone());
        commands.skip(played.context.instance(), position).unwrap();
        played.rows.clear();
        played.reset(&state);
        played.reach_the_end().await.unwrap();
        assert_eq!(played.rows, [1, 2, 4]);

        let position = format!("{}:4", path.display());
        commands
            .skip_to(played.context.instance(), position)
            .unwrap();
        played.rows.clear();
        played.reset(&state);
        played.reach_the_end().await.unwrap();
        assert_eq!(played.rows, [4]);
    });
}

#[test]
fn bad_lines_go_to_the_dead_letters_of_their_cut() {
    local(async {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("numbers");
        let long = "9".repeat(300);
        let text = [b"1\nzwei\n\xff\xfe\n".as_slice(), long.as_bytes(), b"\n5\n"].concat();
        std::fs::write(&path, text).unwrap();
        let mut config = FileSourceConfig::new([&path]);
        config.max_line_bytes = 200;
        config.on_bad_row = OnBadRow::DeadLetter {
            folder: folder.path().join("dead"),
            limit_per_cut: 3,
        };
        let mut played = Played::start(&config);
        played.reach_the_end().await.unwrap();
        assert_eq!(played.rows, [1, 5]);
        played.cut();
        let letters = folder
            .path()
            .join("dead")
            .join("dead-letters-source-1.jsonl");
        let letters = std::fs::read_to_string(letters).unwrap();
        let letters: Vec<crate::source::bad_row::DeadLetter> = letters
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let positions: Vec<String> = (2..=4).map(|n| format!("{}:{n}", path.display())).collect();
        assert_eq!(
            letters
                .iter()
                .map(|letter| &letter.position)
                .collect::<Vec<_>>(),
            positions.iter().collect::<Vec<_>>()
        );
        assert!(
            letters[2].reason.contains("longer than 200 bytes"),
            "{letters:?}"
        );
    });
}
