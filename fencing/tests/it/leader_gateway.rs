//! Calls that follow the leader, over fenced endpoints of one process.

use std::time::Duration;

use actix::prelude::*;
use lockkeeper_core::prelude::*;
use lockkeeper_core::{Outcome, RpcErrorKind};
use lockkeeper_fencing::driver::InProcessElection;
use lockkeeper_fencing::election::{
    ActorContender, ComponentId, ElectionFailed, GrantLeadership, LeaderElection,
    LeaderElectionOptions, LeaderElectionService, RevokeLeadership,
};
use lockkeeper_fencing::retrieval::LeaderRetrievalService;
use lockkeeper_fencing::{Idempotent, LeaderGateway};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

/// An upper bound against hanging, not a measure.
const LIMIT: Duration = Duration::from_secs(60);

#[derive(Message, Serialize, Deserialize, Clone, Debug)]
#[rtype(result = "String")]
struct WhoLeads;

/// Its answer never comes: the endpoint's future is dropped with it.
#[derive(Message, Serialize, Deserialize, Clone, Debug)]
#[rtype(result = "String")]
struct Panic;

/// The endpoint named "first" begins to answer it and never comes to an end.
#[derive(Message, Serialize, Deserialize, Clone, Debug)]
#[rtype(result = "String")]
struct Ponder;

impl Idempotent for WhoLeads {}
impl Idempotent for Ponder {}

static PONDERING: Notify = Notify::const_new();

rpc_gateway! {
    /// Asks who leads.
    fenced NameGateway("test.Name", version = 1) { WhoLeads, Panic, Ponder }
}

#[derive(RpcEndpoint)]
#[rpc(gateways(NameGateway), fenced)]
struct Named(String);

impl Actor for Named {
    type Context = Context<Self>;
}

impl Handler<WhoLeads> for Named {
    type Result = String;

    fn handle(&mut self, _: WhoLeads, _: &mut Context<Self>) -> String {
        self.0.clone()
    }
}

impl Handler<Panic> for Named {
    type Result = String;

    fn handle(&mut self, _: Panic, _: &mut Context<Self>) -> String {
        panic!("as asked");
    }
}

impl Handler<Ponder> for Named {
    type Result = ResponseFuture<String>;

    fn handle(&mut self, _: Ponder, _: &mut Context<Self>) -> ResponseFuture<String> {
        if self.0 != "first" {
            return Box::pin(std::future::ready(self.0.clone()));
        }
        PONDERING.notify_one();
        Box::pin(std::future::pending())
    }
}

/// A contender that serves a fenced endpoint while it leads.
struct Contender {
    name: &'static str,
    service: RpcService,
    server: RpcServer<Named>,
    election: LeaderElection,
}

impl Actor for Contender {
    type Context = Context<Self>;
}

impl Handler<GrantLeadership> for Contender {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, grant: GrantLeadership, _: &mut Context<Self>) -> ResponseFuture<()> {
        let token = grant.0.token;
        self.server.set_token(token);
        let (election, address) = (self.election.clone(), self.server.address().to_string());
        Box::pin(async move {
            election.confirm(token.session, address).await.unwrap();
        })
    }
}

impl Handler<RevokeLeadership> for Contender {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, _: RevokeLeadership, _: &mut Context<Self>) -> ResponseFuture<()> {
        let server = self.server.clone();
        // What outlives it is named, and its caller answered.
        Box::pin(async move {
            let _ = server.revoke().await;
        })
    }
}

impl Handler<ElectionFailed> for Contender {
    type Result = ();

    fn handle(&mut self, failed: ElectionFailed, _: &mut Context<Self>) {
        panic!("{} ({:?}): {}", self.name, self.service, failed.0);
    }
}

