//! The end operator: one file a cut, published by a link that is created once.
//!
//! `DIR/out/cut-<seq>.jsonl` holds one line for each customer that changed; the last line of a
//! customer over ascending cuts is the result. `DIR/out/chain/cut-<seq>.json` says which cut came
//! before and how many changes the output covers, so that a missing, repeated or overlapping cut
//! shows. Both are staged under a name with (cut, term, attempt) and published only after the cut
//! is complete, the chain first: a crash between the two leaves a gap that the repeated commit
//! closes.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use actix::{Actor, Context};
use lockkeeper_consistent_region::operator::{
    Committer, Cut, Operator, OperatorError, Output, Prepared,
};
use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};

use super::account::Account;

/// A customer that changed since the cut before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// The customer.
    pub customer: String,
    /// The account as it stands at the cut.
    pub account: Account,
    /// How many changes it got since the cut before.
    pub new_changes: u64,
}

/// A line as it is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WrittenLine {
    /// The customer.
    pub customer: String,
    /// Decimal text.
    pub total: Decimal,
    /// Number of rows.
    pub count: i64,
    /// Number of changes since the beginning.
    pub changes: u64,
    /// Wrapping sum of the rows' digests.
    pub digest: u64,
}

/// What the chain says of a cut.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChainLink {
    /// The cut.
    pub cut: u64,
    /// The cut before it; 0 for the first.
    pub previous: u64,
    /// Row changes that the cuts before it cover.
    pub changes_before: u64,
    /// Row changes that the cuts up to this one cover.
    pub changes_through: u64,
    /// The job ends with this cut.
    pub last: bool,
    /// Name of the staged files: tells two attempts at one cut apart.
    pub staged: String,
}

/// Where the files of a job's output lie.
#[derive(Debug, Clone)]
pub struct OutputFolder {
    root: PathBuf,
}

impl OutputFolder {
    /// The output of the job whose data lies in `data`.
    #[must_use]
    pub fn new(data: &Path) -> Self {
        Self {
            root: data.to_owned(),
        }
    }

    /// The folder of the published cuts.
    #[must_use]
    pub fn published(&self) -> PathBuf {
        self.root.join("out")
    }

    /// The folder of the chain.
    #[must_use]
    pub fn chain(&self) -> PathBuf {
        self.root.join("out").join("chain")
    }

    fn staged(&self) -> PathBuf {
        self.root.join("staged")
    }

    fn cut_file(&self, seq: u64) -> PathBuf {
        self.published().join(format!("cut-{seq}.jsonl"))
    }

    fn chain_file(&self, seq: u64) -> PathBuf {
        self.chain().join(format!("cut-{seq}.json"))
    }

    /// Writes both files of a cut under the staging name and makes them durable.
    fn stage(&self, link: &ChainLink, lines: &[Line]) -> io::Result<()> {
        let folder = self.staged();
        fs::create_dir_all(&folder)?;
        write_durably(&folder.join(format!("{}.jsonl", link.staged)), |file| {
            for line in lines {
                serde_json::to_writer(
                    &mut *file,
                    &WrittenLine {
                        customer: line.customer.clone(),
                        total: line.account.total,
                        count: line.account.count,
                        changes: line.account.changes,
                        digest: line.account.digest,
                    },
                )?;
                file.write_all(b"\n")?;
            }
            Ok(())
        })?;
        write_durably(&folder.join(format!("{}.json", link.staged)), |file| {
            serde_json::to_writer(file, link).map_err(Into::into)
        })?;
        sync_folder(&folder)
    }
}

/// Publishes the staged files of complete cuts.
#[derive(Debug)]
struct Publisher {
    folder: OutputFolder,
    sabotage: OutputSabotage,
}

/// Wrong behaviour, for the tests that show that the judge notices it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OutputSabotage {
    /// None.
    #[default]
    None,
    /// Publishes each cut a second time under the next number.
    DoubleCommit,
    /// Publishes while the cut is not complete, so that an aborted attempt's output stays.
    StaleCommit,
}

impl Publisher {
    fn publish(&self, seq: u64, staged: &str) -> Result<(), OperatorError> {
        let (published, chain) = (self.folder.cut_file(seq), self.folder.chain_file(seq));
        if let Some(link) = read_link(&chain)? {
            if link.staged != staged && self.sabotage == OutputSabotage::None {
                return Err(OperatorError::Permanent(format!(
                    "cut {seq} was published from {} before, not from {staged}",
                    link.staged
                )));
            }
            if published.try_exists()? {
                return Ok(());
            }
        }
        let folder = self.folder.staged();
        fs::create_dir_all(self.folder.chain())?;
        link_once(&folder.join(format!("{staged}.json")), &chain)?;
        sync_folder(&self.folder.chain())?;
        link_once(&folder.join(format!("{staged}.jsonl")), &published)?;
        sync_folder(&self.folder.published())?;
        Ok(())
    }
}

