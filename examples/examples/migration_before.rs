//! An actix-web app with one actor, in one process: where docs/migration.md begins.

use actix::prelude::*;
use actix_web::{App, HttpServer, error::ErrorServiceUnavailable, web};

/// Adds, and answers the new total.
#[derive(Message)]
#[rtype(result = "i64")]
struct Add(i64);

#[derive(Default)]
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

type Shared = web::Data<Addr<Counter>>;

async fn add(counter: Shared, number: web::Path<i64>) -> actix_web::Result<String> {
    let total = counter
        .send(Add(*number))
        .await
        .map_err(ErrorServiceUnavailable)?;
    Ok(total.to_string())
}

#[actix_web::main]
async fn main() -> std::io::Result<()> {
    let counter = Counter::default().start();
    let app = move || {
        App::new()
            .app_data(web::Data::new(counter.clone()))
            .route("/add/{number}", web::post().to(add))
    };
    let server = HttpServer::new(app).workers(1).bind("127.0.0.1:0")?;
    println!("listening on {}", server.addrs()[0]);
    server.run().await
}
