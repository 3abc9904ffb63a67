//! Tests on real servers, whose addresses are in the environment (`tests/services/up` prints them), and
//! on servers that they start themselves where those are.

#[cfg(feature = "etcd")]
mod etcd;
#[cfg(feature = "etcd")]
mod etcd_tls;
#[cfg(any(feature = "redis", feature = "etcd", feature = "zookeeper"))]
mod guard_stores;
#[cfg(all(feature = "etcd", feature = "zookeeper"))]
mod partition;
#[cfg(any(feature = "etcd", feature = "zookeeper"))]
mod servers;
#[cfg(any(feature = "etcd", feature = "zookeeper"))]
mod stopped;
#[cfg(any(feature = "etcd", feature = "zookeeper"))]
mod suspension;
#[cfg(feature = "zookeeper")]
mod zookeeper;

/// A server's address; `None` after saying that the test is skipped.
#[cfg(any(feature = "redis", feature = "etcd", feature = "zookeeper"))]
fn address(variable: &str, test: &str) -> Option<String> {
    if let Ok(address) = std::env::var(variable) {
        return Some(address);
    }
    let in_ci = std::env::var("CI").is_ok_and(|value| value == "true");
    assert!(
        !in_ci,
        "{variable} is not set, and in CI nothing may be skipped"
    );
    say(&format!("SKIPPED {test}: set {variable}=host:port"));
    None
}

/// A port for a server that can't be given port 0. It is none of those that systems hand out for port 0
/// and for connections: nobody gets it by chance before the server starts, or while it is away.
#[cfg(any(feature = "redis", feature = "etcd", feature = "zookeeper"))]
fn free_port() -> u16 {
    loop {
        let port = fastrand::u16(10_000..32_000);
        if std::net::TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// Says it also where the test passes: what is printed then is not shown.
#[cfg(any(feature = "redis", feature = "etcd", feature = "zookeeper"))]
fn say(what: &str) {
    use std::io::Write;

    let _ = writeln!(std::io::stderr(), "{what}");
}
