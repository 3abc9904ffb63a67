//! One connection's task, and the link by which the machine's actions reach it.

use std::io;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Semaphore, mpsc, oneshot};

use super::super::machine::{ConnectionId, Event, Output};
use super::Shared;

/// Bytes that are read at once.
const READ_SIZE: usize = 64 * 1024;

/// The machine's end. Dropping it closes the connection.
#[derive(Debug)]
pub(super) struct Link {
    writes: mpsc::UnboundedSender<Output>,
    reads: Arc<Semaphore>,
    _open: oneshot::Sender<()>,
}

/// The task's end.
#[derive(Debug)]
pub(super) struct LinkEnds {
    /// Unbounded, but the machine has at most one answer a connection under way.
    writes: mpsc::UnboundedReceiver<Output>,
    reads: Arc<Semaphore>,
    closed: oneshot::Receiver<()>,
}

impl Link {
    pub(super) fn new() -> (Self, LinkEnds) {
        let (writes, outputs) = mpsc::unbounded_channel();
        // the first bytes may be read without asking
        let reads = Arc::new(Semaphore::new(1));
        let (open, closed) = oneshot::channel();
        let ends = LinkEnds {
            writes: outputs,
            reads: Arc::clone(&reads),
            closed,
        };
        let link = Self {
            writes,
            reads,
            _open: open,
        };
        (link, ends)
    }

    pub(super) fn write(&self, output: Output) {
        // a task that is gone has told so, or will
        let _ = self.writes.send(output);
    }

    pub(super) fn read(&self) {
        self.reads.add_permits(1);
    }
}

/// Carries bytes until either side closes.
pub(super) async fn run(shared: Arc<Shared>, id: ConnectionId, stream: TcpStream, ends: LinkEnds) {
    // answers are written whole: waiting for more to send would only delay them
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY cannot be set");
    }
    let (reader, writer) = stream.into_split();
    let LinkEnds {
        writes,
        reads,
        closed,
    } = ends;
    tokio::select! {
        _ = closed => {}
        _ = read(&shared, id, reader, &reads) => {}
        _ = write(&shared, id, writer, writes) => {}
    }
    shared.lock().links.remove(&id);
    shared.step(Event::Disconnected { id });
}

async fn read(
    shared: &Shared,
    id: ConnectionId,
    mut reader: OwnedReadHalf,
    reads: &Semaphore,
) -> io::Result<()> {
    let mut buffer = BytesMut::with_capacity(READ_SIZE);
    // the semaphore is never closed
    while let Ok(permit) = reads.acquire().await {
        permit.forget();
        buffer.reserve(READ_SIZE);
        if reader.read_buf(&mut buffer).await? == 0 {
            break;
        }
        let bytes = buffer.split().freeze();
        shared.step(Event::Received { id, bytes });
    }
    Ok(())
}

async fn write(
    shared: &Shared,
    id: ConnectionId,
    mut writer: OwnedWriteHalf,
    mut writes: mpsc::UnboundedReceiver<Output>,
) -> io::Result<()> {
    while let Some(output) = writes.recv().await {
        if !output.delay.is_zero() {
            tokio::time::sleep(output.delay).await;
        }
        match output.pieces {
            None => writer.write_all(&output.bytes).await?,
            Some((size, pause)) => write_pieces(&mut writer, output.bytes, size, pause).await?,
        }
        if output.then_close {
            writer.shutdown().await?;
            break;
        }
        shared.step(Event::Written { id });
    }
    Ok(())
}

async fn write_pieces(
    writer: &mut OwnedWriteHalf,
    mut bytes: Bytes,
    size: usize,
    pause: std::time::Duration,
) -> io::Result<()> {
    while !bytes.is_empty() {
        let piece = bytes.split_to(size.min(bytes.len()));
        writer.write_all(&piece).await?;
        tokio::time::sleep(pause).await;
    }
    Ok(())
}
