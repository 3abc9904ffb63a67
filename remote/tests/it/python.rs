//! A client in another language, written from `docs/wire.md` alone.

use std::process::Command;

use lockkeeper_core::RpcErrorKind;

use crate::support::*;

#[actix::test]
async fn a_client_written_from_the_page_talks_to_an_endpoint() {
    let python = Command::new("python3").arg("--version").output();
    if !python.is_ok_and(|output| output.status.success()) {
        assert!(
            std::env::var_os("CI").is_none(),
            "CI has no python3: nothing was tested"
        );
        eprintln!("skipped: there is no python3 to run client.py");
        return;
    }
    let (_one, server, _two) = pair().await;
    let address = server.address();
    let authority = address.authority().unwrap();
    let (host, port) = (authority.host().to_owned(), authority.port().to_string());
    let output = tokio::task::spawn_blocking(move || {
        Command::new("python3")
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/client.py"))
            .args([host.as_str(), &port, "counter", "test.Counter", "1"])
            .output()
            .unwrap()
    });
    let output = soon(output).await.unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let expected = format!(
        "refused {} 1\ntotal 5\ntotal 10\ntotal 12\necho 93010203\nfailure {} 1\ngoodbye True\n",
        RpcErrorKind::NoSuchEndpoint.code(),
        RpcErrorKind::Decode.code(),
    );
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
}
