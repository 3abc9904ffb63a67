//! What an operator asks of a service: the parts of its process that can tell how they are, endpoints
//! with state, token and queue among them.
//!
//! A program registers it in one line; the command `lockkeeper endpoints` among the examples (or a
//! program of your own, by [`ServiceAdminGateway`]) reaches it like any other endpoint.
//!
//! ```
//! # fn main() -> Result<(), lockkeeper_core::RpcError> {
//! # actix::System::new().block_on(async {
//! use lockkeeper_core::admin::{GetParts, ServiceAdmin, ServiceAdminGateway};
//! use lockkeeper_core::RpcService;
//!
//! let service = RpcService::builder().build()?;
//! let admin = ServiceAdmin::serve(&service).await?;
//! let gateway = service.connect::<ServiceAdminGateway>(&admin.address()).await?;
//! let parts = gateway.send(GetParts).await?;
//! assert!(parts.iter().any(|part| part.name == "endpoint service-admin"));
//! # service.terminate().await
//! # })
//! # }
//! ```
//!
//! It only tells. Not for what a program decides by: the names of parts and values are for people, and
//! may change.

use actix::{Actor, Context, Handler, Message, MessageResult};
use serde::{Deserialize, Serialize};

use crate::{
    RpcEndpoint,
    error::RpcError,
    rpc_gateway,
    server::RpcServer,
    service::RpcService,
    status::{StatusRegistry, StatusSnapshot},
};

/// The name of the endpoint.
pub const ADMIN_ENDPOINT: &str = "service-admin";

rpc_gateway! {
    /// What an operator asks of a service.
    pub ServiceAdminGateway("lockkeeper.service.Admin", version = 1) { GetParts }
}

/// Which parts are there, and how is each?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Message, Serialize, Deserialize)]
#[rtype(result = "Vec<Part>")]
pub struct GetParts;

/// A part of a process, as its [`StatusSource`](crate::status::StatusSource) tells it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// Such as `endpoint counter`.
    pub name: String,
    /// How it is.
    pub snapshot: StatusSnapshot,
}

/// Answers a service's operators.
#[derive(Debug, RpcEndpoint)]
#[rpc(gateways(ServiceAdminGateway))]
pub struct ServiceAdmin {
    parts: StatusRegistry,
}

impl ServiceAdmin {
    /// Serves it as [`ADMIN_ENDPOINT`], until it is terminated or its service is.
    ///
    /// # Errors
    /// `NameTaken`, and what else [`RpcService::start_server`] says.
    pub async fn serve(service: &RpcService) -> Result<RpcServer<Self>, RpcError> {
        let parts = service.status().clone();
        let server = service.start_server(ADMIN_ENDPOINT, Self { parts }).await?;
        server.start().await?;
        Ok(server)
    }
}

impl Actor for ServiceAdmin {
    type Context = Context<Self>;
}

impl Handler<GetParts> for ServiceAdmin {
    type Result = MessageResult<GetParts>;

    fn handle(&mut self, _: GetParts, _: &mut Context<Self>) -> Self::Result {
        let sources = self.parts.sources();
        let parts = sources.iter().map(|source| Part {
            name: source.name(),
            snapshot: source.snapshot(),
        });
        MessageResult(parts.collect())
    }
}
