//! A sink that writes one file for each cut.

use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;

use crate::operator::{Committer, Cut, InstanceContext, OperatorError, Tuple};

use super::folder::SinkFolder;
use super::{SinkOperator, TwoPhaseSink};

/// Writes the tuples of one cut, in the order in which they came, as the content of its file.
/// Runs on a blocking pool.
pub type WriteCut<T> = dyn Fn(Cut, Vec<T>, &mut dyn Write) -> io::Result<()> + Send + Sync;

/// An end operator that publishes the tuples of each cut as a file `<prefix><seq><suffix>`.
///
/// The file appears whole, after the cut is complete, once. A cut without tuples has no file. When
/// the region falls back below a published cut, because the checkpoint after it is damaged, the
/// file is taken away and written anew; use [`irrevocable`](Self::irrevocable) if its readers
/// can't stand that.
///
/// Not for cuts that do not fit in memory: the tuples of a cut are held until it is staged.
///
/// In a graph: `graph.end("sink", stream, move |context| FileSink::new(context, &folder, "cut-",
/// ".txt", write))`.
pub type FileSink<T> = SinkOperator<FileOutput<T>>;

/// Where a [`FileSink`] writes, and how.
pub struct FileOutput<T> {
    folder: SinkFolder,
    write: Box<WriteCut<T>>,
}

impl<T: Tuple> SinkOperator<FileOutput<T>> {
    /// A sink that publishes in `folder`, which is made when the first cut is staged. Files that
    /// are not published lie in its sub-folder `staged`. With more than one instance the names
    /// hold the instance's index as well: `<prefix><seq>-<index><suffix>`.
    pub fn new(
        context: InstanceContext,
        folder: impl Into<PathBuf>,
        prefix: &str,
        suffix: &str,
        write: impl Fn(Cut, Vec<T>, &mut dyn Write) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        let output = FileOutput {
            folder: SinkFolder::of(&context, folder.into(), prefix, suffix),
            write: Box::new(write),
        };
        SinkOperator::of(context, output)
    }

    /// Never takes a published file back: the region fails rather than fall back below it.
    #[must_use]
    pub fn irrevocable(mut self) -> Self {
        self.configure(|output| output.folder.takes_back = false);
        self
    }
}

impl<T> fmt::Debug for FileOutput<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileOutput")
            .field("folder", &self.folder)
            .finish_non_exhaustive()
    }
}

impl<T: Tuple> TwoPhaseSink for FileOutput<T> {
    type Tuple = T;

    fn stage(&self, cut: Cut, tuples: Vec<T>) -> Result<Vec<u8>, OperatorError> {
        let staged = self.folder.staged_name(cut);
        let write = |to: &mut dyn Write| (self.write)(cut, tuples, to);
        Ok(self.folder.stage(cut.seq, staged, write)?)
    }
}

impl<T: Tuple> Committer for FileOutput<T> {
    fn commit(&self, seq: u64, token: &[u8]) -> Result<(), OperatorError> {
        self.folder.commit(seq, token)
    }

    fn can_take_back(&self) -> bool {
        self.folder.can_take_back()
    }

    fn take_back_above(&self, seq: u64) -> Result<(), OperatorError> {
        self.folder.take_back_above(seq)
    }

    fn abort_all_except(&self, retained: &[Vec<u8>]) -> Result<(), OperatorError> {
        self.folder.abort_all_except(retained)
    }
}
