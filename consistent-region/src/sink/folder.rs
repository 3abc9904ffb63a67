//! The folder of a file sink: staged files, published files, and the step from one to the other.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::operator::{Committer, Cut, InstanceContext, OperatorError};

/// The sub-folder for files that are not published.
const STAGED: &str = "staged";

/// Where one instance of a sink puts its files.
#[derive(Debug, Clone)]
pub(crate) struct SinkFolder {
    pub(crate) folder: PathBuf,
    pub(crate) prefix: String,
    /// Ends the names of the published files; tells the instances of a wide sink apart.
    pub(crate) suffix: String,
    /// Begins the names of the staged files of this instance, and of no other.
    pub(crate) staged_prefix: String,
    pub(crate) takes_back: bool,
}

/// What a cut's manifest says of a staged file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Token {
    staged: String,
    published: String,
    length: u64,
    crc32: u32,
}

impl SinkFolder {
    /// The part of `folder` that belongs to the instance of `context`.
    pub(crate) fn of(
        context: &InstanceContext,
        folder: PathBuf,
        prefix: &str,
        suffix: &str,
    ) -> Self {
        let instance = context.instance();
        let suffix = match context.width() {
            1 => suffix.to_owned(),
            _ => format!("-{}{suffix}", instance.index),
        };
        Self {
            folder,
            prefix: prefix.to_owned(),
            suffix,
            staged_prefix: format!("{}-{}.", instance.operator, instance.index),
            takes_back: true,
        }
    }

    /// The name that only this attempt at `cut` has.
    pub(crate) fn staged_name(&self, cut: Cut) -> String {
        let Cut {
            seq, term, attempt, ..
        } = cut;
        format!("{}{seq}.{term}.{attempt}", self.staged_prefix)
    }

    /// Writes a file and makes it durable, unpublished.
    pub(crate) fn stage(
        &self,
        seq: u64,
        staged: String,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<Vec<u8>> {
        let folder = self.folder.join(STAGED);
        fs::create_dir_all(&folder)?;
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(folder.join(&staged))?;
        let mut writer = Summing {
            to: BufWriter::new(file),
            length: 0,
            hasher: <_>::default(),
        };
        write(&mut writer)?;
        let Summing { to, length, hasher } = writer;
        to.into_inner()
            .map_err(|error| error.into_error())?
            .sync_all()?;
        sync_folder(&folder)?;
        let published = self.published_name(seq);
        let token = Token {
            staged,
            published,
            length,
            crc32: hasher.finalize(),
        };
        Ok(serde_json::to_vec(&token)?)
    }

    fn published_name(&self, seq: u64) -> String {
        format!("{}{seq}{}", self.prefix, self.suffix)
    }

    /// The cut of a published file of this instance.
    fn seq_of(&self, name: &str) -> Option<u64> {
        name.strip_prefix(&self.prefix)?
            .strip_suffix(&self.suffix)?
            .parse()
            .ok()
    }

    fn names(folder: &Path) -> io::Result<Vec<OsString>> {
        match fs::read_dir(folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
            Ok(entries) => entries.map(|entry| Ok(entry?.file_name())).collect(),
        }
    }

    /// Whether the published file is what the token says; `None` when there is none.
    fn published_matches(&self, token: &Token) -> io::Result<Option<bool>> {
        let mut file = match File::open(self.folder.join(&token.published)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        let mut hasher = crc32fast::Hasher::new();
        let mut length = 0_u64;
        let mut buffer = vec![0; 64 * 1024];
        loop {
            match file.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => {
                    hasher.update(&buffer[..count]);
                    length += u64::try_from(count).unwrap_or(0);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Some(
            length == token.length && hasher.finalize() == token.crc32,
        ))
    }

    fn another(&self, token: &Token) -> OperatorError {
        OperatorError::Permanent(format!(
            "{} holds the output of another attempt: it is not replaced",
            self.folder.join(&token.published).display()
        ))
    }
}

impl Committer for SinkFolder {
    fn commit(&self, _seq: u64, token: &[u8]) -> Result<(), OperatorError> {
        let token: Token = serde_json::from_slice(token).map_err(|error| {
            OperatorError::Permanent(format!("the token is none of a file sink: {error}"))
        })?;
        let staged = self.folder.join(STAGED).join(&token.staged);
        // Created if absent and never renamed over: two attempts can't both win.
        match fs::hard_link(&staged, self.folder.join(&token.published)) {
            Ok(()) => {}
            Err(error)
                if matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::NotFound) =>
            {
                match self.published_matches(&token)? {
                    Some(true) => {}
                    Some(false) => return Err(self.another(&token)),
                    None => {
                        return Err(OperatorError::Permanent(format!(
                            "{} is gone, and {} was never published",
                            staged.display(),
                            token.published
                        )));
                    }
                }
            }
            Err(error) => return Err(error.into()),
        }
        sync_folder(&self.folder)?;
        remove(&staged)?;
        Ok(())
    }

    fn can_take_back(&self) -> bool {
        self.takes_back
    }

    fn take_back_above(&self, seq: u64) -> Result<(), OperatorError> {
        if !self.takes_back {
            return Ok(());
        }
        let mut taken = false;
        for name in Self::names(&self.folder)? {
            let of = name.to_str().and_then(|name| self.seq_of(name));
            if of.is_some_and(|of| of > seq) {
                remove(&self.folder.join(name))?;
                taken = true;
            }
        }
        if taken {
            sync_folder(&self.folder)?;
        }
        Ok(())
    }

    fn abort_all_except(&self, retained: &[Vec<u8>]) -> Result<(), OperatorError> {
        let kept: Vec<String> = retained
            .iter()
            .filter_map(|token| serde_json::from_slice::<Token>(token).ok())
            .map(|token| token.staged)
            .collect();
        let folder = self.folder.join(STAGED);
        for name in Self::names(&folder)? {
            let own = name
                .to_str()
                .filter(|name| name.starts_with(&self.staged_prefix));
            if own.is_some_and(|name| !kept.iter().any(|kept| kept == name)) {
                remove(&folder.join(name))?;
            }
        }
        Ok(())
    }
}

/// Counts and sums up what is written.
struct Summing<W> {
    to: W,
    length: u64,
    hasher: crc32fast::Hasher,
}

impl<W: Write> Write for Summing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.to.write(bytes)?;
        self.hasher.update(&bytes[..count]);
        self.length += u64::try_from(count).unwrap_or(0);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// A name is durable only when its folder is.
fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sink(folder: &Path) -> SinkFolder {
        SinkFolder {
            folder: folder.to_owned(),
            prefix: "cut-".to_owned(),
            suffix: ".txt".to_owned(),
            staged_prefix: "sink-0.".to_owned(),
            takes_back: true,
        }
    }

    fn stage(sink: &SinkFolder, seq: u64, attempt: u64, text: &str) -> Vec<u8> {
        let staged = format!("sink-0.{seq}.1.{attempt}");
        sink.stage(seq, staged, |to| to.write_all(text.as_bytes()))
            .unwrap()
    }

    fn staged(folder: &Path) -> usize {
        fs::read_dir(folder.join(STAGED)).unwrap().count()
    }

    #[test]
    fn s27_a_commit_publishes_once_and_repeating_it_does_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let sink = sink(folder.path());
        let token = stage(&sink, 7, 1, "seven");
        assert!(
            !folder.path().join("cut-7.txt").exists(),
            "staged is not published"
        );
        for _ in 0..2 {
            sink.commit(7, &token).unwrap();
            assert_eq!(
                fs::read_to_string(folder.path().join("cut-7.txt")).unwrap(),
                "seven"
            );
        }
        assert_eq!(staged(folder.path()), 0);
    }