async fn contend(
    name: &'static str,
    service: &RpcService,
    election: &InProcessElection,
) -> LeaderElectionService {
    let options = LeaderElectionOptions::default();
    let elections = LeaderElectionService::start(election.clone(), options).unwrap();
    let own = elections.election(ComponentId::new("name").unwrap());
    let server = service
        .start_fenced_server(name, Named(name.to_owned()), None)
        .await
        .unwrap();
    server.start().await.unwrap();
    let contender = Contender {
        name,
        service: service.clone(),
        server,
        election: own.clone(),
    };
    own.start(ActorContender::new(&contender.start()))
        .await
        .unwrap();
    elections
}

fn run<F: Future>(test: F) -> F::Output {
    System::new().block_on(async { tokio::time::timeout(LIMIT * 2, test).await.unwrap() })
}

#[test]
fn callers_see_no_election() {
    run(async {
        let service = RpcService::builder().build().unwrap();
        let election = InProcessElection::new();
        let retrievals = LeaderRetrievalService::new(election.clone());
        let retrieval = retrievals
            .retrieve(ComponentId::new("name").unwrap())
            .unwrap();
        let leader = LeaderGateway::<NameGateway>::new(service.clone(), retrieval);
        // Asked before anybody leads, it waits for the first leader.
        let early = leader.clone();
        let early = actix::spawn(async move { early.send(WhoLeads, LIMIT).await });
        let first = contend("first", &service, &election).await;
        assert_eq!(early.await.unwrap().unwrap(), "first");
        let second = contend("second", &service, &election).await;
        for _ in 0..20 {
            assert!(election.depose_leader());
            let answer = leader.send(WhoLeads, LIMIT).await.unwrap();
            assert!(answer == "first" || answer == "second", "{answer}");
        }
        first.close().await;
        assert_eq!(
            leader.send_idempotent(WhoLeads, LIMIT).await.unwrap(),
            "second"
        );
        second.close().await;
        let error = leader
            .send(WhoLeads, Duration::from_millis(100))
            .await
            .unwrap_err();
        assert_eq!(
            (error.kind(), error.outcome()),
            (RpcErrorKind::Timeout, Outcome::NotSent)
        );
        assert!(!error.is_fenced(), "{error}");
    });
}

#[test]
fn a_call_with_unknown_outcome_is_not_made_again() {
    run(async {
        let service = RpcService::builder().build().unwrap();
        let election = InProcessElection::new();
        let retrievals = LeaderRetrievalService::new(election.clone());
        let retrieval = retrievals
            .retrieve(ComponentId::new("name").unwrap())
            .unwrap();
        let leader = LeaderGateway::<NameGateway>::new(service.clone(), retrieval);
        let elections = contend("only", &service, &election).await;
        let error = leader.send(Panic, LIMIT).await.unwrap_err();
        assert_eq!(error.outcome(), Outcome::Unknown, "{error}");
        elections.close().await;
    });
}

/// The leader goes with the call under way: only what may be handled twice is asked of the next one.
#[test]
fn an_idempotent_call_with_unknown_outcome_is_made_again_and_another_is_not() {
    run(async {
        let service = RpcService::builder().build().unwrap();
        let election = InProcessElection::new();
        let retrievals = LeaderRetrievalService::new(election.clone());
        let retrieval = retrievals
            .retrieve(ComponentId::new("name").unwrap())
            .unwrap();
        let leader = LeaderGateway::<NameGateway>::new(service.clone(), retrieval);
        let first = contend("first", &service, &election).await;
        let (once, again) = (leader.clone(), leader.clone());
        let once = actix::spawn(async move { once.send(Ponder, LIMIT).await });
        PONDERING.notified().await;
        let again = actix::spawn(async move { again.send_idempotent(Ponder, LIMIT).await });
        PONDERING.notified().await;
        let second = contend("second", &service, &election).await;
        first.close().await;
        let error = once.await.unwrap().unwrap_err();
        assert_eq!(error.outcome(), Outcome::Unknown, "{error}");
        assert_eq!(again.await.unwrap().unwrap(), "second");
        second.close().await;
    });
}
