//! What an endpoint has opened and must close: files, connections, child actors.

use std::{
    cell::RefCell,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures_core::future::BoxFuture;

use super::HookResult;
use crate::error::{RpcError, RpcErrorKind};

thread_local! {
    static CURRENT: RefCell<Option<Resources>> = const { RefCell::new(None) };
}

type Close = Box<dyn FnOnce() -> BoxFuture<'static, HookResult> + Send>;

/// The resources of one incarnation of an endpoint, closed when it ends: after `on_stop`, or after
/// the panic that ended it, the last registered first. The endpoint's name is free, and a restart
/// begins, when all are closed.
///
/// Cheap to clone. A hook gets it by [`Resources::current`] (and may keep it), the owner by
/// [`RpcServer::resources`](crate::RpcServer::resources).
#[derive(Clone, Default)]
pub struct Resources {
    entries: Arc<Mutex<Entries>>,
}

#[derive(Default)]
struct Entries {
    is_closed: bool,
    next_number: u64,
    open: Vec<(u64, &'static str, Close)>,
}

/// Names a registered resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ResourceId(u64);

impl Resources {
    /// The resources of the endpoint whose hook runs on this thread right now.
    #[must_use]
    pub fn current() -> Option<Self> {
        CURRENT.with_borrow(Clone::clone)
    }

    pub(crate) fn scope<T>(&self, body: impl FnOnce() -> T) -> T {
        let outer = CURRENT.replace(Some(self.clone()));
        let result = body();
        CURRENT.set(outer);
        result
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has `close` run when the endpoint ends. All closings together have the limit
    /// [`hook_timeout`](crate::RpcServiceBuilder::hook_timeout); an error of one is the
    /// termination's and keeps none of the others from being closed.
    ///
    /// # Errors
    /// `Stopped` if the endpoint has ended already: `close` has been run on the present runtime
    /// then, so that nothing stays open.
    pub fn register<F>(
        &self,
        name: &'static str,
        close: impl FnOnce() -> F + Send + 'static,
    ) -> Result<ResourceId, RpcError>
    where
        F: Future<Output = HookResult> + Send + 'static,
    {
        let mut entries = self.lock();
        if entries.is_closed {
            drop(entries);
            tokio::spawn(close());
            return Err(RpcError::new(
                RpcErrorKind::Stopped,
                format!("the endpoint has ended: {name} was closed instead of registered"),
            ));
        }
        let number = entries.next_number;
        entries.next_number += 1;
        entries
            .open
            .push((number, name, Box::new(move || Box::pin(close()))));
        Ok(ResourceId(number))
    }

    /// Takes a resource out again, without closing it; false if it was closed or taken out before.
    pub fn unregister(&self, id: ResourceId) -> bool {
        let mut entries = self.lock();
        let place = entries.open.iter().position(|(number, ..)| *number == id.0);
        let taken = place.map(|place| entries.open.remove(place));
        drop(entries);
        taken.is_some()
    }

    /// Closes all, the last registered first; the first error counts.
    pub(crate) async fn close(&self) -> Result<(), RpcError> {
        let open = {
            let mut entries = self.lock();
            entries.is_closed = true;
            std::mem::take(&mut entries.open)
        };
        let mut result = Ok(());
        for (_, name, close) in open.into_iter().rev() {
            if let Err(error) = close().await {
                let text = format!("closing {name} failed: {error}");
                tracing::warn!("{text}");
                result = result.and(Err(RpcError::new(RpcErrorKind::LifecycleFailed, text)));
            }
        }
        result
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().open.is_empty()
    }
}

impl std::fmt::Debug for Resources {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let entries = self.lock();
        let names = entries.open.iter().map(|(_, name, _)| *name);
        f.debug_struct("Resources")
            .field("open", &names.collect::<Vec<_>>())
            .field("is_closed", &entries.is_closed)
            .finish()
    }
}
