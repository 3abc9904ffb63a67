//! Tests on real servers, whose addresses are in the environment (`tests/services/up` prints them).

#[cfg(feature = "etcd")]
mod etcd;
#[cfg(any(feature = "redis", feature = "etcd", feature = "zookeeper"))]
mod guard_stores;
#[cfg(feature = "etcd")]
mod partitions;
#[cfg(any(feature = "etcd", feature = "zookeeper"))]
mod stopped;
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
    println!("SKIPPED {test}: set {variable}=host:port");
    None
}