    #[test]
    fn s27_a_commit_never_replaces_what_another_attempt_published() {
        let folder = tempfile::tempdir().unwrap();
        let sink = sink(folder.path());
        let (first, second) = (stage(&sink, 7, 1, "one"), stage(&sink, 7, 2, "two"));
        sink.commit(7, &second).unwrap();
        assert!(matches!(
            sink.commit(7, &first),
            Err(OperatorError::Permanent(_))
        ));
        assert_eq!(
            fs::read_to_string(folder.path().join("cut-7.txt")).unwrap(),
            "two"
        );
    }

    #[test]
    fn s27_a_token_whose_file_is_gone_is_an_error_and_no_silent_success() {
        let folder = tempfile::tempdir().unwrap();
        let sink = sink(folder.path());
        let token = stage(&sink, 7, 1, "seven");
        sink.abort_all_except(&[]).unwrap();
        assert!(matches!(
            sink.commit(7, &token),
            Err(OperatorError::Permanent(_))
        ));
        assert!(matches!(
            sink.commit(7, b"nonsense"),
            Err(OperatorError::Permanent(_))
        ));
    }

    #[test]
    fn a_reset_throws_away_what_no_retained_cut_names() {
        let folder = tempfile::tempdir().unwrap();
        let sink = sink(folder.path());
        let kept = stage(&sink, 7, 1, "seven");
        stage(&sink, 8, 1, "eight");
        fs::write(
            folder.path().join(STAGED).join("other-0.8.1.1"),
            "of another sink",
        )
        .unwrap();
        sink.abort_all_except(std::slice::from_ref(&kept)).unwrap();
        assert_eq!(staged(folder.path()), 2);
        sink.commit(7, &kept).unwrap();
    }

    #[test]
    fn a_fall_back_takes_back_the_cuts_above() {
        let folder = tempfile::tempdir().unwrap();
        let sink = sink(folder.path());
        for seq in [7, 9, 10] {
            let token = stage(&sink, seq, 1, "text");
            sink.commit(seq, &token).unwrap();
        }
        fs::write(folder.path().join("notes.txt"), "not a cut").unwrap();
        sink.take_back_above(7).unwrap();
        let left = ["cut-7.txt", "notes.txt", "cut-9.txt", "cut-10.txt"]
            .map(|name| folder.path().join(name).exists());
        assert_eq!(left, [true, true, false, false]);
    }
}
