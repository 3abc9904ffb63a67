//! An open connection: the session machine with a socket.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::time::{Duration, Instant};

use futures_core::Stream as _;
use futures_util::{Sink as _, SinkExt as _};
use tokio::net::TcpStream;
use tokio_util::codec::Framed;

use crate::error::{CanalError, SessionPhase};
use crate::message::Message;
use crate::protocol::frame::{FrameCodec, FrameError};
use crate::session::{Action, Done, Event, Request, Session, SessionConfig};

/// The session machine with a socket.
///
/// Dropping the future of [`fetch`](Self::fetch) or [`probe`](Self::probe) harms nothing: what the
/// request brings is kept for the next call.
#[derive(Debug)]
pub(super) struct Connection {
    transport: Framed<TcpStream, FrameCodec>,
    session: Session,
    done: VecDeque<Done>,
    fetched: VecDeque<Message>,
    /// Limit of writing what has no answer.
    write_timeout: Duration,
}

fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

impl Connection {
    /// Dials `address` and authenticates.
    pub(super) async fn open(
        address: &str,
        config: SessionConfig,
        frame_limit: usize,
        epoch: u64,
    ) -> Result<Self, CanalError> {
        let (connect_timeout, write_timeout) = (config.connect_timeout, config.request_timeout);
        let session = Session::new(config, epoch, now());
        let dial = tokio::time::timeout(connect_timeout, TcpStream::connect(address));
        let socket = match dial.await {
            Ok(Ok(socket)) => socket,
            Ok(Err(error)) => return Err(CanalError::Unreachable(format!("{address}: {error}"))),
            Err(_) => {
                return Err(CanalError::Timeout {
                    phase: SessionPhase::Dial,
                    after: connect_timeout,
                });
            }
        };
        // A failure only costs latency.
        let _ = socket.set_nodelay(true);
        let mut connection = Self {
            transport: Framed::new(socket, FrameCodec::new(frame_limit)),
            session,
            done: VecDeque::new(),
            fetched: VecDeque::new(),
            write_timeout,
        };
        connection.feed(Event::Connected)?;
        connection
            .wait_for(|done| matches!(done, Done::Authenticated))
            .await?;
        Ok(connection)
    }

    /// This side's address.
    pub(super) fn local_address(&self) -> Option<SocketAddr> {
        self.transport.get_ref().local_addr().ok()
    }

    /// The machine.
    pub(super) fn session(&self) -> &Session {
        &self.session
    }

    /// Subscribes and rolls back.
    pub(super) async fn subscribe(&mut self, filter: String) -> Result<(), CanalError> {
        self.fetched.clear();
        self.request(Request::Subscribe { filter })?;
        self.wait_for(|done| matches!(done, Done::Subscribed)).await
    }

    /// Gives up the subscription.
    pub(super) async fn unsubscribe(&mut self) -> Result<(), CanalError> {
        self.request(Request::Unsubscribe)?;
        self.wait_for(|done| matches!(done, Done::Unsubscribed))
            .await?;
        self.fetched.clear();
        Ok(())
    }

    /// The next batch.
    pub(super) async fn fetch(
        &mut self,
        fetch_size: u32,
        timeout: Option<Duration>,
    ) -> Result<Option<Message>, CanalError> {
        if let Some(message) = self.fetched.pop_front() {
            return Ok(Some(message));
        }
        if !self.session.get_in_flight() {
            self.request(Request::Get {
                fetch_size,
                timeout,
            })?;
        }
        self.wait_for(|done| matches!(done, Done::Fetched(None)))
            .await?;
        Ok(self.fetched.pop_front())
    }

    /// Asks for the next batch and does not wait for it: the next [`fetch`](Self::fetch) does.
    pub(super) async fn ask(&mut self, fetch_size: u32) -> Result<(), CanalError> {
        if self.fetched.is_empty() && !self.session.get_in_flight() {
            self.request(Request::Get {
                fetch_size,
                timeout: None,
            })?;
        }
        self.flush(now() + self.write_timeout).await
    }

