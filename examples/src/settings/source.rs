//! `[source.canal]`, `[source.file]` and `[source.queue]`: a region's start operators.

use std::path::PathBuf;
use std::time::Duration;

use lockkeeper_canal::Filter;
use lockkeeper_consistent_region::source::bad_row::OnBadRow;
use lockkeeper_consistent_region::source::canal::{CanalSourceConfig, MakeConnector};
use lockkeeper_consistent_region::source::change::OnSourceChange;
use lockkeeper_consistent_region::source::file::FileSourceConfig;
use lockkeeper_consistent_region::source::queue::QueueSourceConfig;
use serde::{Deserialize, Serialize};

use super::rules::Rules;

/// Each kind of source.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SourceSettings {
    /// Row changes from Canal.
    pub canal: CanalSourceSettings,
    /// Lines of files.
    pub file: FileSourceSettings,
    /// Messages of a queue.
    pub queue: QueueSourceSettings,
}

impl SourceSettings {
    pub(super) fn check(&self, rules: &mut Rules<'_>) {
        self.canal.check(rules);
        self.file.check(rules);
        self.queue.check(rules);
    }
}

/// What a source does when it is not the one that was read before; see [`OnSourceChange`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum SourceChange {
    /// The region fails.
    #[default]
    Stop,
    /// It goes on, and rows may count more than once.
    AtLeastOnce,
}

impl From<SourceChange> for OnSourceChange {
    fn from(change: SourceChange) -> Self {
        match change {
            SourceChange::Stop => Self::Stop,
            SourceChange::AtLeastOnce => Self::AtLeastOnce,
        }
    }
}

/// Without a folder the region fails at a bad row; see [`OnBadRow`].
fn bad_rows(folder: Option<&PathBuf>, limit_per_cut: u64) -> OnBadRow {
    match folder {
        None => OnBadRow::Fail,
        Some(folder) => OnBadRow::DeadLetter {
            folder: folder.clone(),
            limit_per_cut,
        },
    }
}

/// See [`CanalSourceConfig`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CanalSourceSettings {
    /// How much a batch asks for: KiB in the server's default mode.
    pub fetch_size: u32,
    /// `canal.instance.memory.buffer.size` of the server.
    pub server_buffer_entries: u64,
    /// The server's buffer in bytes.
    pub server_buffer_bytes: u64,
    /// A cut is asked for when nothing came for so long.
    pub idle_before_cut: Duration,
    /// Longest pause between two empty fetches.
    pub longest_pause: Duration,
    /// Longest pause between two attempts to connect.
    pub longest_back_off: Duration,
    /// Where bad rows go; none: they fail the region.
    pub bad_rows_folder: Option<PathBuf>,
    /// How many rows of a cut may be bad.
    pub bad_rows_limit_per_cut: u64,
    /// When the server is not the one that was read before.
    pub on_source_change: SourceChange,
    /// Keep rows in the store until they are in a cut.
    pub spool: bool,
}

impl Default for CanalSourceSettings {
    fn default() -> Self {
        Self {
            fetch_size: 256,
            server_buffer_entries: 16_384,
            server_buffer_bytes: 16 << 20,
            idle_before_cut: Duration::from_millis(250),
            longest_pause: Duration::from_millis(20),
            longest_back_off: Duration::from_secs(5),
            bad_rows_folder: None,
            bad_rows_limit_per_cut: 100,
            on_source_change: SourceChange::default(),
            spool: false,
        }
    }
}

impl CanalSourceSettings {
    /// For the tables of `filter` at what `connector` makes.
    #[must_use]
    pub fn config(&self, connector: MakeConnector, filter: Filter) -> CanalSourceConfig {
        let mut config = CanalSourceConfig::new(connector, filter);
        config.fetch_size = self.fetch_size;
        config.server_buffer_entries = self.server_buffer_entries;
        config.server_buffer_bytes = self.server_buffer_bytes;
        config.idle_before_cut = self.idle_before_cut;
        config.longest_pause = self.longest_pause;
        config.longest_back_off = self.longest_back_off;
        config.on_bad_row = bad_rows(self.bad_rows_folder.as_ref(), self.bad_rows_limit_per_cut);
        config.on_source_change = self.on_source_change.into();
        config.spool = self.spool;
        config
    }

