//! Who is let in, and what is said when no answer comes: on an admin endpoint of the test's own.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use lockkeeper_consistent_region::admin::RegionAdmin;
use lockkeeper_consistent_region::coordinator::{CoordinatorSettings, RegionCoordinator};
use lockkeeper_consistent_region::point::Hook;
use lockkeeper_consistent_region::store::MemoryStore;
use lockkeeper_core::RpcService;
use lockkeeper_examples::settings::source::FileSourceSettings;
use lockkeeper_examples::word_count::graph::graph;
use lockkeeper_remote::{RemoteBuilder, RemoteBuilderExt, SharedKeys, Tls};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tokio::sync::oneshot;

use super::{Ran, lockkeeper};

/// An admin endpoint on a thread of its own, of a region that has no workers: its cuts never come.
struct Endpoint {
    address: String,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Endpoint {
    fn start(secure: impl FnOnce(RemoteBuilder) -> RemoteBuilder + Send + 'static) -> Self {
        let (tell, address) = std::sync::mpsc::channel();
        let (end, ended) = oneshot::channel::<()>();
        let serve = async move {
            let region = graph(
                "text".into(),
                1,
                FileSourceSettings::default(),
                1,
                Path::new("out"),
            )
            .unwrap();
            let coordinator = RegionCoordinator::start_local(
                CoordinatorSettings::for_region(&region),
                Arc::new(MemoryStore::new()),
                Hook::default(),
            )
            .unwrap();
            let builder = RpcService::builder().bind("127.0.0.1:0");
            let service = secure(builder).start().await.unwrap();
            let admin = RegionAdmin::new(coordinator).serve(&service).await.unwrap();
            tell.send(admin.address().to_string()).unwrap();
            // the end of the test, however it comes
            let _ = ended.await;
            service.terminate().await.unwrap();
        };
        let thread = std::thread::spawn(move || actix::System::new().block_on(serve));
        Self {
            address: address.recv().unwrap(),
            end: Some(end),
            thread: Some(thread),
        }
    }

    fn ask(&self, arguments: &[&str]) -> Ran {
        let all = ["region", "--address", &self.address].into_iter();
        lockkeeper(all.chain(arguments.iter().copied()))
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[test]
fn a_command_without_an_answer_is_exit_code_4() {
    let endpoint = Endpoint::start(|builder| builder);
    endpoint
        .ask(&["cut", "--time-out", "1"])
        .fails(4, "it may have been done");
}

#[test]
fn a_shared_key_is_read_from_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, key: &str| {
        let file = folder.path().join(name);
        std::fs::write(&file, key).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let right = file("right", "the new key of a test\nthe old key of a test\n");
    let wrong = file("wrong", "another key of a test\n");
    let short = file("short", "short\n");
    let endpoint = Endpoint::start(|builder| {
        builder.shared_keys(SharedKeys::new(["the old key of a test"]).unwrap())
    });
    endpoint.ask(&["status", "--key-file", &right]).done();
    endpoint
        .ask(&["status", "--key-file", &wrong, "--time-out", "5"])
        .fails(3, &endpoint.address);
    endpoint
        .ask(&["status", "--time-out", "5"])
        .fails(3, &endpoint.address);
    endpoint
        .ask(&["status", "--key-file", &short])
        .fails(2, &short);
    let none = folder.path().join("none");
    let none = none.to_str().unwrap();
    endpoint.ask(&["status", "--key-file", none]).fails(2, none);
}

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
