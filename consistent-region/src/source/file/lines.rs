//! Lines of files, read on a blocking pool.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Place;

/// Lines and bytes that are read at once.
const CHUNK_LINES: usize = 1_000;
const CHUNK_BYTES: usize = 256 * 1024;
/// Bytes that are kept of a line that is too long.
const KEPT: usize = 4_000;

/// Where reading stands: behind `line` of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Reached {
    /// Index of the file in the whole list.
    pub(super) file: usize,
    /// The file's path, so that a list that was changed is noticed.
    pub(super) path: PathBuf,
    /// Bytes of the file that were read.
    pub(super) offset: u64,
    /// Lines that were read; 0 at the file's begin.
    pub(super) line: u64,
    /// Where the last line begins.
    pub(super) last_begins: u64,
    /// CRC-32 (IEEE) of the last line, its end included.
    pub(super) last_crc32: u32,
}

/// A line as it lies in the file.
#[derive(Debug)]
pub(super) struct RawLine {
    pub(super) reached: Reached,
    /// Without its end; only the beginning if it is too long.
    pub(super) bytes: Vec<u8>,
    pub(super) is_too_long: bool,
}

impl RawLine {
    pub(super) fn place(&self) -> Place {
        Place {
            file: self.reached.file,
            line: self.reached.line,
        }
    }
}

/// What comes after a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    /// More lines, now.
    More,
    /// The file may grow.
    Growth,
    /// Nothing.
    Nothing,
}

/// Why lines can't be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    /// It is not the file that was read before.
    #[error("{}: {what}", path.display())]
    Changed { path: PathBuf, what: String },
}

/// Reads the files of one instance.
#[derive(Debug)]
pub(super) struct Lines {
    /// The instance's files with their indices in the whole list.
    pub(super) files: Vec<(usize, PathBuf)>,
    pub(super) reached: Reached,
    pub(super) follow: bool,
    pub(super) max_line_bytes: usize,
    open: Option<BufReader<File>>,
}

impl Lines {
    pub(super) fn new(
        files: Vec<(usize, PathBuf)>,
        reached: Reached,
        follow: bool,
        max_line_bytes: usize,
    ) -> Self {
        Self {
            files,
            reached,
            follow,
            max_line_bytes,
            open: None,
        }
    }

