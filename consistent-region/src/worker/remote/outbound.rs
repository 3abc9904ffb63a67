//! The streams that leave this worker: one frame in flight on each channel, sent until it is taken.

use std::time::Duration;

use lockkeeper_core::{Gateway, RpcAddress, RpcError, RpcErrorKind, RpcService};
use tokio::time::{Instant, sleep};

use crate::operator::Place;
use crate::point::Point;
use crate::stream::{Frame, Outbound, StreamRefusal};

use super::{StreamFrame, StreamGateway};

/// How long one attempt at handing over a frame may take. Back-pressure may hold it longer: then
/// it is sent again under its number.
const SEND_LIMIT: Duration = Duration::from_secs(5);
/// How long a receiver may be unreachable before the stream counts as broken.
const UNREACHABLE_LIMIT: Duration = Duration::from_secs(10);
/// Until a frame that was not taken is sent again.
const PAUSE: Duration = Duration::from_millis(20);

/// Which streams belong together: those of one attempt, to one registration of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Generation {
    pub(crate) attempt: u64,
    pub(crate) worker_epoch: u64,
}

/// A channel to another worker.
pub(crate) struct Crossing {
    pub(crate) place: Place,
    pub(crate) service: RpcService,
    pub(crate) address: String,
    pub(crate) generation: Generation,
    pub(crate) channel: u32,
}

/// Why a frame was not handed over.
enum Broken {
    /// A reset is under way or near: nothing to report.
    Over,
    Because(String),
}

/// Sends everything that comes out of `items`. Ends with a reason when the stream broke for
/// another cause than a reset.
pub(crate) async fn send_stream(
    crossing: Crossing,
    mut items: Box<dyn Outbound>,
) -> Option<String> {
    let mut sender = Sender {
        crossing,
        gateway: None,
        number: 0,
    };
    while let Some(frames) = items.next().await {
        let frames = match frames {
            Ok(frames) => frames,
            Err(error) => return Some(sender.named(&format!("can't write its tuples: {error}"))),
        };
        for frame in frames {
            match sender.hand_over(frame).await {
                Ok(()) => {}
                Err(Broken::Over) => return None,
                Err(Broken::Because(reason)) => return Some(sender.named(&reason)),
            }
        }
    }
    None
}

struct Sender {
    crossing: Crossing,
    gateway: Option<Gateway<StreamGateway>>,
    number: u64,
}

impl Sender {
    fn named(&self, reason: &str) -> String {
        format!(
            "stream {} to {}: {reason}",
            self.crossing.channel, self.crossing.address
        )
    }

    async fn hand_over(&mut self, frame: Frame) -> Result<(), Broken> {
        let Generation {
            attempt,
            worker_epoch,
        } = self.crossing.generation;
        let (channel, number) = (self.crossing.channel, self.number);
        let message = StreamFrame {
            attempt,
            worker_epoch,
            channel,
            number,
            frame,
        };
        let mut failing_since: Option<Instant> = None;
        loop {
            self.crossing
                .place
                .lease
                .check()
                .map_err(|_| Broken::Over)?;
            self.crossing.place.hook.at(Point::BetweenCheckAndHandOver);
            match self.send(message.clone()).await {
                Ok(Ok(())) => break,
                Ok(Err(StreamRefusal::NotYet)) => {}
                Ok(Err(StreamRefusal::Superseded | StreamRefusal::Closed)) => {
                    return Err(Broken::Over);
                }
                Ok(Err(refusal)) => return Err(Broken::Because(refusal.to_string())),
                // Back-pressure: the receiver lives and has no room.
                Err(error) if error.kind() == RpcErrorKind::Timeout => {}
                Err(error) if is_final(&error) => {
                    return Err(Broken::Because(error.to_string()));
                }
                Err(error) => {
                    self.gateway = None;
                    let since = *failing_since.get_or_insert_with(Instant::now);
                    if since.elapsed() > UNREACHABLE_LIMIT {
                        return Err(Broken::Because(error.to_string()));
                    }
                }
            }
            sleep(PAUSE).await;
        }
        self.number += 1;
        Ok(())
    }

    async fn send(&mut self, message: StreamFrame) -> Result<Result<(), StreamRefusal>, RpcError> {
        let gateway = match &self.gateway {
            Some(gateway) => gateway,
            None => {
                let address: RpcAddress = self.crossing.address.parse()?;
                self.gateway
                    .insert(self.crossing.service.connect(&address).await?)
            }
        };
        gateway.send(message).timeout(SEND_LIMIT).await
    }
}

/// Trying again can't help: the process was replaced, or speaks otherwise.
fn is_final(error: &RpcError) -> bool {
    matches!(
        error.kind(),
        RpcErrorKind::Restarted
            | RpcErrorKind::TooLarge
            | RpcErrorKind::Encode
            | RpcErrorKind::InvalidAddress
            | RpcErrorKind::ServiceStopped
    )
}
