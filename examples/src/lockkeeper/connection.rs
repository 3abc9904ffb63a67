//! From what is on the command line to the endpoints that may be asked.

use std::time::Duration;

use lockkeeper_core::prelude::Unfenced;
use lockkeeper_core::{EndpointId, Gateway, RpcAddress, RpcError, RpcGateway, RpcService};
use lockkeeper_remote::{RemoteBuilder, RemoteBuilderExt};

use super::ending::Failure;
use super::leader;
use super::options::ConnectionOptions;

/// How long dialling, and the answer to a mere question, may take.
const QUESTION: Duration = Duration::from_secs(10);

/// A service of this program's own, and the endpoints that it may ask.
pub(super) struct Connection {
    service: RpcService,
    pub(super) addresses: Vec<RpcAddress>,
    /// For what is to be done.
    pub(super) limit: Duration,
    /// For what is only asked.
    pub(super) question: Duration,
}

impl Connection {
    /// # Errors
    /// Usage; an election that knows of no leader.
    pub(super) async fn open(options: &ConnectionOptions, endpoint: &str) -> Result<Self, Failure> {
        let endpoint = options.endpoint.as_deref().unwrap_or(endpoint);
        let question = options.time_out.min(QUESTION);
        let addresses = match (options.address.as_slice(), &options.election) {
            ([], None) => {
                return Err(Failure::usage(
                    "which system? Give --address HOST:PORT, or --election PLACE with --component NAME",
                ));
            }
            ([], Some(place)) => {
                let leader = leader::find(place, options.component.as_deref(), question).await?;
                vec![beside(&leader.address, endpoint)?]
            }
            (addresses, None) => {
                let addresses = addresses.iter().map(|text| address(text, endpoint));
                addresses.collect::<Result<_, _>>()?
            }
            (_, Some(_)) => {
                return Err(Failure::usage(
                    "--address and --election exclude each other",
                ));
            }
        };
        let builder = RpcService::builder()
            .default_timeout(question)
            .bind("127.0.0.1:0")
            .application_version(concat!("lockkeeper ", env!("CARGO_PKG_VERSION")));
        let builder = keys(tls(builder, options)?, options)?;
        let started = builder.start().await;
        Ok(Self {
            service: started.map_err(|error| Failure::usage(error.to_string()))?,
            addresses,
            limit: options.time_out,
            question,
        })
    }

    pub(super) async fn to<G: RpcGateway<Fencing = Unfenced>>(
        &self,
        address: &RpcAddress,
    ) -> Result<Gateway<G>, RpcError> {
        self.service.connect::<G>(address).await
    }

    pub(super) async fn close(self) {
        // an error of the end changes nothing about what was done
        let _ = self.service.terminate().await;
    }
}

/// `lockkeeper://HOST:PORT/NAME`, or `HOST:PORT` with the name from elsewhere.
fn address(text: &str, endpoint: &str) -> Result<RpcAddress, Failure> {
    let whole = match text.contains("://") {
        true => text.to_owned(),
        false => format!("lockkeeper://{text}/{endpoint}"),
    };
    whole
        .parse()
        .map_err(|error| Failure::usage(format!("address {text}: {error}")))
}

/// The endpoint of that name in the service that another endpoint lives in.
fn beside(address: &str, endpoint: &str) -> Result<RpcAddress, Failure> {
    let unusable = |error: &dyn std::fmt::Display| {
        Failure::unreachable(format!(
            "the leader has published {address:?}, which is no address to dial: {error}"
        ))
    };
    let leader: RpcAddress = address.parse().map_err(|error| unusable(&error))?;
    let name = EndpointId::new(endpoint).map_err(|error| Failure::usage(error.to_string()))?;
    match leader.authority() {
        Some(authority) => Ok(RpcAddress::remote(authority.clone(), name)),
        None => Err(unusable(&"it is of one process")),
    }
}

#[cfg(feature = "shared-key")]
fn keys(builder: RemoteBuilder, options: &ConnectionOptions) -> Result<RemoteBuilder, Failure> {
    let Some(file) = &options.key_file else {
        return Ok(builder);
    };
    let text = std::fs::read_to_string(file)
        .map_err(|error| Failure::usage(format!("the key file {}: {error}", file.display())))?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let keys = lockkeeper_remote::SharedKeys::new(lines)
        .map_err(|error| Failure::usage(format!("the key file {}: {error}", file.display())))?;
    Ok(builder.shared_keys(keys))
}

#[cfg(not(feature = "shared-key"))]
fn keys(builder: RemoteBuilder, options: &ConnectionOptions) -> Result<RemoteBuilder, Failure> {
    match options.key_file {
        None => Ok(builder),
        Some(_) => Err(Failure::usage(
            "this program was built without shared keys: build it with --features shared-key",
        )),
    }
}

#[cfg(feature = "tls")]
fn tls(builder: RemoteBuilder, options: &ConnectionOptions) -> Result<RemoteBuilder, Failure> {
    let files = (
        &options.tls_certificate_file,
        &options.tls_key_file,
        &options.tls_authorities_file,
    );
    let invalid = |error: RpcError| Failure::usage(error.to_string());
    match files {
        (None, None, None) => Ok(builder),
        (Some(certificate), Some(key), Some(authorities)) => {
            let tls = lockkeeper_remote::Tls::from_pem_files(certificate, key, authorities);
            let mut tls = tls.map_err(invalid)?;
            if let Some(name) = &options.tls_server_name {
                tls = tls.server_name(name).map_err(invalid)?;
            }
            Ok(builder.tls(tls))
        }
        _ => Err(Failure::usage(
            "TLS needs all of --tls-certificate-file, --tls-key-file and --tls-authorities-file",
        )),
    }
}

#[cfg(not(feature = "tls"))]
fn tls(builder: RemoteBuilder, options: &ConnectionOptions) -> Result<RemoteBuilder, Failure> {
    let files = [
        &options.tls_certificate_file,
        &options.tls_key_file,
        &options.tls_authorities_file,
    ];
    match files.iter().all(|file| file.is_none()) {
        true => Ok(builder),
        false => Err(Failure::usage(
            "this program was built without TLS: build it with --features tls",
        )),
    }
}
