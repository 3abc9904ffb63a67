//! A sink that writes one file for each cut.

use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use actix::{Actor, Context};

use crate::operator::{
    Committer, Cut, InstanceContext, Operator, OperatorError, Output, Prepared, Tuple,
};

use super::folder::SinkFolder;

/// Writes the tuples of one cut, in the order in which they came, as the content of its file.
/// Runs on a blocking pool.
pub type WriteCut<T> = dyn Fn(Cut, Vec<T>, &mut dyn Write) -> io::Result<()> + Send + Sync;

/// Tuples of a cut that are held in memory, unless told otherwise.
const MAX_TUPLES: usize = 1_000_000;

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
pub struct FileSink<T> {
    context: InstanceContext,
    folder: Arc<SinkFolder>,
    write: Arc<WriteCut<T>>,
    tuples: Vec<T>,
    max_tuples: usize,
}

impl<T: Tuple> FileSink<T> {
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
        let instance = context.instance();
        let suffix = match context.width() {
            1 => suffix.to_owned(),
            _ => format!("-{}{suffix}", instance.index),
        };
        let folder = SinkFolder {
            folder: folder.into(),
            prefix: prefix.to_owned(),
            suffix,
            staged_prefix: format!("{}-{}.", instance.operator, instance.index),
            takes_back: true,
        };
        Self {
            context,
            folder: Arc::new(folder),
            write: Arc::new(write),
            tuples: Vec::new(),
            max_tuples: MAX_TUPLES,
        }
    }

    /// Never takes a published file back: the region fails rather than fall back below it.
    #[must_use]
    pub fn irrevocable(mut self) -> Self {
        Arc::make_mut(&mut self.folder).takes_back = false;
        self
    }

    /// How many tuples of a cut are held at most; 1,000,000 unless told otherwise. At half of that
    /// the sink asks for a cut; beyond it, it fails and the region is reset.
    #[must_use]
    pub fn max_tuples(mut self, max_tuples: usize) -> Self {
        self.max_tuples = max_tuples;
        self
    }
}

impl<T> fmt::Debug for FileSink<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileSink")
            .field("folder", &self.folder)
            .field("tuples", &self.tuples.len())
            .finish_non_exhaustive()
    }
}

impl<T: Tuple> Actor for FileSink<T> {
    type Context = Context<Self>;
}

impl<T: Tuple> Operator for FileSink<T> {
    type Input = T;
    type Output = ();

    fn process(&mut self, batch: Vec<T>, _: &mut Output<()>) -> Result<(), OperatorError> {
        self.tuples.extend(batch);
        if self.tuples.len() > self.max_tuples {
            return Err(OperatorError::Retry(format!(
                "a cut has more than {} tuples: cut more often, or raise max_tuples",
                self.max_tuples
            )));
        }
        if self.tuples.len() > self.max_tuples / 2 {
            self.context.region().want_cut();
        }
        Ok(())
    }

    fn prepare(&mut self, cut: Cut) -> Result<Prepared, OperatorError> {
        let tuples = std::mem::take(&mut self.tuples);
        if tuples.is_empty() {
            return Ok(Prepared::default());
        }
        let (folder, write) = (Arc::clone(&self.folder), Arc::clone(&self.write));
        let stage = move || {
            let Cut {
                seq, term, attempt, ..
            } = cut;
            let staged = format!("{}{seq}.{term}.{attempt}", folder.staged_prefix);
            Ok(folder.stage(seq, staged, |to| write(cut, tuples, to))?)
        };
        Ok(Prepared {
            state: None,
            stage: Some(Box::new(stage)),
        })
    }

    fn reset_to_initial_state(&mut self) -> Result<(), OperatorError> {
        self.tuples.clear();
        Ok(())
    }

    fn committer(&self) -> Option<Arc<dyn Committer>> {
        Some(Arc::clone(&self.folder) as Arc<dyn Committer>)
    }
}