impl Committer for Publisher {
    fn commit(&self, seq: u64, token: &[u8]) -> Result<(), OperatorError> {
        let staged = staged_name(token)?;
        self.publish(seq, staged)?;
        if self.sabotage == OutputSabotage::DoubleCommit {
            self.publish(seq + 1, staged)?;
        }
        // a cut that is committed again is found published
        let folder = self.folder.staged();
        remove_if_there(&folder.join(format!("{staged}.json")))?;
        remove_if_there(&folder.join(format!("{staged}.jsonl")))?;
        Ok(())
    }

    fn can_take_back(&self) -> bool {
        true
    }

    fn take_back_above(&self, seq: u64) -> Result<(), OperatorError> {
        if self.sabotage != OutputSabotage::None {
            return Ok(());
        }
        // the cut first: a chain without its cut shows, a cut without its chain is refused
        let mut cuts = published_cuts(&self.folder)?;
        cuts.retain(|cut| *cut > seq);
        for cut in cuts {
            remove_if_there(&self.folder.cut_file(cut))?;
            remove_if_there(&self.folder.chain_file(cut))?;
        }
        Ok(())
    }

    fn abort_all_except(&self, retained: &[Vec<u8>]) -> Result<(), OperatorError> {
        let retained = retained
            .iter()
            .map(|token| staged_name(token))
            .collect::<Result<HashSet<_>, _>>()?;
        let entries = match fs::read_dir(self.folder.staged()) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            other => other?,
        };
        for entry in entries {
            let path = entry?.path();
            let name = path
                .file_stem()
                .and_then(|name| name.to_str())
                .unwrap_or_default();
            if !retained.contains(name) {
                remove_if_there(&path)?;
            }
        }
        Ok(())
    }
}

/// The cuts that are published, chain or lines, ascending.
fn published_cuts(folder: &OutputFolder) -> io::Result<Vec<u64>> {
    let mut cuts = Vec::new();
    for (folder, suffix) in [(folder.published(), ".jsonl"), (folder.chain(), ".json")] {
        let entries = match fs::read_dir(folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            other => other?,
        };
        for entry in entries {
            let name = entry?.file_name();
            let cut: Option<u64> = name.to_str().and_then(|name| {
                name.strip_prefix("cut-")?
                    .strip_suffix(suffix)?
                    .parse()
                    .ok()
            });
            cuts.extend(cut);
        }
    }
    cuts.sort_unstable();
    cuts.dedup();
    Ok(cuts)
}

/// The end operator of the job.
#[derive(Debug)]
pub struct OrdersOutput {
    folder: OutputFolder,
    sabotage: OutputSabotage,
    lines: Vec<Line>,
    /// Changes that the output covers so far.
    changes: u64,
    /// The cut that was prepared last. Not [`Cut::completed`]: the marker of the next cut may come
    /// while the commit of this one is still at work.
    previous: u64,
}

impl OrdersOutput {
    /// Writes to `folder`.
    #[must_use]
    pub fn new(folder: OutputFolder, sabotage: OutputSabotage) -> Self {
        Self {
            folder,
            sabotage,
            lines: Vec::new(),
            changes: 0,
            previous: 0,
        }
    }
}

impl Actor for OrdersOutput {
    type Context = Context<Self>;
}

impl Operator for OrdersOutput {
    type Input = Line;
    type Output = ();
    const STATE_TYPE: &'static str = "orders.output";

    fn process(&mut self, batch: Vec<Line>, _: &mut Output<()>) -> Result<(), OperatorError> {
        self.lines.extend(batch);
        Ok(())
    }

