//! The [`Transport`] of a service over TCP.

use std::sync::{Arc, Mutex, PoisonError};

use futures_core::future::BoxFuture;
use lockkeeper_core::transport::{ConnectRequest, RemoteSession, Transport};
use lockkeeper_core::{Authority, RpcError};
use tokio::task::JoinHandle;

use crate::io::Io;
use crate::session::Session;
use crate::shared::Shared;
use crate::wire::Farewell;

/// Connections and listener of one service, and where they live.
#[derive(Debug)]
pub(crate) struct TcpTransport {
    shared: Arc<Shared>,
    io: Arc<Io>,
    /// The accepting task, until a shutdown awaits its end.
    accepting: Mutex<Option<JoinHandle<Option<()>>>>,
}

impl TcpTransport {
    pub(crate) fn new(shared: Arc<Shared>, io: Io, accepting: JoinHandle<Option<()>>) -> Self {
        Self {
            shared,
            io: Arc::new(io),
            accepting: Mutex::new(Some(accepting)),
        }
    }
}

impl TcpTransport {
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}

impl Transport for TcpTransport {
    fn authority(&self) -> Authority {
        self.shared.authority.clone()
    }

    fn connect(
        &self,
        request: ConnectRequest,
    ) -> BoxFuture<'static, Result<Arc<dyn RemoteSession>, RpcError>> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            let session = Session::connect(shared, request).await?;
            Ok(Arc::new(session) as Arc<dyn RemoteSession>)
        })
    }

    fn shutdown(&self) -> BoxFuture<'static, ()> {
        let shared = Arc::clone(&self.shared);
        let io = Arc::clone(&self.io);
        let accepting = self
            .accepting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        Box::pin(async move {
            shared.shut.cancel();
            if let Some(accepting) = accepting {
                // Then the port is free. A panic of that task has freed it too.
                let _ = accepting.await;
            }
            let links = shared.peers.all();
            for link in &links {
                link.retire(Farewell::Shutdown, "the service shuts down");
            }
            let all_closed = async {
                for link in &links {
                    link.closed().await;
                }
            };
            let limit = shared.settings.shutdown_timeout;
            if tokio::time::timeout(limit, all_closed).await.is_err() {
                tracing::warn!(
                    ?limit,
                    "connections with calls under way are cut at shutdown"
                );
            }
            io.stop();
        })
    }
}
