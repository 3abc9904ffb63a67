//! Accepts connections, within limits on those that have not introduced themselves.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::link::{IntroductionError, Role, introduce, secure_accepted};
use crate::shared::Shared;

/// Pause after an error of `accept`, which is mostly a lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Accepts until the service shuts down.
pub(crate) async fn listen(listener: TcpListener, shared: Arc<Shared>) {
    let connections = Arc::new(Semaphore::new(shared.settings.connection_limit));
    let handshakes = Arc::new(Semaphore::new(shared.settings.handshake_limit));
    let log = Arc::clone(&shared.log);
    loop {
        let accepted = tokio::select! {
            () = shared.shut.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let (stream, socket) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                log.warn(format_args!("cannot accept a connection: {error}"));
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Ok(connection) = Arc::clone(&connections).try_acquire_owned() else {
            let limit = shared.settings.connection_limit;
            shared.refusals.count("connection_limit");
            log.warn(format_args!("{socket} closed: connection_limit is {limit}"));
            continue;
        };
        let Ok(handshake) = Arc::clone(&handshakes).try_acquire_owned() else {
            let limit = shared.settings.handshake_limit;
            shared.refusals.count("handshake_limit");
            log.warn(format_args!("{socket} closed: handshake_limit is {limit}"));
            continue;
        };
        let (shared, log) = (Arc::clone(&shared), Arc::clone(&log));
        tokio::spawn(async move {
            let greeted = greet(stream, &shared, connection);
            match tokio::time::timeout(shared.settings.handshake_timeout, greeted).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    shared.refusals.refuse(&error);
                    log.warn(format_args!("{socket} refused: {error}"));
                }
                Err(_) => {
                    let limit = shared.settings.handshake_timeout;
                    shared.refusals.count("handshake_timeout");
                    log.warn(format_args!(
                        "{socket} closed: it did not introduce itself within {limit:?}"
                    ));
                }
            }
            drop(handshake);
        });
    }
}

async fn greet(
    socket: TcpStream,
    shared: &Arc<Shared>,
    connection: OwnedSemaphorePermit,
) -> Result<(), IntroductionError> {
    socket.set_nodelay(true)?;
    let from = socket.peer_addr()?;
    let mut stream = secure_accepted(socket, &shared.security).await?;
    let (preface, security) = (&shared.preface, &shared.security);
    let theirs = introduce(&mut stream, Role::Acceptor, preface, security).await?;
    shared.adopt(stream, from, theirs, Role::Acceptor, None, Some(connection))?;
    Ok(())
}
