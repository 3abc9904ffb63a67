//! Who is let in and who is not: each refusal has its own name on both sides, soon.

use std::time::{Duration, Instant};

use lockkeeper_core::{RpcError, RpcErrorKind, RpcService};

use super::fixture::*;
use crate::builder::{RemoteBuilder, RemoteBuilderExt};

/// All refusals come within this: five times what is promised.
const SOON: Duration = Duration::from_secs(10);

type Set = fn(RemoteBuilder) -> RemoteBuilder;

#[cfg(any(feature = "shared-key", feature = "tls"))]
/// Lets one service dial another, and returns what each says of it.
async fn meet(
    dialler: impl FnOnce(RemoteBuilder) -> RemoteBuilder,
    acceptor: impl FnOnce(RemoteBuilder) -> RemoteBuilder,
) -> (RpcError, String) {
    let server = Service::start_with(acceptor).await;
    let client = Service::start_with(dialler).await;
    let begun = Instant::now();
    let error = client.connect(server.address()).await.unwrap_err();
    let refused = last_refusal(&server).await;
    assert!(
        begun.elapsed() < SOON,
        "after {:?}: {error}",
        begun.elapsed()
    );
    assert_eq!(error.outcome(), lockkeeper_core::Outcome::NotSent);
    (error, refused)
}

/// What the service said of the last stranger.
async fn last_refusal(server: &Service) -> String {
    let begun = Instant::now();
    loop {
        if let Some(last) = server.transport.shared().refusals.seen().last {
            return last;
        }
        assert!(begun.elapsed() < SOON, "the server refused nobody");
        tokio::task::yield_now().await;
    }
}

#[cfg(any(feature = "shared-key", feature = "tls"))]
async fn assert_comes_together(client: &Service, server: &Service) {
    let session = client.connect(server.address()).await.unwrap();
    assert_serves(&session).await;
}

/// Binds beyond loopback.
async fn bind_open(set: Set) -> Result<(), RpcError> {
    let builder = RpcService::builder()
        .bind("0.0.0.0:0")
        .advertise("127.0.0.1:0");
    set(builder).listen().await.map(|_| ())
}

#[tokio::test]
async fn beyond_loopback_strangers_have_to_be_kept_out_or_allowed_by_name() {
    let error = bind_open(|it| it).await.unwrap_err();
    assert_eq!(error.kind(), RpcErrorKind::InvalidConfiguration);
    for what in ["0.0.0.0", "tls", "shared_keys", "allow_insecure"] {
        assert!(error.text().contains(what), "{error}");
    }
    bind_open(|it| it.allow_insecure(true)).await.unwrap();
}

#[tokio::test]
async fn an_http_client_is_refused_by_name() {
    let server = Service::start().await;
    let mut peer = HandPeer::dial(&server.authority()).await;
    peer.say(b"POST /rpc HTTP/1.1\r\nHost: x\r\n\r\n").await;
    let refused = last_refusal(&server).await;
    assert!(refused.contains("HTTP"), "{refused}");
}

#[cfg(feature = "shared-key")]
mod shared_key {
    use super::*;
    use crate::SharedKeys;

    const OLD: &str = "an old key for the tests";
    const NEW: &str = "a new key for the tests";

    fn with(keys: &'static [&'static str]) -> impl Fn(RemoteBuilder) -> RemoteBuilder {
        move |builder| builder.shared_keys(SharedKeys::new(keys).unwrap())
    }

    #[tokio::test]
    async fn a_common_key_brings_two_services_together() {
        let server = Service::start_with(with(&[OLD])).await;
        let client = Service::start_with(with(&[OLD])).await;
        assert_comes_together(&client, &server).await;
        bind_open(|it| with(&[OLD])(it)).await.unwrap();
    }

    #[tokio::test]
    async fn a_key_is_changed_one_process_after_the_other() {
        let old = Service::start_with(with(&[OLD])).await;
        let both = Service::start_with(with(&[NEW, OLD])).await;
        let new = Service::start_with(with(&[NEW])).await;
        assert_comes_together(&both, &old).await;
        assert_comes_together(&new, &both).await;
        let old = Service::start_with(with(&[OLD])).await;
        let both = Service::start_with(with(&[NEW, OLD])).await;
        assert_comes_together(&old, &both).await;
        assert_comes_together(&both, &new).await;
    }

    #[tokio::test]
    async fn a_wrong_key_is_named_on_both_sides() {
        let (error, refused) = meet(with(&[NEW]), with(&[OLD])).await;
        assert_eq!(error.kind(), RpcErrorKind::Unauthorized);
        assert!(error.text().contains("refused this side"), "{error}");
        assert!(refused.contains("knows none of this side's"), "{refused}");
    }

    #[tokio::test]
    async fn a_missing_key_is_named_on_both_sides() {
        let (error, refused) = meet(|it| it, with(&[OLD])).await;
        assert_eq!(error.kind(), RpcErrorKind::Unauthorized);
        assert!(error.text().contains("demands a shared key"), "{error}");
        assert!(refused.contains("has no shared key"), "{refused}");
        let (error, refused) = meet(with(&[OLD]), |it| it).await;
        assert_eq!(error.kind(), RpcErrorKind::Unauthorized);
        assert!(error.text().contains("has no shared key"), "{error}");
        assert!(refused.contains("demands a shared key"), "{refused}");
    }

    #[tokio::test]
    async fn a_peer_that_only_claims_to_know_the_key_is_found_out() {
        let client = Service::start_with(with(&[OLD])).await;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let authority: lockkeeper_core::Authority = listener.local_addr().unwrap().into();
        let impostor = tokio::spawn(async move {
            let mut peer = HandPeer::new(listener.accept().await.unwrap().0);
            let theirs = peer.hear_preface().await;
            // Its own nonce, and its own proof, sent back.
            let preface = crate::wire::Preface {
                nonce: theirs.nonce,
                ..HandPeer::preface()
            };
            peer.say_preface(&preface).await;
            let proof = peer.hear_bytes(33).await;
            peer.say(&proof).await;
            peer
        });
        let error = client
            .connect(address(authority, "echo"))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), RpcErrorKind::Unauthorized);
        assert!(error.text().contains("claims to know"), "{error}");
        impostor.await.unwrap();
    }
}

