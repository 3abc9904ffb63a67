//! Curator's `LeaderLatch` on the same ZooKeeper, with the same session.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::failover::{self, Contenders};
use crate::place::{DriverName, Place};
use crate::server::ZooKeeper;
use bench_harness::Failure;
use bench_harness::report::{Figure, median};

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/curator");

/// Adds what Curator takes to the figures of ours. Without Maven they stand alone, and it is said.
pub fn beside(figures: &mut [Figure], server: &ZooKeeper, runs: usize) -> Result<(), Failure> {
    let jars = tempfile::tempdir()?;
    let built = Command::new("mvn")
        .args(["-q", "-B", "-f", &format!("{SOURCE}/pom.xml")])
        .arg(format!("-DoutputDirectory={}", jars.path().display()))
        .arg("dependency:copy-dependencies")
        .stdout(Stdio::inherit())
        .status();
    if !built.is_ok_and(|status| status.success()) {
        println!("Curator is not measured: Maven did not give its jars");
        return Ok(());
    }
    let place = Place::on(DriverName::ZooKeeper, &server.address);
    let session = place.session_ms();
    let latch = |_: usize| Ok(contender(jars.path(), &place));
    // A JVM takes longer to begin than a fail-over lasts.
    let runs = runs.div_ceil(3);
    let killed = failover::measure("Curator killed", runs, Contenders::Killed, &latch)?;
    let left = failover::measure("Curator left", runs, Contenders::Left, &latch)?;
    for figure in figures {
        match figure.name.as_str() {
            "fencing.failover.zookeeper.over_session_ms" => {
                let over = median(killed.iter().copied()) - session;
                figure.peers.insert("curator".to_owned(), over);
            }
            "fencing.failover.zookeeper.graceful_p50_ms" => {
                let time = median(left.iter().copied());
                figure.peers.insert("curator".to_owned(), time);
            }
            _ => {}
        }
    }
    Ok(())
}

fn contender(jars: &Path, place: &Place) -> Command {
    let mut latch = Command::new("java");
    latch
        .args(["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx64m"])
        .args(["-cp", &format!("{}/*", jars.display())])
        .arg(format!("{SOURCE}/LeaderLatchNode.java"))
        .args([place.server.as_str(), place.root.as_str()])
        .arg(place.session().as_millis().to_string());
    latch
}
