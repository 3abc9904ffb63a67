//! The files that the region writes, and the comparison with a plain count.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead as _, BufReader, Write};
use std::path::Path;

use anyhow::Context as _;
use lockkeeper_consistent_region::operator::Cut;

use super::words::words_of;

/// Begins the name of a cut's file.
pub const PREFIX: &str = "cut-";
/// Ends it.
pub const SUFFIX: &str = ".txt";

/// How often each word was seen.
pub type Table = BTreeMap<String, u64>;

/// Writes a cut: a line `word count` for each word whose count changed, in the words' order.
pub(super) fn write_cut(
    _: Cut,
    mut counts: Vec<(String, u64)>,
    to: &mut dyn Write,
) -> io::Result<()> {
    counts.sort_unstable();
    counts
        .iter()
        .try_for_each(|(word, count)| writeln!(to, "{word} {count}"))
}

/// The region's result: of each word the line in the newest cut that has one. Also how many files
/// there are.
///
/// # Errors
/// When a file can't be read, or is not what [`graph`](super::graph) writes.
pub fn result(folder: &Path) -> anyhow::Result<(Table, usize)> {
    let mut cuts = BTreeMap::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        let number = name.and_then(|name| name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX));
        if let Some(number) = number {
            cuts.insert(number.parse::<u64>()?, path);
        }
    }
    let mut table = Table::new();
    for path in cuts.values() {
        for line in fs::read_to_string(path)?.lines() {
            let (word, count) = line
                .split_once(' ')
                .with_context(|| format!("{}: {line:?}", path.display()))?;
            table.insert(word.to_owned(), count.parse()?);
        }
    }
    Ok((table, cuts.len()))
}

/// Counts a file without a region. Also how many lines it has.
///
/// # Errors
/// When it can't be read.
pub fn plain_count(file: &Path) -> anyhow::Result<(Table, u64)> {
    let (mut table, mut lines) = (Table::new(), 0);
    for line in BufReader::new(fs::File::open(file)?).lines() {
        lines += 1;
        for word in words_of(&line?) {
            *table.entry(word).or_default() += 1;
        }
    }
    Ok((table, lines))
}

/// The words whose counts differ, with the region's count and the plain one.
#[must_use]
pub fn differences(region: &Table, plain: &Table) -> Vec<(String, u64, u64)> {
    let count = |table: &Table, word: &String| table.get(word).copied().unwrap_or(0);
    let mut words: Vec<&String> = region.keys().chain(plain.keys()).collect();
    words.sort_unstable();
    words.dedup();
    words
        .into_iter()
        .map(|word| (word.clone(), count(region, word), count(plain, word)))
        .filter(|(_, region, plain)| region != plain)
        .collect()
}
