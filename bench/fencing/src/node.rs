//! One process that contends: says `contends`, then `granted` when it leads, and leaves when its input ends.

use std::io::Write;

use lockkeeper_fencing::driver::{Etcd, LeaseFiles, ZooKeeper};
use lockkeeper_fencing::prelude::*;

use crate::place::{DriverName, Place};
use bench_harness::Failure;

/// The session's own time, whatever the machine's load takes.
pub fn run(place: &Place) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let service = start(place)?;
        let election = service.election(ComponentId::new("bench")?);
        election.start(Teller).await?;
        tell("contends");
        let input = tokio::task::spawn_blocking(|| std::io::stdin().lines().count());
        input.await?;
        service.close().await;
        Ok(())
    })
}

pub fn start(place: &Place) -> Result<LeaderElectionService, Failure> {
    let (options, session) = (LeaderElectionOptions::default(), place.session());
    Ok(match place.driver {
        DriverName::File => {
            let leases = LeaseFiles::new(&place.root).with_session(session);
            LeaderElectionService::start(leases, options)?
        }
        DriverName::ZooKeeper => {
            let ensemble = ZooKeeper::new(&place.server, &place.root)?;
            LeaderElectionService::start(ensemble.with_session(session), options)?
        }
        DriverName::Etcd => {
            let cluster = Etcd::new([format!("http://{}", place.server)], &place.root);
            LeaderElectionService::start(cluster.with_session(session), options)?
        }
    })
}

fn tell(what: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{what}").and_then(|()| out.flush());
}

struct Teller;

impl LeaderContender for Teller {
    fn grant_leadership(&mut self, _: Leadership) -> lockkeeper_fencing::election::Callback {
        tell("granted");
        Box::pin(async {})
    }

    fn revoke_leadership(&mut self) -> lockkeeper_fencing::election::Callback {
        tell("revoked");
        Box::pin(async {})
    }

    fn handle_error(&mut self, error: ElectionError) -> lockkeeper_fencing::election::Callback {
        eprintln!("{error}");
        Box::pin(async {})
    }
}
