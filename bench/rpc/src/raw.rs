//! The bare connection: MessagePack frames behind a length, answers paired by number. No actor, no deadline, no
//! limit, no session: what the bytes themselves cost.

use std::cell::{Cell as Count, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, oneshot};

use bench_harness::cell::{Cell, Outcome, Peer};
use bench_harness::{Failure, parent_gone, runtime, tell_ready};

#[derive(Serialize, Deserialize)]
struct Frame<'a> {
    number: u64,
    kind: u8,
    #[serde(borrow, with = "serde_bytes")]
    body: &'a [u8],
}

const ECHO: u8 = 0;
const NOTE: u8 = 1;
const COUNT: u8 = 2;

fn put(out: &mut Vec<u8>, frame: &Frame<'_>) -> Result<(), Failure> {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    rmp_serde::encode::write(out, frame)?;
    let size = u32::try_from(out.len() - start - 4)?;
    out[start..start + 4].copy_from_slice(&size.to_be_bytes());
    Ok(())
}

/// Bytes that were read, and how far they were looked at.
#[derive(Default)]
struct Inbox {
    bytes: Vec<u8>,
    at: usize,
}

impl Inbox {
    /// Reads more; false at the end.
    async fn fill(&mut self, reader: &mut (impl AsyncReadExt + Unpin)) -> Result<bool, Failure> {
        self.bytes.drain(..self.at);
        self.at = 0;
        self.bytes.reserve(256 * 1024);
        Ok(reader.read_buf(&mut self.bytes).await? > 0)
    }

    /// The next whole frame's body.
    fn next(&mut self) -> Option<&[u8]> {
        let rest = &self.bytes[self.at..];
        let size = u32::from_be_bytes(*rest.first_chunk::<4>()?);
        let end = 4 + usize::try_from(size).ok()?;
        let frame = rest.get(4..end)?;
        self.at += end;
        Some(frame)
    }
}

pub fn serve() -> Result<(), Failure> {
    parent_gone();
    runtime()?.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        tell_ready(listener.local_addr()?);
        loop {
            let (stream, _) = listener.accept().await?;
            answer(stream).await?;
        }
    })
}

async fn answer(stream: TcpStream) -> Result<(), Failure> {
    stream.set_nodelay(true)?;
    let (mut reader, mut writer) = stream.into_split();
    let (mut inbox, mut out, mut notes) = (Inbox::default(), Vec::new(), 0_u64);
    while inbox.fill(&mut reader).await? {
        while let Some(bytes) = inbox.next() {
            let frame: Frame<'_> = rmp_serde::from_slice(bytes)?;
            match frame.kind {
                ECHO => put(&mut out, &frame)?,
                NOTE => notes += 1,
                _ => put(
                    &mut out,
                    &Frame {
                        body: &notes.to_be_bytes(),
                        ..frame
                    },
                )?,
            }
        }
        writer.write_all(&out).await?;
        out.clear();
    }
    Ok(())
}

struct Raw(Rc<Shared>);

#[derive(Default)]
struct Shared {
    out: RefCell<Vec<u8>>,
    filled: Notify,
    waiting: RefCell<HashMap<u64, oneshot::Sender<Vec<u8>>>>,
    next: Count<u64>,
}

/// Notes that wait for the socket, in bytes.
const ROOM: usize = 4 << 20;

impl Raw {
    fn send(&self, kind: u8, body: &[u8]) -> Result<u64, Failure> {
        let number = self.0.next.get();
        self.0.next.set(number + 1);
        put(&mut self.0.out.borrow_mut(), &Frame { number, kind, body })?;
        self.0.filled.notify_one();
        Ok(number)
    }

    async fn ask(&self, kind: u8, body: &[u8]) -> Result<Vec<u8>, Failure> {
        let number = self.send(kind, body)?;
        let (sender, answer) = oneshot::channel();
        self.0.waiting.borrow_mut().insert(number, sender);
        Ok(answer.await?)
    }
}

impl Peer for Raw {
    async fn echo(&self, payload: Vec<u8>) -> Result<usize, Failure> {
        Ok(self.ask(ECHO, &payload).await?.len())
    }

    fn note(&self, payload: &[u8]) -> Result<bool, Failure> {
        if self.0.out.borrow().len() > ROOM {
            return Ok(false);
        }
        self.send(NOTE, payload).map(|_| true)
    }

    async fn count(&self) -> Result<u64, Failure> {
        let answer = self.ask(COUNT, &[]).await?;
        Ok(u64::from_be_bytes(answer[..].try_into()?))
    }
}

pub fn measure(address: &str, cell: &Cell) -> Result<Outcome, Failure> {
    let local = tokio::task::LocalSet::new();
    let work = async {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (mut reader, mut writer) = stream.into_split();
        let shared = Rc::new(Shared::default());
        let writing = Rc::clone(&shared);
        tokio::task::spawn_local(async move {
            loop {
                writing.filled.notified().await;
                let out = std::mem::take(&mut *writing.out.borrow_mut());
                if writer.write_all(&out).await.is_err() {
                    return;
                }
            }
        });
        let reading = Rc::clone(&shared);
        tokio::task::spawn_local(async move {
            let mut inbox = Inbox::default();
            while matches!(inbox.fill(&mut reader).await, Ok(true)) {
                while let Some(bytes) = inbox.next() {
                    let Ok(frame) = rmp_serde::from_slice::<Frame<'_>>(bytes) else {
                        return;
                    };
                    if let Some(waiting) = reading.waiting.borrow_mut().remove(&frame.number) {
                        let _ = waiting.send(frame.body.to_vec());
                    }
                }
            }
        });
        bench_harness::cell::measure(Raw(shared), cell).await
    };
    local.block_on(&runtime()?, work)
}
