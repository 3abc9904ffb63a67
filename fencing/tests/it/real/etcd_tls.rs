//! etcd by TLS, on a server of the test's own that asks its clients for certificates.

use std::path::PathBuf;
use std::time::Duration;

use lockkeeper_fencing::driver::{Etcd, EtcdTls};
use lockkeeper_fencing::election::{
    ComponentId, ElectionError, LeaderElectionOptions, LeaderElectionService,
};
use lockkeeper_fencing::guard::{Creation, EtcdGuardStore, GuardError, GuardStore};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tokio::sync::mpsc::unbounded_channel;

use super::servers::{self, Server, ServerTls};
use super::{address, free_port};
use crate::told::{Recorder, Told, contend, granted};

const LIMIT: Duration = Duration::from_secs(120);

struct Authority {
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(params, key);
        Authority {
            certificate,
            issuer,
        }
    }

    /// A certificate for a host, and its key.
    fn issue(&self, host: &str) -> (String, String) {
        let params = CertificateParams::new(vec![host.to_owned()]).unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    }
}

/// An etcd whose certificate is by `authority`, and that trusts clients of it.
fn secure_etcd(authority: &Authority, folder: &tempfile::TempDir) -> Server {
    let write = |name: &str, text: &str| -> PathBuf {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let (certificate, key) = authority.issue("127.0.0.1");
    let tls = ServerTls {
        certificate: &write("server.crt", &certificate),
        key: &write("server.key", &key),
        client_authorities: &write("ca.crt", &authority.certificate),
    };
    servers::etcd(format!("127.0.0.1:{}", free_port()), None, Some(tls))
}

fn driver(server: &Server, tls: &EtcdTls) -> Etcd {
    Etcd::new([format!("https://{}", server.address)], "/tls").with_tls(tls.clone())
}

#[tokio::test]
async fn leaders_and_their_stores_reach_an_etcd_that_asks_for_certificates() {
    let test = "leaders_and_their_stores_reach_an_etcd_that_asks_for_certificates";
    if address("LOCKKEEPER_ETCD", test).is_none() {
        return;
    }
    let (authority, folder) = (Authority::new("ours"), tempfile::tempdir().unwrap());
    let mut server = secure_etcd(&authority, &folder);
    server.start();
    let (certificate, key) = authority.issue("leader");
    let known = EtcdTls::new(authority.certificate.clone()).with_identity(certificate, key);
    let (service, mut told) = contend(driver(&server, &known)).await;
    granted(&mut told).await;
    let url = format!("https://{}", server.address);
    let store = EtcdGuardStore::new([&url], "series/").unwrap();
    let store = store.with_tls(known.clone());
    let created = store.create_if_absent("fence-1", b"").unwrap();
    assert_eq!(created, Creation::Created);

    // The server is there, so it is the certificates that do not fit.
    let stranger = Authority::new("a stranger");
    let nobody = EtcdTls::new(authority.certificate.clone());
    let (certificate, key) = stranger.issue("leader");
    let unknown = nobody.clone().with_identity(certificate, key);
    let elsewhere = EtcdTls::new(stranger.certificate);
    for tls in [nobody, unknown, elsewhere] {
        let (refused, mut told) = contend(driver(&server, &tls)).await;
        let first = tokio::time::timeout(LIMIT, told.recv()).await.unwrap();
        assert!(
            matches!(first, Some(Told::Failed(ElectionError::Unavailable { .. }))),
            "{tls:?}: {first:?}"
        );
        refused.close().await;
    }
    service.close().await;
}

/// The client would speak in the clear, and say nothing.
#[tokio::test]
async fn tls_to_an_endpoint_in_the_clear_is_refused() {
    let tls = EtcdTls::new(Authority::new("ours").certificate);
    let plain = Etcd::new(["http://127.0.0.1:1"], "/tls").with_tls(tls.clone());
    let options = LeaderElectionOptions::default();
    let service = LeaderElectionService::start(plain, options).unwrap();
    let election = service.election(ComponentId::new("tls").unwrap());
    let refused = election.start(Recorder(unbounded_channel().0)).await;
    let refused = refused.unwrap_err();
    assert!(
        matches!(
            refused,
            ElectionError::InvalidOption {
                option: "endpoints",
                ..
            }
        ),
        "{refused}"
    );
    let store = EtcdGuardStore::new(["http://127.0.0.1:1"], "series/").unwrap();
    let refused = store.with_tls(tls).create_if_absent("fence-1", b"");
    let refused = refused.unwrap_err();
    assert!(
        matches!(refused, GuardError::NotWritten { .. }) && refused.to_string().contains("https"),
        "{refused}"
    );
    service.close().await;
}
