//! One of the processes: contends, and serves the counter while it leads.

use std::sync::{Arc, PoisonError};

use lockkeeper_core::prelude::*;
use lockkeeper_fencing::election::{
    Callback, ComponentId, ElectionError, LeaderContender, LeaderElection, LeaderElectionOptions,
    LeaderElectionService, Leadership,
};
use lockkeeper_fencing::guard::GuardStore;
use lockkeeper_remote::prelude::*;
use tokio::io::AsyncReadExt;

use super::counter::{Counter, Leading, Present};
use super::options::PlaceOptions;
use super::place::{self, Driver};
use crate::signals::Signals;

/// The component that is led.
pub const COMPONENT: &str = "counter";

/// Runs until standard input ends, which it does when the parent is gone.
///
/// # Errors
/// What keeps it from contending.
pub async fn run(number: u32, options: &PlaceOptions) -> anyhow::Result<()> {
    // A signal to the whole group of processes is for the parent: what is never looked at is ignored.
    let _ignored = Signals::take()?;
    let service = RpcService::builder().bind("127.0.0.1:0").start().await?;
    let present = Present::default();
    let counter = Counter {
        number,
        present: present.clone(),
    };
    let server = service
        .start_fenced_server("counter", counter, None)
        .await?;
    server.start().await?;
    let driver = Driver::new(options)?;
    let elections = LeaderElectionService::start(driver, LeaderElectionOptions::default())?;
    let election = elections.election(ComponentId::new(COMPONENT)?);
    let contender = Contender {
        number,
        present,
        server,
        election: election.clone(),
        store: place::store(options)?,
    };
    election.start(contender).await?;
    let mut input = tokio::io::stdin();
    let mut byte = [0];
    while input.read(&mut byte).await? > 0 {}
    elections.close().await;
    service.terminate().await?;
    Ok(())
}

struct Contender {
    number: u32,
    present: Present,
    server: RpcServer<Counter>,
    election: LeaderElection,
    store: Arc<dyn GuardStore>,
}

impl LeaderContender for Contender {
    /// First what is served, then the token that lets calls in, then the address that brings them.
    fn grant_leadership(&mut self, leadership: Leadership) -> Callback {
        let (number, token) = (self.number, leadership.token);
        let (store, present) = (self.store.clone(), self.present.clone());
        let (server, election) = (self.server.clone(), self.election.clone());
        Box::pin(async move {
            let entering = tokio::task::spawn_blocking(move || Leading::enter(store, leadership));
            let leading = match entering.await {
                Ok(Ok(Some(leading))) => leading,
                Ok(Ok(None)) => return tracing::info!(number, "another process leads already"),
                Ok(Err(error)) => return tracing::warn!(number, %error, "it cannot lead"),
                Err(error) => return tracing::warn!(number, %error, "it cannot lead"),
            };
            *present.lock().unwrap_or_else(PoisonError::into_inner) = Some(leading);
            server.set_token(token);
            let address = server.address().to_string();
            if let Err(error) = election.confirm(token.session, address).await {
                tracing::warn!(number, %error, "leadership could not be confirmed");
            }
        })
    }

    fn revoke_leadership(&mut self) -> Callback {
        let (server, present) = (self.server.clone(), self.present.clone());
        Box::pin(async move {
            if let Err(error) = server.revoke().await {
                tracing::warn!(%error, "the endpoint's token could not be taken back");
            }
            *present.lock().unwrap_or_else(PoisonError::into_inner) = None;
        })
    }

    fn handle_error(&mut self, error: ElectionError) -> Callback {
        tracing::warn!(number = self.number, %error, "the election has a problem");
        Box::pin(async {})
    }
}
