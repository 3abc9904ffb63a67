//! The region's graph.

use std::path::{Path, PathBuf};

use lockkeeper_consistent_region::graph::{Region, TopologyError};
use lockkeeper_consistent_region::operator::InstanceContext;
use lockkeeper_consistent_region::sink::FileSink;
use lockkeeper_consistent_region::source::file::FileSource;

use super::counts::Counts;
use super::output::{PREFIX, SUFFIX, write_cut};
use super::words::Words;
use crate::settings::source::FileSourceSettings;

/// Instances that split lines.
const SPLITTERS: u16 = 2;

/// lines → words → counts, in `width` instances → files in `folder`. With `follow` it waits at the
/// file's end for more.
///
/// # Errors
/// When the width can't be.
pub fn graph(
    file: PathBuf,
    lines_per_cut: u64,
    settings: FileSourceSettings,
    width: u16,
    folder: &Path,
) -> Result<Region, TopologyError> {
    let mut graph = Region::builder("word-count");
    let lines = graph.start("lines", move |context| {
        source(context, &file, lines_per_cut, &settings)
    });
    let words = graph.operator("words", lines, SPLITTERS, |_| Words);
    let counts = graph.keyed(
        "counts",
        words,
        width,
        |word: &String| word.clone(),
        |_| Counts::default(),
    );
    let folder = folder.to_owned();
    graph.end("files", counts, move |context| {
        FileSink::new(context, &folder, PREFIX, SUFFIX, write_cut)
    });
    graph.build()
}

/// Gives the file's lines, and asks for a cut after every `lines_per_cut` of them. It reads on
/// meanwhile: a cut may lie some lines further down.
fn source(
    context: InstanceContext,
    file: &Path,
    lines_per_cut: u64,
    settings: &FileSourceSettings,
) -> FileSource<String> {
    let region = context.region().clone();
    FileSource::lines(context, settings.config([file]), move |line| {
        if line.number % lines_per_cut == 0 {
            region.want_cut();
        }
        Ok(vec![line.text.to_owned()])
    })
}
