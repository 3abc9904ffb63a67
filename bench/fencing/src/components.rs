//! A thousand components on one service: one session, and how long until all lead.

use std::time::{Duration, Instant};

use lockkeeper_fencing::election::Callback;
use lockkeeper_fencing::prelude::*;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::node;
use crate::place::{DriverName, Place};
use crate::server::ZooKeeper;
use bench_harness::Failure;
use bench_harness::report::{Figure, Goal};

const COMPONENTS: usize = 1_000;

pub fn measure(server: &ZooKeeper) -> Result<Vec<Figure>, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let sessions = server.count("zk_num_alive_connections")?;
        let watches = server.count("zk_watch_count")?;
        let place = Place::on(DriverName::ZooKeeper, &server.address);
        let (sender, mut granted) = unbounded_channel();
        let service = node::start(&place)?;
        let began = Instant::now();
        for number in 0..COMPONENTS {
            let election = service.election(ComponentId::new(format!("component-{number}"))?);
            election.start(Counted(sender.clone())).await?;
        }
        let mut leaderships = Vec::new();
        while leaderships.len() < COMPONENTS {
            let limit = Duration::from_secs(120);
            let next = tokio::time::timeout(limit, granted.recv()).await?;
            leaderships.push(next.ok_or("the election has ended")?);
        }
        let elapsed = began.elapsed().as_secs_f64() * 1_000.0;
        // This question is a connection too.
        let sessions = server
            .count("zk_num_alive_connections")?
            .saturating_sub(sessions);
        let watches = server.count("zk_watch_count")?.saturating_sub(watches);
        service.close().await;
        let figure = |name: &str, unit, goal, value: f64| {
            Figure::new(name, unit, Goal::AtMost(goal), Some(value)).runs(1)
        };
        let count = |number: u64| number.to_string().parse::<f64>();
        Ok(vec![
            figure("fencing.components.1000.granted_ms", "ms", 1_000.0, elapsed),
            figure(
                "fencing.components.1000.sessions",
                "",
                1.0,
                count(sessions)?,
            ),
            figure(
                "fencing.components.1000.watches",
                "",
                1_000.0,
                count(watches)?,
            ),
        ])
    })
}

struct Counted(UnboundedSender<FencingToken>);

impl LeaderContender for Counted {
    fn grant_leadership(&mut self, leadership: Leadership) -> Callback {
        let _ = self.0.send(leadership.token);
        Box::pin(async {})
    }

    fn revoke_leadership(&mut self) -> Callback {
        Box::pin(async {})
    }

    fn handle_error(&mut self, error: ElectionError) -> Callback {
        eprintln!("{error}");
        Box::pin(async {})
    }
}