    /// Acknowledgement or rollback: sent when this returns, confirmed by a later answer.
    pub(super) async fn send_silent(&mut self, request: Request) -> Result<(), CanalError> {
        let rollback = !matches!(request, Request::Acknowledge(_));
        self.request(request)?;
        if rollback {
            self.fetched.clear();
        }
        self.flush(now() + self.write_timeout).await
    }

    /// Waits for an answer to everything that was sent.
    pub(super) async fn probe(&mut self) -> Result<(), CanalError> {
        self.request(Request::Probe)?;
        let number = self.session.last_probe();
        self.wait_for(|done| *done == Done::Probed(number)).await
    }

    /// Looks, without waiting, whether the server has closed the connection or sent an error.
    pub(super) fn check(&mut self) -> Result<(), CanalError> {
        let waker = std::task::Waker::noop();
        let mut context = std::task::Context::from_waker(waker);
        while let std::task::Poll::Ready(item) =
            Pin::new(&mut self.transport).poll_next(&mut context)
        {
            let event = self.event(item);
            self.feed(event)?;
        }
        Ok(())
    }

    /// Ends the connection in order.
    pub(super) async fn close(mut self) {
        let limit = self.write_timeout;
        // The server notices the end of the connection also if this fails.
        let _ = tokio::time::timeout(limit, self.transport.close()).await;
    }

    fn request(&mut self, request: Request) -> Result<(), CanalError> {
        let actions = self.session.request(now(), request)?;
        self.carry_out(actions)
    }

    fn feed(&mut self, event: Event) -> Result<(), CanalError> {
        let actions = self.session.step(now(), event);
        self.carry_out(actions)
    }

    fn carry_out(&mut self, actions: Vec<Action>) -> Result<(), CanalError> {
        for action in actions {
            match action {
                // Into the buffer; the next flush writes it. Nothing is half sent when a caller
                // drops its future.
                Action::Send(packet) => Pin::new(&mut self.transport)
                    .start_send(packet)
                    .map_err(|error| self.transport_error(error))?,
                Action::Done(Done::Fetched(Some(message))) => {
                    self.fetched.push_back(message);
                    self.done.push_back(Done::Fetched(None));
                }
                Action::Done(done) => self.done.push_back(done),
                Action::Close(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn wait_for(&mut self, wanted: impl Fn(&Done) -> bool) -> Result<(), CanalError> {
        loop {
            while let Some(done) = self.done.pop_front() {
                if wanted(&done) {
                    return Ok(());
                }
            }
            let deadline = self
                .session
                .deadline()
                .unwrap_or_else(|| now() + self.write_timeout);
            self.flush(deadline).await?;
            let next = poll_fn(|context| Pin::new(&mut self.transport).poll_next(context));
            let event = match tokio::time::timeout_at(deadline.into(), next).await {
                Ok(item) => self.event(item),
                Err(_) => Event::Tick,
            };
            self.feed(event)?;
        }
    }

    async fn flush(&mut self, deadline: Instant) -> Result<(), CanalError> {
        match tokio::time::timeout_at(deadline.into(), self.transport.flush()).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(self.transport_error(error)),
            Err(_) => Err(CanalError::Timeout {
                phase: self.session.phase(),
                after: self.write_timeout,
            }),
        }
    }

    fn event(&self, item: Option<Result<bytes::Bytes, FrameError>>) -> Event {
        match item {
            Some(Ok(frame)) => Event::Received(frame),
            Some(Err(error)) => Event::Failed(self.transport_error(error)),
            None => Event::Failed(self.closed(match self.session.phase() {
                SessionPhase::Authentication => {
                    "the server closed the connection; it may not have understood the password"
                }
                _ => "the server closed the connection",
            })),
        }
    }

    fn transport_error(&self, error: FrameError) -> CanalError {
        match error {
            FrameError::TooLarge { length, limit } => CanalError::FrameTooLarge { length, limit },
            FrameError::Negative(_) => CanalError::Protocol(error.to_string()),
            FrameError::Io(error) => self.closed(&error.to_string()),
        }
    }

    fn closed(&self, reason: &str) -> CanalError {
        CanalError::Closed {
            phase: self.session.phase(),
            reason: reason.to_owned(),
        }
    }
}