    /// Whether the file that was read before is still the same up to where reading stands.
    pub(super) fn check(&self) -> Result<(), Fault> {
        let at = &self.reached;
        let Some((_, path)) = self.files.iter().find(|(file, _)| *file == at.file) else {
            return match at.line {
                0 => Ok(()),
                _ => Err(Fault::Changed {
                    path: at.path.clone(),
                    what: "is not in this place of the list of files any more".to_owned(),
                }),
            };
        };
        if at.line == 0 {
            return Ok(());
        }
        let changed = |what: String| Fault::Changed {
            path: path.clone(),
            what,
        };
        if *path != at.path {
            return Err(changed(format!("is where {} was", at.path.display())));
        }
        let failed = |source| Fault::Io {
            path: path.clone(),
            source,
        };
        let mut file = File::open(path).map_err(failed)?;
        let length = file.metadata().map_err(failed)?.len();
        if length < at.offset {
            return Err(changed(format!(
                "has {length} bytes, and {} were read before",
                at.offset
            )));
        }
        file.seek(SeekFrom::Start(at.last_begins)).map_err(failed)?;
        let mut hasher = crc32fast::Hasher::new();
        let mut rest = file.take(at.offset.saturating_sub(at.last_begins));
        let mut buffer = vec![0; 64 * 1024];
        loop {
            match rest.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => hasher.update(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(error)),
            }
        }
        if hasher.finalize() == at.last_crc32 {
            Ok(())
        } else {
            Err(changed(format!("has another line {}", at.line)))
        }
    }

    /// Reads some lines.
    pub(super) fn next_chunk(&mut self) -> Result<(Vec<RawLine>, After), Fault> {
        let mut lines = Vec::new();
        let mut bytes = 0;
        loop {
            if self.open.is_none() && !self.open_file()? {
                return Ok((lines, After::Nothing));
            }
            match self.read_line()? {
                Some(line) => {
                    bytes += line.bytes.len();
                    lines.push(line);
                }
                None if self.may_grow() => {
                    self.check_length()?;
                    self.open = None;
                    return Ok((lines, After::Growth));
                }
                None => {
                    self.open = None;
                    self.reached.file += 1;
                    self.reached.offset = 0;
                    self.reached.line = 0;
                }
            }
            if lines.len() >= CHUNK_LINES || bytes >= CHUNK_BYTES {
                return Ok((lines, After::More));
            }
        }
    }

    fn may_grow(&self) -> bool {
        let last = self.files.last().map(|(file, _)| *file);
        self.follow && last == Some(self.reached.file)
    }

    /// Opens the file that reading stands in, or the next one; `false` behind the last.
    fn open_file(&mut self) -> Result<bool, Fault> {
        let at = &mut self.reached;
        let Some((index, path)) = self.files.iter().find(|(file, _)| *file >= at.file) else {
            return Ok(false);
        };
        if *index > at.file {
            *at = Reached::default();
        }
        (at.file, at.path) = (*index, path.clone());
        let failed = |source| Fault::Io {
            path: path.clone(),
            source,
        };
        let mut file = File::open(path).map_err(failed)?;
        file.seek(SeekFrom::Start(at.offset)).map_err(failed)?;
        self.open = Some(BufReader::with_capacity(CHUNK_BYTES, file));
        Ok(true)
    }

    /// A file that grows never becomes shorter.
    fn check_length(&self) -> Result<(), Fault> {
        let path = &self.reached.path;
        let length = std::fs::metadata(path).map_err(|source| Fault::Io {
            path: path.clone(),
            source,
        })?;
        if length.len() >= self.reached.offset {
            return Ok(());
        }
        Err(Fault::Changed {
            path: path.clone(),
            what: format!(
                "was cut to {} bytes, and {} were read before",
                length.len(),
                self.reached.offset
            ),
        })
    }

    /// The next line; `None` at the end, and before a line that is not whole in a file that grows.
    fn read_line(&mut self) -> Result<Option<RawLine>, Fault> {
        let may_grow = self.may_grow();
        let Some(reader) = &mut self.open else {
            return Ok(None);
        };
        let path = self.reached.path.clone();
        let read = read_line(reader, self.max_line_bytes);
        let line = read.map_err(|source| Fault::Io { path, source })?;
        let Some(line) = line else {
            return Ok(None);
        };
        if !line.has_end && may_grow {
            return Ok(None);
        }
        let at = &mut self.reached;
        at.last_begins = at.offset;
        at.last_crc32 = line.crc32;
        at.offset += line.length;
        at.line += 1;
        Ok(Some(RawLine {
            reached: at.clone(),
            bytes: line.bytes,
            is_too_long: line.is_too_long,
        }))
    }
}

struct ReadLine {
    bytes: Vec<u8>,
    is_too_long: bool,
    has_end: bool,
    /// Bytes in the file, its end included.
    length: u64,
    crc32: u32,
}

/// Reads up to an end of line, in memory of at most `max` bytes.
fn read_line(reader: &mut impl BufRead, max: usize) -> io::Result<Option<ReadLine>> {
    let mut line = ReadLine {
        bytes: Vec::new(),
        is_too_long: false,
        has_end: false,
        length: 0,
        crc32: 0,
    };
    let mut hasher = crc32fast::Hasher::new();
    while !line.has_end {
        let available = match reader.fill_buf() {
            Ok(available) => available,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if available.is_empty() {
            break;
        }
        let end = available.iter().position(|byte| *byte == b'\n');
        let taken = end.map_or(available.len(), |end| end + 1);
        hasher.update(&available[..taken]);
        let content = &available[..end.unwrap_or(taken)];
        if line.is_too_long || line.bytes.len() + content.len() > max {
            let more = KEPT.min(max).saturating_sub(line.bytes.len());
            line.bytes.extend(content.iter().take(more));
            line.bytes.truncate(KEPT.min(max));
            line.is_too_long = true;
        } else {
            line.bytes.extend_from_slice(content);
        }
        line.length += taken as u64;
        line.has_end = end.is_some();
        reader.consume(taken);
    }
    if line.length == 0 {
        return Ok(None);
    }
    if line.bytes.last() == Some(&b'\r') {
        line.bytes.pop();
    }
    line.crc32 = hasher.finalize();
    Ok(Some(line))
}
