//! How a client and an etcd cluster know each other.

use std::fmt;

use etcd_client::{Certificate, Identity, TlsOptions};

/// TLS to an etcd cluster, for endpoints such as `https://host:2379`.
///
/// The cluster's certificates are checked against the authorities that are named here and no other:
/// those of the system do not count. Certificates and keys are read once; make a new driver for new
/// ones. What cannot be read is told by the first connection.
#[derive(Clone)]
pub struct EtcdTls {
    authorities: Vec<u8>,
    identity: Option<(Vec<u8>, Vec<u8>)>,
    server_name: Option<String>,
}

impl EtcdTls {
    /// Certificates of the authorities, one after the other as PEM.
    #[must_use]
    pub fn new(authorities: impl Into<Vec<u8>>) -> Self {
        EtcdTls {
            authorities: authorities.into(),
            identity: None,
            server_name: None,
        }
    }

    /// The own certificate (with the ones in between) and its key as PEM, for clusters that ask for it
    /// (`--client-cert-auth`).
    #[must_use]
    pub fn with_identity(
        mut self,
        certificate: impl Into<Vec<u8>>,
        key: impl Into<Vec<u8>>,
    ) -> Self {
        self.identity = Some((certificate.into(), key.into()));
        self
    }

    /// The name that the cluster's certificates have, if it is not the host of the endpoints.
    #[must_use]
    pub fn with_server_name(mut self, name: impl Into<String>) -> Self {
        self.server_name = Some(name.into());
        self
    }

    pub(crate) fn options(&self) -> TlsOptions {
        let authorities = Certificate::from_pem(&self.authorities);
        let mut options = TlsOptions::new().ca_certificate(authorities);
        if let Some((certificate, key)) = &self.identity {
            options = options.identity(Identity::from_pem(certificate, key));
        }
        if let Some(name) = &self.server_name {
            options = options.domain_name(name);
        }
        options
    }
}

/// Without keys.
impl fmt::Debug for EtcdTls {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("EtcdTls")
            .field("identity", &self.identity.is_some())
            .field("server_name", &self.server_name)
            .finish_non_exhaustive()
    }
}
