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
    status::{StatusRegistry, StatusSource, StatusValue, Unit},
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

/// A part of a process, as its [`StatusSource`] tells it. Plots and graphs are left to the console.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// Such as `endpoint counter`.
    pub name: String,
    /// What it is doing, if it is one thing at a time.
    pub state: Option<String>,
    /// Why it can't do its work now; `None`: it can.
    pub unready: Option<String>,
    /// Single values.
    pub values: Vec<PartValue>,
    /// What there is several of.
    pub tables: Vec<PartTable>,
}

/// A single value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PartValue {
    /// What it is.
    pub label: String,
    /// The value.
    pub value: StatusValue,
    /// Its unit.
    pub unit: Unit,
}

/// Rows, each with a value for each column.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PartTable {
    /// What the rows are.
    pub caption: String,
    /// Label and unit of each column; the first names the row.
    pub columns: Vec<(String, Unit)>,
    /// The rows.
    pub rows: Vec<Vec<StatusValue>>,
}

impl Part {
    fn of(source: &dyn StatusSource) -> Self {
        let snapshot = source.snapshot();
        let facts = snapshot.facts.into_iter().map(|fact| PartValue {
            label: fact.label,
            value: fact.value,
            unit: fact.unit,
        });
        let tables = snapshot.tables.into_iter().map(|table| PartTable {
            caption: table.caption,
            columns: table.columns,
            rows: table.rows,
        });
        Self {
            name: source.name(),
            state: snapshot.state.map(|state| state.text),
            unready: snapshot.unready,
            values: facts.collect(),
            tables: tables.collect(),
        }
    }
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
        MessageResult(sources.iter().map(|source| Part::of(&**source)).collect())
    }
}