    fn check(&self, rules: &mut Rules<'_>) {
        rules.within("source.canal.fetch_size", self.fetch_size, 1..=2_097_151);
        let (key, entries) = (
            "source.canal.server_buffer_entries",
            self.server_buffer_entries,
        );
        rules.within(key, entries, 8..=1 << 40);
        let (key, bytes) = ("source.canal.server_buffer_bytes", self.server_buffer_bytes);
        rules.within(key, bytes, 1 << 10..=1 << 50);
        rules.time("source.canal.idle_before_cut", self.idle_before_cut);
        rules.time("source.canal.longest_pause", self.longest_pause);
        rules.time("source.canal.longest_back_off", self.longest_back_off);
    }
}

/// See [`FileSourceConfig`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FileSourceSettings {
    /// The last file grows.
    pub follow: bool,
    /// The longest line in bytes.
    pub max_line_bytes: usize,
    /// Pause between two looks at its end.
    pub pause: Duration,
    /// Where bad rows go; none: they fail the region.
    pub bad_rows_folder: Option<PathBuf>,
    /// How many rows of a cut may be bad.
    pub bad_rows_limit_per_cut: u64,
    /// When a file is not the one that was read before.
    pub on_source_change: SourceChange,
}

impl Default for FileSourceSettings {
    fn default() -> Self {
        Self {
            follow: false,
            max_line_bytes: 1 << 20,
            pause: Duration::from_millis(100),
            bad_rows_folder: None,
            bad_rows_limit_per_cut: 100,
            on_source_change: SourceChange::default(),
        }
    }
}

impl FileSourceSettings {
    /// For these files.
    pub fn config(&self, files: impl IntoIterator<Item = impl Into<PathBuf>>) -> FileSourceConfig {
        FileSourceConfig {
            follow: self.follow,
            max_line_bytes: self.max_line_bytes,
            pause: self.pause,
            on_bad_row: bad_rows(self.bad_rows_folder.as_ref(), self.bad_rows_limit_per_cut),
            on_source_change: self.on_source_change.into(),
            ..FileSourceConfig::new(files)
        }
    }

    fn check(&self, rules: &mut Rules<'_>) {
        let line = 1..=1 << 30;
        rules.within("source.file.max_line_bytes", self.max_line_bytes, line);
        rules.time("source.file.pause", self.pause);
    }
}

/// See [`QueueSourceConfig`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct QueueSourceSettings {
    /// The topic.
    pub topic: String,
    /// Bytes that one fetch may bring.
    pub fetch_bytes: usize,
    /// How long a fetch waits.
    pub wait: Duration,
    /// Longest pause between two attempts to reach the queue.
    pub longest_back_off: Duration,
    /// Where bad messages go; none: they fail the region.
    pub bad_rows_folder: Option<PathBuf>,
    /// How many messages of a cut may be bad.
    pub bad_rows_limit_per_cut: u64,
    /// When messages were removed before they were read.
    pub on_source_change: SourceChange,
}

impl Default for QueueSourceSettings {
    fn default() -> Self {
        Self {
            topic: "canal".to_owned(),
            fetch_bytes: 1 << 20,
            wait: Duration::from_millis(500),
            longest_back_off: Duration::from_secs(5),
            bad_rows_folder: None,
            bad_rows_limit_per_cut: 100,
            on_source_change: SourceChange::default(),
        }
    }
}

impl QueueSourceSettings {
    /// For its topic.
    #[must_use]
    pub fn config(&self) -> QueueSourceConfig {
        QueueSourceConfig {
            fetch_bytes: self.fetch_bytes,
            wait: self.wait,
            longest_back_off: self.longest_back_off,
            on_bad_row: bad_rows(self.bad_rows_folder.as_ref(), self.bad_rows_limit_per_cut),
            on_source_change: self.on_source_change.into(),
            ..QueueSourceConfig::new(&self.topic)
        }
    }

    fn check(&self, rules: &mut Rules<'_>) {
        rules.text("source.queue.topic", &self.topic, 249);
        let bytes = 1 << 10..=1 << 30;
        rules.within("source.queue.fetch_bytes", self.fetch_bytes, bytes);
        rules.time("source.queue.wait", self.wait);
        rules.time("source.queue.longest_back_off", self.longest_back_off);
    }
}
