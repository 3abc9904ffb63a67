//! A process that contends and serves the register while it leads.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, SystemTime};

use lockkeeper_core::prelude::*;
use lockkeeper_fencing::election::{
    Callback, ElectionError, LeaderContender, LeaderElection, Leadership,
};
use lockkeeper_fencing::guard::GuardStore;
use lockkeeper_remote::prelude::*;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::child::{orders, tell};
use super::place::{Place, component};
use super::register::{Leading, Present, Register, is_careless};

pub(super) const MEMBER: &str = "LOCKKEEPER_TEST_MEMBER";
/// Where it listens.
pub(super) const BIND: &str = "LOCKKEEPER_TEST_BIND";

/// Not a test by itself: what members run. Without its environment it does nothing.
#[test]
fn member() {
    if let Ok(place) = std::env::var(MEMBER) {
        let bind = std::env::var(BIND).unwrap();
        actix::System::new().block_on(run(Place::from_text(&place), &bind));
    }
}

/// A handler may wait for a guard's store that is away; were it not over in time, its endpoint would be ended for good.
const REVOKED: Duration = Duration::from_secs(60);

async fn run(place: Place, bind: &str) {
    let service = RpcService::builder().revoke_timeout(REVOKED);
    let service = service.bind(bind).allow_insecure(true);
    let service = service.start().await.unwrap();
    let present = Present::default();
    let (given_up, mut gives_up) = unbounded_channel();
    let register = Register {
        present: present.clone(),
        given_up: given_up.clone(),
    };
    let server = service.start_fenced_server("register", register, None);
    let server = server.await.unwrap();
    server.start().await.unwrap();
    let elections = place.elections();
    let election = elections.election(component());
    let contender = || Contender {
        present: present.clone(),
        given_up: given_up.clone(),
        server: server.clone(),
        election: election.clone(),
        store: place.store(),
    };
    election.start(contender()).await.unwrap();
    let mut orders = orders();
    loop {
        tokio::select! {
            order = orders.recv() => match order.as_deref() {
                Some("clock") => {
                    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
                    tell(&format!("clock {}", now.unwrap().as_secs()));
                }
                _ => return,
            },
            // Who cannot serve lets others lead, or itself anew with another epoch.
            _ = gives_up.recv() => {
                election.close().await;
                while gives_up.try_recv().is_ok() {}
                election.start(contender()).await.unwrap();
            }
        }
    }
}

struct Contender {
    present: Present,
    given_up: UnboundedSender<()>,
    server: RpcServer<Register>,
    election: LeaderElection,
    store: Arc<dyn GuardStore>,
}

impl LeaderContender for Contender {
    fn grant_leadership(&mut self, leadership: Leadership) -> Callback {
        let token = leadership.token;
        tell(&format!("granted {}", token.epoch));
        let (store, present) = (self.store.clone(), self.present.clone());
        let (server, election) = (self.server.clone(), self.election.clone());
        let given_up = self.given_up.clone();
        Box::pin(async move {
            let entering = tokio::task::spawn_blocking(move || Leading::enter(store, leadership));
            let leading = match entering.await.unwrap() {
                Ok(Some(leading)) => leading,
                Ok(None) => return,
                Err(error) => {
                    eprintln!("epoch {} cannot serve: {error}", token.epoch);
                    let _ = given_up.send(());
                    return;
                }
            };
            *present.lock().unwrap_or_else(PoisonError::into_inner) = Some(leading);
            server.set_token(token);
            let address = server.address().to_string();
            election.confirm(token.session, address).await.unwrap();
            tell(&format!("serving {}", token.epoch));
        })
    }

    fn revoke_leadership(&mut self) -> Callback {
        let (server, present) = (self.server.clone(), self.present.clone());
        if is_careless() {
            return Box::pin(async {});
        }
        Box::pin(async move {
            server.revoke().await.expect("handlers end in time");
            *present.lock().unwrap_or_else(PoisonError::into_inner) = None;
        })
    }

    fn handle_error(&mut self, error: ElectionError) -> Callback {
        eprintln!("{error}");
        Box::pin(async {})
    }
}
