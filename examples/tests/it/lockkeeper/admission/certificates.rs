//! Certificates: who shows none, or one of another authority, is not let in.

use std::path::{Path, PathBuf};

use lockkeeper_remote::Tls;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use super::Endpoint;

/// An authority, and certificates that it has signed.
struct Authority {
    folder: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new(folder: &Path, name: &str) -> Self {
        let folder = folder.join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::new(Vec::new()).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = parameters.self_signed(&key).unwrap();
        std::fs::write(folder.join("ca.crt"), certificate.pem()).unwrap();
        let issuer = Issuer::new(parameters, key);
        let authority = Self { folder, issuer };
        authority.sign();
        authority
    }

    /// A certificate for this host.
    fn sign(&self) {
        let key = KeyPair::generate().unwrap();
        let parameters = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let certificate = parameters.signed_by(&key, &self.issuer).unwrap();
        std::fs::write(self.folder.join("tls.crt"), certificate.pem()).unwrap();
        std::fs::write(self.folder.join("tls.key"), key.serialize_pem()).unwrap();
    }

    fn file(&self, name: &str) -> String {
        self.folder.join(name).to_str().unwrap().to_owned()
    }

    fn arguments(&self) -> [String; 6] {
        [
            "--tls-certificate-file".to_owned(),
            self.file("tls.crt"),
            "--tls-key-file".to_owned(),
            self.file("tls.key"),
            "--tls-authorities-file".to_owned(),
            self.file("ca.crt"),
        ]
    }
}

#[test]
fn certificates_are_shown_and_demanded() {
    let folder = tempfile::tempdir().unwrap();
    let ours = Authority::new(folder.path(), "ours");
    let strangers = Authority::new(folder.path(), "strangers");
    let (certificate, key, authorities) = (
        ours.file("tls.crt"),
        ours.file("tls.key"),
        ours.file("ca.crt"),
    );
    let endpoint = Endpoint::start(move |builder| {
        builder.tls(Tls::from_pem_files(certificate, key, authorities).unwrap())
    });
    let ask = |arguments: &[String], more: &[&str]| {
        let arguments = arguments.iter().map(String::as_str);
        let arguments: Vec<&str> = ["status"]
            .into_iter()
            .chain(arguments)
            .chain(more.iter().copied())
            .collect();
        endpoint.ask(&arguments)
    };
    ask(&ours.arguments(), &[]).done();
    ask(&strangers.arguments(), &["--time-out", "5"]).fails(3, &endpoint.address);
    ask(&[], &["--time-out", "5"]).fails(3, &endpoint.address);
    ask(&ours.arguments()[..2], &[]).fails(2, "--tls-key-file");
}
