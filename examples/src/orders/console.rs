//! The job's console, served by the process that started the cluster.

use std::net::SocketAddr;
use std::path::Path;

use actix_web::dev::ServerHandle;
use actix_web::guard::{Any, Guard, Host};
use actix_web::{App, HttpServer};
use anyhow::{Context, bail};
use lockkeeper_core::status::StatusRegistry;
use lockkeeper_core::web::Console;
use metrics_exporter_prometheus::PrometheusBuilder;

/// The environment variable with the token for actions: it is never an argument.
pub const TOKEN_VARIABLE: &str = "ORDERS_CONSOLE_TOKEN";

/// A console that is served. It ends with the process, or by [`stop`](Self::stop).
#[derive(Debug)]
pub struct Serving {
    address: SocketAddr,
    server: ServerHandle,
}

impl Serving {
    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends it.
    pub async fn stop(self) {
        self.server.stop(false).await;
    }
}

/// Serves the console of `registry` at `address`; port 0 is a free one. With a token there are
/// actions.
///
/// # Errors
/// When the address is beyond loopback and there is no token, when it can't be bound, or when the
/// token can't be.
pub fn serve(
    registry: &StatusRegistry,
    address: SocketAddr,
    token: Option<String>,
) -> anyhow::Result<Serving> {
    let is_local = address.ip().is_loopback();
    if !is_local && token.is_none() {
        bail!(
            "--console {address} is beyond loopback: give a token by {TOKEN_VARIABLE} or \
             --console-token-file, or listen on 127.0.0.1"
        );
    }
    let recorder = PrometheusBuilder::new()
        .install_recorder()
        .context("the metrics' recorder")?;
    let (metrics, upkeep) = (recorder.clone(), recorder);
    let mut console = Console::builder(registry)
        .title("orders")
        .metrics(move || metrics.render())
        .upkeep(move || upkeep.run_upkeep());
    if let Some(token) = token {
        console = console.actions(token);
    }
    let console = console.build()?;
    let server = HttpServer::new(move || {
        let scope = console.scope("");
        App::new().service(if is_local { scope.guard(local()) } else { scope })
    })
    .workers(1)
    // a signal is for the job: it takes a final cut first
    .disable_signals()
    .bind(address)
    .with_context(|| format!("--console {address}"))?;
    let address = server.addrs().first().copied().context("no address")?;
    let server = server.run();
    let handle = server.handle();
    actix_rt::spawn(server);
    Ok(Serving {
        address,
        server: handle,
    })
}

/// A page of another site must not read a console on loopback by a name of its own that points
/// there.
fn local() -> impl Guard {
    Any(Host("127.0.0.1"))
        .or(Host("localhost"))
        .or(Host("[::1]"))
}

/// The token, from the file or the environment.
///
/// # Errors
/// When the file can't be read.
pub fn read_token(file: Option<&Path>) -> anyhow::Result<Option<String>> {
    let Some(file) = file else {
        return Ok(std::env::var(TOKEN_VARIABLE).ok());
    };
    let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()))
}