#[cfg(feature = "tls")]
mod tls {
    use std::path::Path;

    use rcgen::{
        BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd,
    };
    use tempfile::TempDir;

    use super::*;
    use crate::Tls;

    struct Authority {
        certificate: String,
        issuer: Issuer<'static, KeyPair>,
    }

    impl Authority {
        fn new() -> Self {
            Self::named("an authority")
        }

        fn named(name: &str) -> Self {
            let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
            params.distinguished_name.push(DnType::CommonName, name);
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            let key = KeyPair::generate().unwrap();
            let certificate = params.self_signed(&key).unwrap().pem();
            Self {
                certificate,
                issuer: Issuer::new(params, key),
            }
        }

        /// A certificate and its key for a host, valid until the end of that year.
        fn issue(&self, host: &str, until: i32) -> (String, String) {
            let mut params = CertificateParams::new(vec![host.to_owned()]).unwrap();
            params.not_before = date_time_ymd(2019, 1, 1);
            params.not_after = date_time_ymd(until, 12, 31);
            let key = KeyPair::generate().unwrap();
            let certificate = params.signed_by(&key, &self.issuer).unwrap();
            (certificate.pem(), key.serialize_pem())
        }
    }

    const FAR: i32 = 2999;

    fn write(folder: &Path, (certificate, key): &(String, String), trusted: &Authority) {
        std::fs::write(folder.join("tls.crt"), certificate).unwrap();
        std::fs::write(folder.join("tls.key"), key).unwrap();
        std::fs::write(folder.join("ca.crt"), &trusted.certificate).unwrap();
    }

    fn tls_in(folder: &Path) -> Tls {
        let file = |name| folder.join(name);
        Tls::from_pem_files(file("tls.crt"), file("tls.key"), file("ca.crt")).unwrap()
    }

