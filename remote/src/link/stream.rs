//! What a connection's bytes go through: a socket, with or without something around it.

use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use futures_util::Stream as _;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::codec::FramedRead;

use crate::wire::{Frame, FrameCodec, WireError};

/// A stream of bytes in both directions.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// A connection's stream, whatever it is made of.
pub(crate) type BoxStream = Box<dyn Stream>;

/// Bytes of the read buffer to begin with.
const READ_BUFFER: usize = 16 * 1024;

/// Reads frames from a stream and writes bytes to it, from one task.
pub(super) struct FrameStream {
    frames: FramedRead<BoxStream, FrameCodec>,
    /// The stream may hold bytes back, as TLS does, until it is flushed.
    unflushed: bool,
}

/// What a stream was ready for.
pub(super) enum Ready {
    Read(Option<Result<Frame, WireError>>),
    Wrote(std::io::Result<usize>),
    /// All that was written has left.
    Flushed,
}

impl FrameStream {
    pub(super) fn new(stream: BoxStream, codec: FrameCodec) -> Self {
        Self {
            frames: FramedRead::with_capacity(stream, codec, READ_BUFFER),
            unflushed: false,
        }
    }

    /// The next frame, or else progress with writing `unsent`.
    pub(super) fn poll(&mut self, unsent: &[u8], cx: &mut Context<'_>) -> Poll<Ready> {
        if let Poll::Ready(frame) = Pin::new(&mut self.frames).poll_next(cx) {
            return Poll::Ready(Ready::Read(frame));
        }
        if !unsent.is_empty() {
            return self.poll_write(unsent, cx).map(Ready::Wrote);
        }
        if self.unflushed {
            return match ready!(self.poll_flush(cx)) {
                Ok(()) => Poll::Ready(Ready::Flushed),
                Err(error) => Poll::Ready(Ready::Wrote(Err(error))),
            };
        }
        Poll::Pending
    }

    /// A frame that is in the buffer or the socket already.
    pub(super) fn try_read(&mut self) -> Option<Option<Result<Frame, WireError>>> {
        let cx = &mut Context::from_waker(Waker::noop());
        match Pin::new(&mut self.frames).poll_next(cx) {
            Poll::Ready(frame) => Some(frame),
            Poll::Pending => None,
        }
    }

    /// Writes what the stream takes without waiting; `None` if that is nothing. Who gets it has to
    /// [`poll`](Self::poll) to be woken.
    pub(super) fn try_write(&mut self, unsent: &[u8]) -> Option<std::io::Result<usize>> {
        let cx = &mut Context::from_waker(Waker::noop());
        match self.poll_write(unsent, cx) {
            Poll::Ready(wrote) => Some(wrote),
            Poll::Pending => None,
        }
    }

    /// Flushes as far as that goes without waiting.
    pub(super) fn try_flush(&mut self) {
        if self.unflushed {
            let cx = &mut Context::from_waker(Waker::noop());
            // An error comes again with the next read or write.
            let _ = self.poll_flush(cx);
        }
    }

    pub(super) fn poll_write(
        &mut self,
        unsent: &[u8],
        cx: &mut Context<'_>,
    ) -> Poll<std::io::Result<usize>> {
        let wrote = ready!(Pin::new(self.frames.get_mut()).poll_write(cx, unsent));
        self.unflushed = true;
        Poll::Ready(match wrote {
            Ok(0) => Err(std::io::ErrorKind::WriteZero.into()),
            wrote => wrote,
        })
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        ready!(Pin::new(self.frames.get_mut()).poll_flush(cx))?;
        self.unflushed = false;
        Poll::Ready(Ok(()))
    }

    /// Bytes of the frames that were read since this was called last.
    pub(super) fn take_received(&mut self) -> u64 {
        self.frames.decoder_mut().take_decoded()
    }

    pub(super) fn get_mut(&mut self) -> &mut BoxStream {
        self.frames.get_mut()
    }
}