    fn prepare(&mut self, cut: Cut) -> Result<Prepared, OperatorError> {
        let lines = std::mem::take(&mut self.lines);
        let changes_before = self.changes;
        self.changes += lines.iter().map(|line| line.new_changes).sum::<u64>();
        let link = ChainLink {
            cut: cut.seq,
            previous: std::mem::replace(&mut self.previous, cut.seq),
            changes_before,
            changes_through: self.changes,
            last: cut.last,
            staged: format!("cut-{}.{}.{}", cut.seq, cut.term, cut.attempt),
        };
        let (folder, sabotage) = (self.folder.clone(), self.sabotage);
        let (changes, through) = (self.changes, cut.seq);
        Ok(Prepared {
            state: Some(Box::new(move |writer| {
                writer.write_all(&changes.to_be_bytes())?;
                writer.write_all(&through.to_be_bytes())
            })),
            stage: Some(Box::new(move || {
                folder.stage(&link, &lines)?;
                if sabotage == OutputSabotage::StaleCommit {
                    Publisher { folder, sabotage }.publish(link.cut, &link.staged)?;
                }
                Ok(link.staged.into_bytes())
            })),
        })
    }

    fn reset(&mut self, state: &mut dyn Read, _version: u32) -> Result<(), OperatorError> {
        let mut number = || {
            let mut bytes = [0; 8];
            state
                .read_exact(&mut bytes)
                .map(|()| u64::from_be_bytes(bytes))
        };
        (self.changes, self.previous) = (number()?, number()?);
        self.lines.clear();
        Ok(())
    }

    fn reset_to_initial_state(&mut self) -> Result<(), OperatorError> {
        (self.changes, self.previous) = (0, 0);
        self.lines.clear();
        Ok(())
    }

    fn committer(&self) -> Option<Arc<dyn Committer>> {
        Some(Arc::new(Publisher {
            folder: self.folder.clone(),
            sabotage: self.sabotage,
        }))
    }
}

fn staged_name(token: &[u8]) -> Result<&str, OperatorError> {
    std::str::from_utf8(token)
        .map_err(|_| OperatorError::Permanent("the token of a cut is no file name".to_owned()))
}

/// The chain's word on a cut; `None` when it is not published.
fn read_link(path: &Path) -> io::Result<Option<ChainLink>> {
    match fs::read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        other => Ok(Some(serde_json::from_slice(&other?)?)),
    }
}

fn write_durably(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    write(&mut file)?;
    file.into_inner()
        .map_err(|error| error.into_error())?
        .sync_all()
}

fn link_once(from: &Path, to: &Path) -> io::Result<()> {
    match fs::hard_link(from, to) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(seq: u64, completed: u64) -> Cut {
        Cut {
            seq,
            term: 1,
            attempt: 1,
            completed,
            last: false,
        }
    }

    /// Prepares a cut, stages it, and gives its link and its state.
    fn prepared(output: &mut OrdersOutput, cut: Cut) -> (ChainLink, Vec<u8>) {
        let jobs = output.prepare(cut).unwrap();
        let staged = jobs.stage.unwrap()().unwrap();
        let mut state = Vec::new();
        jobs.state.unwrap()(&mut state).unwrap();
        let name = staged_name(&staged).unwrap();
        let path = output.folder.staged().join(format!("{name}.json"));
        (read_link(&path).unwrap().unwrap(), state)
    }

    #[test]
    fn a_published_cut_leaves_nothing_staged_and_may_be_committed_again() {
        let data = tempfile::tempdir().unwrap();
        let mut output = OrdersOutput::new(OutputFolder::new(data.path()), OutputSabotage::None);
        let jobs = output.prepare(cut(1, 0)).unwrap();
        let token = jobs.stage.unwrap()().unwrap();
        let committer = output.committer().unwrap();
        for _ in 0..2 {
            committer.commit(1, &token).unwrap();
            assert!(read_link(&output.folder.chain_file(1)).unwrap().is_some());
            assert!(output.folder.cut_file(1).exists());
            assert_eq!(fs::read_dir(output.folder.staged()).unwrap().count(), 0);
        }
        let other = committer.commit(1, b"cut-1.1.9");
        assert!(
            matches!(other, Err(OperatorError::Permanent(_))),
            "{other:?}"
        );
    }

    #[test]
    fn a_cut_follows_the_one_before_although_that_is_still_being_committed() {
        let data = tempfile::tempdir().unwrap();
        let mut output = OrdersOutput::new(OutputFolder::new(data.path()), OutputSabotage::None);
        assert_eq!(prepared(&mut output, cut(3, 1)).0.previous, 0);
        let (link, state) = prepared(&mut output, cut(4, 1));
        assert_eq!(link.previous, 3);
        prepared(&mut output, cut(5, 1));

        output.reset(&mut &state[..], 1).unwrap();
        assert_eq!(prepared(&mut output, cut(7, 4)).0.previous, 4);
        output.reset_to_initial_state().unwrap();
        assert_eq!(prepared(&mut output, cut(8, 0)).0.previous, 0);
    }
}
