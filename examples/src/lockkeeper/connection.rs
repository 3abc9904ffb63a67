//! From what is on the command line to the endpoints that may be asked.

use std::time::Duration;

use lockkeeper_core::prelude::Unfenced;
use lockkeeper_core::{EndpointId, Gateway, RpcAddress, RpcError, RpcGateway, RpcService};

use super::ending::Failure;
use super::leader;
use super::options::ConnectionOptions;
use crate::settings::service::ServiceSettings;

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
        let settings = ServiceSettings {
            shared_key_file: options.key_file.clone(),
            tls_certificate_file: options.tls_certificate_file.clone(),
            tls_key_file: options.tls_key_file.clone(),
            tls_authorities_file: options.tls_authorities_file.clone(),
            tls_server_name: options.tls_server_name.clone(),
            default_timeout: question,
            ..ServiceSettings::default()
        };
        let files = [
            &settings.tls_certificate_file,
            &settings.tls_key_file,
            &settings.tls_authorities_file,
        ];
        let given = files.iter().filter(|file| file.is_some()).count();
        if given != 0 && given != files.len() {
            return Err(Failure::usage(
                "TLS needs all of --tls-certificate-file, --tls-key-file and --tls-authorities-file",
            ));
        }
        let builder = settings
            .builder()
            .map_err(|error| Failure::usage(format!("{error:#}")))?
            .application_version(concat!("lockkeeper ", env!("CARGO_PKG_VERSION")));
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