    /// A certificate of one authority, trusting another.
    fn tls(issued: &(String, String), trusted: &Authority) -> (TempDir, Tls) {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), issued, trusted);
        let tls = tls_in(folder.path());
        (folder, tls)
    }

    fn good(authority: &Authority) -> Tls {
        tls(&authority.issue("127.0.0.1", FAR), authority).1
    }

    #[tokio::test]
    async fn certificates_of_one_authority_bring_two_services_together() {
        let authority = Authority::new();
        let (one, two) = (good(&authority), good(&authority));
        let server = Service::start_with(|it| it.tls(one)).await;
        let client = Service::start_with(|it| it.tls(two)).await;
        assert_comes_together(&client, &server).await;
    }

    /// A certificate that nobody issued but itself.
    fn self_signed() -> (String, String) {
        let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    /// One's own certificate, and the only one that is let in.
    fn pinned(own: &(String, String), peer: &(String, String)) -> (TempDir, Tls) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("tls.crt"), &own.0).unwrap();
        std::fs::write(folder.path().join("tls.key"), &own.1).unwrap();
        std::fs::write(folder.path().join("ca.crt"), &peer.0).unwrap();
        let tls = tls_in(folder.path());
        (folder, tls)
    }

    #[tokio::test]
    async fn one_certificate_can_be_pinned_and_no_other_is_let_in() {
        let (ours, theirs, other) = (self_signed(), self_signed(), self_signed());
        let (_one, acceptor) = pinned(&ours, &theirs);
        let (_two, dialler) = pinned(&theirs, &ours);
        let server = Service::start_with(|it| it.tls(acceptor.clone())).await;
        let client = Service::start_with(|it| it.tls(dialler)).await;
        assert_comes_together(&client, &server).await;
        let (_three, stranger) = pinned(&other, &ours);
        let (error, _) = meet(|it| it.tls(stranger), |it| it.tls(acceptor)).await;
        assert_eq!(error.kind(), RpcErrorKind::Unauthorized);
    }

    #[tokio::test]
    async fn large_messages_pass_through_tls() {
        let authority = Authority::new();
        let (one, two) = (good(&authority), good(&authority));
        let server = Service::start_with(|it| it.tls(one)).await;
        let client = Service::start_with(|it| it.tls(two)).await;
        let session = client.connect(server.address()).await.unwrap();
        let payload = bytes::Bytes::from(vec![5; 5_000_000]);
        let answer = session.ask(call(ECHO, payload.clone())).await.unwrap();
        assert!(answer == payload);
    }

    #[tokio::test]
    async fn a_wrong_authority_is_named_on_both_sides() {
        // The other one may have the same name.
        for name in ["an authority", "another"] {
            let (ours, other) = (Authority::new(), Authority::named(name));
            // The dialler does not trust the acceptor.
            let server = good(&ours);
            let (_folder, client) = tls(&ours.issue("127.0.0.1", FAR), &other);
            let (error, refused) = meet(|it| it.tls(client), |it| it.tls(server)).await;
            assert_eq!(error.kind(), RpcErrorKind::Unauthorized);
            assert!(
                error.text().contains("of no authority that this side"),
                "{error}"
            );
            assert!(refused.contains("trusts no authority of it"), "{refused}");
            // The acceptor does not trust the dialler.
            let server = good(&ours);
            let (_folder, client) = tls(&other.issue("127.0.0.1", FAR), &ours);
            let (error, refused) = meet(|it| it.tls(client), |it| it.tls(server)).await;
            assert_eq!(error.kind(), RpcErrorKind::Unauthorized);
            assert!(
                error.text().contains("trusts no authority of it"),
                "{error}"
            );
            assert!(
                refused.contains("of no authority that this side"),
                "{refused}"
            );
        }
    }

    #[tokio::test]
    async fn an_expired_certificate_is_named_on_both_sides() {
        let authority = Authority::new();
        let server = good(&authority);
        let (_folder, client) = tls(&authority.issue("127.0.0.1", 2020), &authority);
        let (error, refused) = meet(|it| it.tls(client), |it| it.tls(server)).await;
        assert!(
            error
                .text()
                .contains("this side's certificate: it has expired"),
            "{error}"
        );
        assert!(
            refused.contains("the peer's certificate has expired"),
            "{refused}"
        );
        let (_folder, server) = tls(&authority.issue("127.0.0.1", 2020), &authority);
        let client = good(&authority);
        let (error, refused) = meet(|it| it.tls(client), |it| it.tls(server)).await;
        assert!(
            error.text().contains("the peer's certificate has expired"),
            "{error}"
        );
        assert!(
            refused.contains("this side's certificate: it has expired"),
            "{refused}"
        );
    }

    #[tokio::test]
    async fn a_certificate_is_for_the_host_that_was_dialled_or_for_the_name_that_is_set() {
        let authority = Authority::new();
        let issued = authority.issue("orders.example", FAR);
        let (_one, server) = tls(&issued, &authority);
        let client = good(&authority);
        let (error, _) = meet(|it| it.tls(client), |it| it.tls(server)).await;
        assert!(error.text().contains("not for the host"), "{error}");
        let (_two, server) = tls(&issued, &authority);
        let server = Service::start_with(|it| it.tls(server)).await;
        let named = good(&authority).server_name("orders.example").unwrap();
        let client = Service::start_with(|it| it.tls(named)).await;
        assert_comes_together(&client, &server).await;
    }

    #[tokio::test]
    async fn a_client_without_certificate_is_named_on_both_sides() {
        let authority = Authority::new();
        let tls = good(&authority);
        let server = Service::start_with(|it| it.tls(tls)).await;
        let mut roots = rustls::RootCertStore::empty();
        use rustls::pki_types::pem::PemObject;
        let pem = authority.certificate.as_bytes();
        roots
            .add(rustls::pki_types::CertificateDer::from_pem_slice(pem).unwrap())
            .unwrap();
        let provider = rustls::crypto::ring::default_provider();
        let config = rustls::ClientConfig::builder_with_provider(provider.into())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let address = server.authority();
        let socket = tokio::net::TcpStream::connect((address.host(), address.port()))
            .await
            .unwrap();
        let name = rustls::pki_types::ServerName::try_from("127.0.0.1").unwrap();
        let mut stream = tokio_rustls::TlsConnector::from(std::sync::Arc::new(config))
            .connect(name, socket)
            .await
            .unwrap();
        let begun = Instant::now();
        let read = tokio::io::AsyncReadExt::read(&mut stream, &mut [0; 16]).await;
        let error = crate::link::IntroductionError::from(read.unwrap_err());
        assert!(
            error.to_string().contains("demands a certificate"),
            "{error}"
        );
        let refused = last_refusal(&server).await;
        assert!(refused.contains("showed no certificate"), "{refused}");
        assert!(begun.elapsed() < SOON);
    }

    #[tokio::test]
    async fn plain_text_to_a_tls_port_is_named_on_both_sides() {
        let server = good(&Authority::new());
        let (error, refused) = meet(|it| it, |it| it.tls(server)).await;
        assert_eq!(error.kind(), RpcErrorKind::ProtocolViolation);
        assert!(
            error.text().contains("speaks TLS and this side does not"),
            "{error}"
        );
        assert!(
            refused.contains("does not speak TLS and this side does"),
            "{refused}"
        );
    }

    #[tokio::test]
    async fn tls_to_a_plain_port_is_named_on_both_sides() {
        let client = good(&Authority::new());
        let (error, refused) = meet(|it| it.tls(client), |it| it).await;
        assert_eq!(error.kind(), RpcErrorKind::ProtocolViolation);
        assert!(
            error
                .text()
                .contains("does not speak TLS and this side does"),
            "{error}"
        );
        assert!(
            refused.contains("speaks TLS and this side does not"),
            "{refused}"
        );
    }

    #[tokio::test]
    async fn an_http_client_at_a_tls_port_is_told_where_it_is() {
        let tls = good(&Authority::new());
        let server = Service::start_with(|it| it.tls(tls)).await;
        let mut peer = HandPeer::dial(&server.authority()).await;
        peer.say(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
        assert!(peer.hear_all().await.starts_with(b"HTTP/1.1 400 "));
        assert!(last_refusal(&server).await.contains("HTTP"));
    }

    #[tokio::test]
    async fn certificates_are_replaced_without_a_restart() {
        let (old, new) = (Authority::new(), Authority::new());
        let (folder, tls) = tls(&old.issue("127.0.0.1", FAR), &old);
        let server = Service::start_with(|it| it.tls(tls.clone())).await;
        let first = good(&old);
        let first = Service::start_with(|it| it.tls(first)).await;
        let session = first.connect(server.address()).await.unwrap();
        assert_serves(&session).await;
        // A file that is not whole changes nothing.
        std::fs::write(folder.path().join("tls.crt"), "").unwrap();
        let error = tls.reload().unwrap_err();
        assert!(error.text().contains("tls.crt"), "{error}");
        write(folder.path(), &new.issue("127.0.0.1", FAR), &new);
        tls.reload().unwrap();
        let second = good(&new);
        let second = Service::start_with(|it| it.tls(second)).await;
        assert_comes_together(&second, &server).await;
        let late = good(&old);
        let late = Service::start_with(|it| it.tls(late)).await;
        assert!(late.connect(server.address()).await.is_err());
        assert_serves(&session).await;
    }

    #[tokio::test]
    async fn a_key_of_another_certificate_is_refused_at_the_start() {
        let authority = Authority::new();
        let folder = tempfile::tempdir().unwrap();
        let (certificate, _) = authority.issue("127.0.0.1", FAR);
        let (_, key) = authority.issue("127.0.0.1", FAR);
        write(folder.path(), &(certificate, key), &authority);
        let file = |name| folder.path().join(name);
        let error =
            Tls::from_pem_files(file("tls.crt"), file("tls.key"), file("ca.crt")).unwrap_err();
        assert_eq!(error.kind(), RpcErrorKind::InvalidConfiguration);
        assert!(error.text().contains("tls.key"), "{error}");
        let error =
            Tls::from_pem_files(file("none.crt"), file("tls.key"), file("ca.crt")).unwrap_err();
        assert!(error.text().contains("none.crt"), "{error}");
    }

    #[cfg(feature = "shared-key")]
    #[tokio::test]
    async fn tls_and_a_shared_key_go_together() {
        let authority = Authority::new();
        let keys = || crate::SharedKeys::new(["a key under tls, for tests"]).unwrap();
        let (one, two, three) = (good(&authority), good(&authority), good(&authority));
        let server = Service::start_with(|it| it.tls(one).shared_keys(keys())).await;
        let client = Service::start_with(|it| it.tls(two).shared_keys(keys())).await;
        assert_comes_together(&client, &server).await;
        let without = Service::start_with(|it| it.tls(three)).await;
        let error = without.connect(server.address()).await.unwrap_err();
        assert!(error.text().contains("demands a shared key"), "{error}");
    }
}
