//! The console: a page, to be mounted in an actix-web app, that shows how a program is (feature
//! `web`).
//!
//! ```no_run
//! use actix_web::{App, HttpServer};
//! use lockkeeper_core::{RpcService, web::Console};
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let service = RpcService::builder().build()?;
//! let console = Console::builder(service.status()).title("orders").build()?;
//! HttpServer::new(move || App::new().service(console.scope("/console")))
//!     .bind(("127.0.0.1", 8080))?
//!     .run()
//!     .await?;
//! # Ok(())
//! # }
//! ```
//!
//! It draws whatever is registered with a [`StatusRegistry`](crate::status::StatusRegistry), and
//! serves, below the path where it is mounted:
//!
//! | route | what |
//! |---|---|
//! | `GET /` | the page; it renews itself twice a second by a script, every two seconds without |
//! | `GET /fragment` | what the script fetches |
//! | `GET /console.js`, `GET /console.css` | the page's only assets |
//! | `GET /status.json` | the same data as JSON: see [`StatusSnapshot`](crate::status::StatusSnapshot) |
//! | `GET /metrics` | Prometheus' text, if the app gave it; else 404 |
//! | `GET /health` | 200 while the process lives |
//! | `GET /ready` | 200, or 503 with the reasons until every part is ready |
//! | `POST /actions` | does something, if a token was given; else 404 |
//!
//! Whoever reaches the scope reads all of this: mount it where only operators come, or wrap it in
//! the app's own authentication (`console.scope("/console").wrap(…)`). Nothing can be changed
//! unless the app gave a token.
//!
//! Not for watching many processes over weeks: that is what `/metrics` and Prometheus are for. The
//! plots begin when the console is built, and hold two minutes.

pub use self::console::{Console, ConsoleBuilder, ConsoleError};

mod action;
mod board;
mod console;
mod events;
mod history;
mod page;
mod routes;
mod sampler;
#[cfg(test)]
mod tests;
