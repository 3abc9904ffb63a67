//! The same app in two processes: where docs/migration.md ends.
//! Without argument it is the counter; with the counter's address it is the web app.

use actix::prelude::*;
use actix_web::{App, HttpServer, error::InternalError, http::StatusCode, web};
use lockkeeper_core::prelude::*;
use lockkeeper_remote::RemoteBuilderExt;
use tokio::signal::unix::{SignalKind, signal};

/// Adds, and answers the new total.
#[derive(Message, serde::Serialize, serde::Deserialize)]
#[rtype(result = "i64")]
struct Add(i64);

rpc_gateway! { CounterGateway("example.Counter", version = 1) { Add } }

#[derive(Default, RpcEndpoint)]
#[rpc(gateways(CounterGateway))]
struct Counter {
    total: i64,
}

impl Actor for Counter {
    type Context = Context<Self>;
}

impl Handler<Add> for Counter {
    type Result = i64;

    fn handle(&mut self, Add(number): Add, _: &mut Context<Self>) -> i64 {
        self.total += number;
        self.total
    }
}

type Shared = web::Data<Gateway<CounterGateway>>;

async fn add(counter: Shared, number: web::Path<i64>) -> actix_web::Result<String> {
    let total = counter.send(Add(*number)).await.map_err(to_http)?;
    Ok(total.to_string())
}

fn to_http(error: RpcError) -> actix_web::Error {
    let status = StatusCode::from_u16(error.http_status());
    InternalError::new(error, status.unwrap_or(StatusCode::BAD_GATEWAY)).into()
}

#[actix_web::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let service = RpcService::builder().bind("127.0.0.1:0").start().await?;
    if let Some(counter) = std::env::args().nth(1) {
        let counter = service.connect::<CounterGateway>(&counter.parse()?).await?;
        let app = move || {
            App::new()
                .app_data(web::Data::new(counter.clone()))
                .route("/add/{number}", web::post().to(add))
        };
        let server = HttpServer::new(app).workers(1).bind("127.0.0.1:0")?;
        println!("listening on {}", server.addrs()[0]);
        server.run().await?;
    } else {
        let mut terminate = signal(SignalKind::terminate())?;
        let counter = service.start_server("counter", Counter::default()).await?;
        counter.start().await?;
        println!("listening on {}", counter.address());
        terminate.recv().await;
    }
    Ok(service.terminate().await?)
}
