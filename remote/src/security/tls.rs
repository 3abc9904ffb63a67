//! Mutual TLS 1.3: both sides show a certificate and check the other's.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use lockkeeper_core::{RpcError, RpcErrorKind};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::version::TLS13;
use rustls::{AlertDescription, CertificateError, ClientConfig, RootCertStore, ServerConfig};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::link::{BoxStream, IntroductionError};

/// A service's certificate and key, and the authorities that it trusts, each a PEM file.
///
/// Who connects must show a certificate of a trusted authority, and who is connected to as well,
/// for the host name or IP address in the endpoint's address or for the one that
/// [`server_name`](Self::server_name) sets. TLS 1.3 only, by rustls with ring.
///
/// Clones share their certificates: keep one to [`reload`](Self::reload) them.
///
/// ```no_run
/// use lockkeeper_core::RpcService;
/// use lockkeeper_remote::{RemoteBuilderExt, Tls};
///
/// # async fn example() -> Result<(), lockkeeper_core::RpcError> {
/// let tls = Tls::from_pem_files("tls.crt", "tls.key", "ca.crt")?;
/// let service = RpcService::builder().bind("0.0.0.0:7000").advertise("orders-1.example:7000")
///     .tls(tls.clone()).start().await?;
/// // When the files were replaced: connections made from now on use them.
/// tls.reload()?;
/// # let _ = service;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Tls {
    shared: Arc<Shared>,
    server_name: Option<ServerName<'static>>,
}

struct Shared {
    certificates: PathBuf,
    key: PathBuf,
    authorities: PathBuf,
    configs: RwLock<Configs>,
}

#[derive(Clone)]
struct Configs {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
}

impl Tls {
    /// Reads the service's certificate (first, then those between it and the authority), its
    /// private key and the certificates of the trusted authorities.
    ///
    /// # Errors
    /// `InvalidConfiguration` with the file's name if it can't be read, has nothing of its kind in
    /// it, or if key and certificate do not belong together.
    pub fn from_pem_files(
        certificates: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
        authorities: impl Into<PathBuf>,
    ) -> Result<Self, RpcError> {
        let (certificates, key, authorities) =
            (certificates.into(), key.into(), authorities.into());
        let configs = Configs::read(&certificates, &key, &authorities)?;
        let shared = Shared {
            certificates,
            key,
            authorities,
            configs: RwLock::new(configs),
        };
        Ok(Self {
            shared: Arc::new(shared),
            server_name: None,
        })
    }

    /// The name that every dialled peer's certificate must have, instead of the host that was
    /// dialled: for peers that are dialled by addresses which come and go.
    ///
    /// # Errors
    /// `InvalidConfiguration` if it is neither a host name nor an IP address.
    pub fn server_name(mut self, name: &str) -> Result<Self, RpcError> {
        self.server_name = Some(ServerName::try_from(name.to_owned()).map_err(|_| {
            invalid(format!(
                "server_name {name:?} is neither a host name nor an IP address"
            ))
        })?);
        Ok(self)
    }

    /// Reads the files again. Connections that stand go on with what they were made with; those
    /// made from now on use what the files have now. Does blocking reads of small files.
    ///
    /// # Errors
    /// As [`from_pem_files`](Self::from_pem_files); then all stays as it was.
    pub fn reload(&self) -> Result<(), RpcError> {
        let Shared {
            certificates,
            key,
            authorities,
            configs,
        } = &*self.shared;
        let read = Configs::read(certificates, key, authorities)?;
        *configs.write().unwrap_or_else(PoisonError::into_inner) = read;
        Ok(())
    }

    fn configs(&self) -> Configs {
        let configs = self.shared.configs.read();
        configs.unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) async fn dial(
        &self,
        stream: TcpStream,
        host: &str,
    ) -> Result<BoxStream, IntroductionError> {
        let name = match &self.server_name {
            Some(name) => name.clone(),
            None => ServerName::try_from(host.to_owned()).map_err(|_| {
                IntroductionError::Tls(format!("{host:?} is no name that a certificate can have"))
            })?,
        };
        let connector = TlsConnector::from(self.configs().client);
        let stream = connector.connect(name, stream).await?;
        Ok(Box::new(stream))
    }

