//! One direction of a forwarded connection.

use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::sleep;

use super::{Copies, State};
use crate::wire::{HEAD, Preface};

/// The most that is read at a time.
const PIECE: usize = 16 * 1024;

/// How far the pump understands what goes through it.
enum Stage {
    Preface,
    Frames,
    /// TLS, or something else that it does not look into.
    Opaque,
}

pub(super) async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    state: &State,
) -> std::io::Result<()> {
    let mut faults = state.faults.subscribe();
    let (mut bytes, mut stage) = (BytesMut::new(), Stage::Preface);
    loop {
        let mut piece = [0; PIECE];
        let slow = faults.borrow().bytes_per_second;
        // A tenth of a second's share at a time.
        let most = slow.map_or(PIECE, |bytes| {
            usize::try_from(bytes / 10 + 1).unwrap_or(PIECE)
        });
        let size = from.read(&mut piece[..most.min(PIECE)]).await?;
        if size == 0 {
            return to.shutdown().await;
        }
        if slow.is_some() {
            sleep(Duration::from_millis(100)).await;
        }
        let delay = faults.borrow().delay;
        if !delay.is_zero() {
            sleep(delay).await;
        }
        if faults
            .wait_for(|faults| !faults.is_half_open)
            .await
            .is_err()
        {
            return Ok(());
        }
        bytes.extend_from_slice(&piece[..size]);
        while let Some(part) = next(&mut bytes, &mut stage) {
            let copies = if part.is_message {
                state.next_message()
            } else {
                Copies::One
            };
            let times = match copies {
                Copies::None => 0,
                Copies::One => 1,
                Copies::Two => 2,
            };
            for _ in 0..times {
                to.write_all(&part.bytes).await?;
            }
        }
    }
}

struct Part {
    bytes: BytesMut,
    is_message: bool,
}

/// Takes the next whole part off the front.
fn next(bytes: &mut BytesMut, stage: &mut Stage) -> Option<Part> {
    if bytes.is_empty() {
        return None;
    }
    match stage {
        Stage::Opaque => Some(Part {
            bytes: bytes.split(),
            is_message: false,
        }),
        Stage::Preface => {
            let head = bytes.first_chunk::<HEAD>()?;
            let Ok(body) = Preface::body_length(head) else {
                *stage = Stage::Opaque;
                return next(bytes, stage);
            };
            if bytes.len() < HEAD + body {
                return None;
            }
            let part = bytes.split_to(HEAD + body);
            let preface = Preface::decode(part.clone().split_off(HEAD).freeze());
            *stage = match preface {
                // Proofs of a key come before frames.
                Ok(Preface { nonce: None, .. }) => Stage::Frames,
                _ => Stage::Opaque,
            };
            Some(Part {
                bytes: part,
                is_message: false,
            })
        }
        Stage::Frames => {
            let mut head = bytes.get(..5)?;
            let length = usize::try_from(head.get_u32()).ok()?;
            // Call, Tell, Reply, Failure.
            let is_message = matches!(head[0], 0x10..=0x13);
            (bytes.len() >= 4 + length).then(|| Part {
                bytes: bytes.split_to(4 + length),
                is_message,
            })
        }
    }
}
