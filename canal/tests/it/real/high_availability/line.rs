//! A line to a server that can be cut, so that it is gone, or held, so that nothing passes.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::cluster::HANG;

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    Whole,
    Held,
    Cut,
}

/// The line.
pub(super) struct Line {
    pub(super) address: String,
    state: watch::Sender<State>,
    /// Bytes that came from the server.
    answered: watch::Receiver<u64>,
}

impl Line {
    pub(super) async fn to(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (state, seen) = watch::channel(State::Whole);
        let (count, answered) = watch::channel(0);
        let server = server.to_owned();
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                tokio::spawn(carry(near, server.clone(), seen.clone(), count.clone()));
            }
        });
        Self {
            address,
            state,
            answered,
        }
    }

    /// Connections end, and new ones do at once.
    pub(super) fn cut(&self) {
        self.state.send_replace(State::Cut);
    }

    /// What either side says waits.
    pub(super) fn hold(&self) {
        self.state.send_replace(State::Held);
    }

    pub(super) fn mend(&self) {
        self.state.send_replace(State::Whole);
    }

    /// Mends it, and waits until the server has said something to what waited.
    pub(super) async fn mend_and_hear(&self) {
        let mut answered = self.answered.clone();
        answered.mark_unchanged();
        self.mend();
        let heard = tokio::time::timeout(HANG, answered.changed()).await;
        heard.expect("the server answers").unwrap();
    }
}

async fn carry(
    near: TcpStream,
    server: String,
    mut state: watch::Receiver<State>,
    answered: watch::Sender<u64>,
) {
    if *state.borrow() == State::Cut {
        return;
    }
    let Ok(far) = TcpStream::connect(server).await else {
        return;
    };
    let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
    let there = forward(near_in, far_out, state.clone(), |_| {});
    let back = forward(far_in, near_out, state.clone(), |count| {
        answered.send_modify(|answered| *answered += count);
    });
    tokio::select! {
        () = async { tokio::join!(there, back); } => {}
        _ = state.wait_for(|state| *state == State::Cut) => {}
    }
}

async fn forward(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut state: watch::Receiver<State>,
    count: impl Fn(u64),
) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        count(u64::try_from(length).unwrap());
        // It ends with the test.
        let _ = state.wait_for(|state| *state != State::Held).await;
        if to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}
