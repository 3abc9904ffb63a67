//! A start operator that reads lines of files: JSON or text, from the beginning or from where the
//! restored cut lies.
//!
//! A file can be sought in, so nothing has to be recognised: a cut holds the offset behind its last
//! line, and that line's checksum, by which another file under the same name is noticed.

mod lines;
mod operator;

use std::error::Error;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::bad_row::OnBadRow;
use super::change::OnSourceChange;

pub use operator::FileSource;
pub(crate) use operator::describe;

/// Names the format of the state.
pub(crate) const STATE_TYPE: &str = "lockkeeper.file-source";

/// What a [`FileSource`] reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSourceConfig {
    /// The files, read one after the other. Of `n` instances, instance `i` reads the files `i`, `i + n`,
    /// and so on: the list must stay the same for the life of the region, but for files added at
    /// its end.
    pub files: Vec<PathBuf>,
    /// The last file grows: wait for more lines instead of ending behind it. A line counts once its
    /// end of line is there. Files that are renamed and begun anew (rotated logs) are not followed.
    /// `false`.
    pub follow: bool,
    /// The longest line, in bytes; a longer one is a bad row. 1 MiB.
    pub max_line_bytes: usize,
    /// Pause between two looks at the end of a file that grows. 100 ms.
    pub pause: Duration,
    /// What happens to a line that is no JSON of the type, no UTF-8, too long, or refused by the map.
    pub on_bad_row: OnBadRow,
    /// What happens when a file is not the one that was read before.
    pub on_source_change: OnSourceChange,
}

impl FileSourceConfig {
    /// Defaults for everything but the files.
    pub fn new(files: impl IntoIterator<Item = impl Into<PathBuf>>) -> Self {
        Self {
            files: files.into_iter().map(Into::into).collect(),
            follow: false,
            max_line_bytes: 1 << 20,
            pause: Duration::from_millis(100),
            on_bad_row: OnBadRow::default(),
            on_source_change: OnSourceChange::default(),
        }
    }
}

/// A line, without its end.
#[derive(Debug, Clone, Copy)]
pub struct Line<'a> {
    /// The file.
    pub file: &'a Path,
    /// Counts the file's lines from 1.
    pub number: u64,
    /// The line.
    pub text: &'a str,
}

/// Makes tuples of a line; see [`FileSource::lines`].
pub type MapLine<T> =
    Box<dyn FnMut(Line<'_>) -> Result<Vec<T>, Box<dyn Error + Send + Sync>> + Send>;

/// Where a line lies among the files of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    /// Index in [`FileSourceConfig::files`].
    file: usize,
    line: u64,
}

impl Place {
    /// Reads `FILE:LINE`, the file as it is called in the list.
    fn read(text: &str, files: &[PathBuf]) -> Option<Self> {
        let (file, line) = text.rsplit_once(':')?;
        Some(Self {
            file: files.iter().position(|path| path == Path::new(file))?,
            line: line.parse().ok()?,
        })
    }

    fn shown(self, files: &[PathBuf]) -> String {
        let path = files.get(self.file).map(PathBuf::as_path);
        format!("{}:{}", path.unwrap_or(Path::new("?")).display(), self.line)
    }
}

impl fmt::Display for Line<'_> {
    /// `FILE:LINE`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file.display(), self.number)
    }
}

#[cfg(test)]
mod tests;