    /// Greets a client that begins a TLS handshake.
    pub(crate) async fn accept(&self, stream: TcpStream) -> Result<BoxStream, Refused> {
        let acceptor = TlsAcceptor::from(self.configs().server);
        match acceptor.accept(stream).into_fallible().await {
            Ok(stream) => Ok(Box::new(stream)),
            Err((error, stream)) => Err(Refused {
                error: error.into(),
                stream,
            }),
        }
    }
}

/// A failed handshake, and the socket on which the other side is being told.
pub(crate) struct Refused {
    pub(crate) error: IntroductionError,
    pub(crate) stream: TcpStream,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("certificates", &self.shared.certificates)
            .field("authorities", &self.shared.authorities)
            .field("server_name", &self.server_name)
            .finish_non_exhaustive()
    }
}

impl Configs {
    fn read(certificates: &Path, key: &Path, authorities: &Path) -> Result<Self, RpcError> {
        let chain = read_certificates(certificates)?;
        let private = PrivateKeyDer::from_pem_file(key)
            .map_err(|error| invalid(format!("{}: no private key: {error}", key.display())))?;
        let mut roots = RootCertStore::empty();
        for authority in read_certificates(authorities)? {
            roots.add(authority).map_err(|error| {
                invalid(format!("{}: not usable: {error}", authorities.display()))
            })?;
        }
        let roots = Arc::new(roots);
        let provider = Arc::new(ring::default_provider());
        let unusable = |error: &dyn fmt::Display| {
            let (certificates, key) = (certificates.display(), key.display());
            invalid(format!("{certificates} with {key}: {error}"))
        };
        let client = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| unusable(&error))?
            .with_root_certificates(Arc::clone(&roots))
            .with_client_auth_cert(chain.clone(), private.clone_key())
            .map_err(|error| unusable(&error))?;
        Ok(Self {
            client: Arc::new(client),
            server: Arc::new(
                server(provider, roots, chain, private).map_err(|error| unusable(&error))?,
            ),
        })
    }
}

fn server(
    provider: Arc<CryptoProvider>,
    roots: Arc<RootCertStore>,
    chain: Vec<CertificateDer<'static>>,
    private: PrivateKeyDer<'static>,
) -> Result<ServerConfig, String> {
    let verifier = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider))
        .build()
        .map_err(|error| error.to_string())?;
    ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .map_err(|error| error.to_string())?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, private)
        .map_err(|error| error.to_string())
}

fn read_certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, RpcError> {
    let read = || CertificateDer::pem_file_iter(file)?.collect::<Result<Vec<_>, _>>();
    let certificates = read().map_err(|error| invalid(format!("{}: {error}", file.display())))?;
    if certificates.is_empty() {
        return Err(invalid(format!("{}: no certificate in it", file.display())));
    }
    Ok(certificates)
}

fn invalid(text: String) -> RpcError {
    RpcError::new(RpcErrorKind::InvalidConfiguration, text)
}

/// What a TLS error says about the two sides, in words that tell who has to do something.
pub(crate) fn explain(error: &rustls::Error) -> IntroductionError {
    use CertificateError as Bad;
    use rustls::Error;
    IntroductionError::Tls(match error {
        Error::InvalidMessage(_) => return IntroductionError::PeerSpeaksNoTls,
        Error::NoCertificatesPresented => "the peer showed no certificate".to_owned(),
        // Bad signature: the authority has the name of a trusted one, and another key.
        Error::InvalidCertificate(Bad::UnknownIssuer | Bad::BadSignature) => {
            "the peer's certificate is of no authority that this side trusts".to_owned()
        }
        Error::InvalidCertificate(Bad::Expired | Bad::ExpiredContext { .. }) => {
            format!("the peer's certificate has expired ({error})")
        }
        Error::InvalidCertificate(Bad::NotValidForName | Bad::NotValidForNameContext { .. }) => {
            format!("the peer's certificate is not for the host that was dialled ({error})")
        }
        Error::InvalidCertificate(_) => format!("the peer's certificate was refused: {error}"),
        Error::AlertReceived(AlertDescription::UnknownCA | AlertDescription::DecryptError) => {
            "the peer refused this side's certificate: it trusts no authority of it".to_owned()
        }
        Error::AlertReceived(AlertDescription::CertificateExpired) => {
            "the peer refused this side's certificate: it has expired".to_owned()
        }
        Error::AlertReceived(AlertDescription::CertificateRequired) => {
            "the peer demands a certificate, and this side showed none".to_owned()
        }
        Error::AlertReceived(alert) => format!("the peer refused the TLS handshake: {alert:?}"),
        other => other.to_string(),
    })
}
