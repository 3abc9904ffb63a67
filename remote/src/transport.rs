//! The [`Transport`] of a service over TCP.

use std::sync::Arc;

use futures_core::future::BoxFuture;
use lockkeeper_core::transport::{ConnectRequest, RemoteSession, Transport};
use lockkeeper_core::{Authority, RpcError};

use crate::io_thread::IoThread;
use crate::session::Session;
use crate::shared::Shared;
use crate::wire::Farewell;

/// Connections, listener and I/O thread of one service.
#[derive(Debug)]
pub(crate) struct TcpTransport {
    shared: Arc<Shared>,
    io: Arc<IoThread>,
}

impl TcpTransport {
    pub(crate) fn new(shared: Arc<Shared>, io: IoThread) -> Self {
        Self {
            shared,
            io: Arc::new(io),
        }
    }
}

#[cfg(test)]
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
        Box::pin(async move {
            shared.shut.cancel();
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
