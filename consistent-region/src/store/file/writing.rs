//! The content of an object's file: its length and checksum, and what is long is flushed while it grows.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, Scope, ScopedJoinHandle};

use super::Flush;
use crate::store::{WriteObject, Written};

/// Bytes that are written at once.
const BUFFER: usize = 256 * 1024;
/// Each time so many bytes more are written, the medium is given what there is: it works while the
/// rest is encoded, and the last flush, which is waited for, finds little left.
const AHEAD: u64 = 8 * 1024 * 1024;

/// Writes the whole content. What was written last is not flushed.
///
/// # Errors
/// Those of the writer, and of each write and flush: one that failed is never tried again as if it had
/// not.
pub(super) fn write(file: &File, flush: &Flush, write: WriteObject<'_>) -> io::Result<Written> {
    thread::scope(|scope| {
        let mut measured = Measured::new(file, Ahead::new(scope, file, flush));
        let mut writer = BufWriter::with_capacity(BUFFER, &mut measured);
        write(&mut writer)?;
        writer
            .into_inner()
            .map_err(io::IntoInnerError::into_error)?;
        measured.finish()
    })
}

/// Takes length and checksum of what goes into a file.
struct Measured<'scope, 'env> {
    file: &'env File,
    ahead: Ahead<'scope, 'env>,
    length: u64,
    hasher: crc32fast::Hasher,
    /// What failed once is not tried again.
    failed: bool,
}

impl<'scope, 'env> Measured<'scope, 'env> {
    fn new(file: &'env File, ahead: Ahead<'scope, 'env>) -> Self {
        Self {
            file,
            ahead,
            length: 0,
            hasher: crc32fast::Hasher::new(),
            failed: false,
        }
    }

    fn finish(self) -> io::Result<Written> {
        self.ahead.finish()?;
        if self.failed {
            // Its writer took no notice.
            return Err(failed_before());
        }
        Ok(Written {
            length: self.length,
            crc32: self.hasher.finalize(),
        })
    }
}

fn failed_before() -> io::Error {
    io::Error::other("an earlier write of this object failed")
}

impl Write for Measured<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.failed {
            return Err(failed_before());
        }
        let count = self.file.write(bytes).inspect_err(|error| {
            self.failed = error.kind() != io::ErrorKind::Interrupted;
        })?;
        self.hasher.update(&bytes[..count]);
        self.length = self
            .length
            .saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
        self.ahead.written(self.length);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Flushes a file that grows, on a thread of its own, which begins with the first [`AHEAD`] bytes.
struct Ahead<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    file: &'env File,
    flush: &'env Flush,
    /// The length at which the next flush is due.
    due: u64,
    thread: Option<Flusher<'scope>>,
}

struct Flusher<'scope> {
    wanted: SyncSender<()>,
    flushed: ScopedJoinHandle<'scope, io::Result<()>>,
}

impl<'scope, 'env> Ahead<'scope, 'env> {
    fn new(scope: &'scope Scope<'scope, 'env>, file: &'env File, flush: &'env Flush) -> Self {
        Self {
            scope,
            file,
            flush,
            due: AHEAD,
            thread: None,
        }
    }

    /// The file has this length now.
    fn written(&mut self, length: u64) {
        if length < self.due {
            return;
        }
        self.due = length.saturating_add(AHEAD);
        if self.thread.is_none() {
            self.thread = self.start();
        }
        if let Some(thread) = &self.thread {
            // Full: a flush is wanted already, and will find these bytes too.
            let _ = thread.wanted.try_send(());
        }
    }

    /// `None` without a thread to be had: the last flush does it all.
    fn start(&self) -> Option<Flusher<'scope>> {
        let (wanted, wishes) = sync_channel(1);
        let (file, flush) = (self.file, self.flush);
        let flushed = thread::Builder::new()
            .name("flush-ahead".to_owned())
            .spawn_scoped(self.scope, move || {
                wishes.into_iter().try_for_each(|()| flush.file(file))
            });
        let flushed = flushed.ok()?;
        Some(Flusher { wanted, flushed })
    }

    /// Waits for the flush that is under way.
    ///
    /// # Errors
    /// When one failed: the kernel may say so only once, and what it dropped is not in the file.
    fn finish(self) -> io::Result<()> {
        let Some(Flusher { wanted, flushed }) = self.thread else {
            return Ok(());
        };
        drop(wanted);
        match flushed.join() {
            Ok(result) => result,
            Err(_) => Err(io::Error::other("a flush panicked")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn megabytes(count: u64) -> impl FnMut(&mut dyn Write) -> io::Result<()> {
        let block = vec![7; 1024 * 1024];
        move |to| (0..count).try_for_each(|_| to.write_all(&block))
    }

    #[test]
    fn what_is_long_is_flushed_while_it_grows_and_what_is_short_is_not() {
        for (length, flushed) in [(7, false), (100, true)] {
            let file = tempfile::tempfile().unwrap();
            let flushes = Arc::new(AtomicUsize::new(0));
            let count = Arc::clone(&flushes);
            let flush = Flush(Arc::new(move |_| {
                count.fetch_add(1, Ordering::SeqCst);
                Ok(())
            }));
            let written = write(&file, &flush, &mut megabytes(length)).unwrap();
            assert_eq!(written.length, length * 1024 * 1024);
            assert_eq!(file.metadata().unwrap().len(), written.length);
            assert_eq!(flushes.load(Ordering::SeqCst) > 0, flushed);
        }
    }

    /// The kernel tells of pages that it dropped once, and says yes to whoever asks again.
    #[test]
    fn a_flush_that_failed_on_the_way_is_not_forgotten() {
        let file = tempfile::tempfile().unwrap();
        let flushes = AtomicUsize::new(0);
        let flush = Flush(Arc::new(move |_| {
            match flushes.fetch_add(1, Ordering::SeqCst) {
                0 => Err(rustix::io::Errno::IO.into()),
                _ => Ok(()),
            }
        }));
        let failed = write(&file, &flush, &mut megabytes(40));
        assert_eq!(
            failed.unwrap_err().raw_os_error(),
            Some(rustix::io::Errno::IO.raw_os_error())
        );
    }

    /// `/dev/full` fails each write.
    #[test]
    fn a_failed_write_is_not_forgotten_when_its_writer_does_not_look() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let flush = Flush(Arc::new(File::sync_all));
        let failed = write(&full, &flush, &mut |to| {
            assert!(to.write_all(&vec![0; 2 * BUFFER]).is_err());
            Ok(())
        });
        assert!(failed.is_err());
    }
}
