//! `lockkeeper region`: finds the coordinator that leads, and asks it.

use std::fmt::Write as _;
use std::time::{Duration, UNIX_EPOCH};

use actix::Message;
use lockkeeper_consistent_region::admin::{
    ADMIN_ENDPOINT, AdminRefused, ForgetSavepoint, GetRegion, PauseSources, RegionAdminGateway,
    RegionReport, ResetDone, ResetRegion, RestoreSavepoint, ResumeSources, StopRegion, TakeCut,
    TakeSavepoint,
};
use lockkeeper_consistent_region::coordinator::{CommandRefused, RegionState};
use lockkeeper_core::gateway::Carries;
use lockkeeper_core::{Gateway, RpcAddress};
use serde::Serialize;
use serde_json::json;

use super::Shown;
use super::connection::Connection;
use super::ending::{Ending, Failure};
use super::options::{ConnectionOptions, RegionCommand};

/// A coordinator that has answered.
struct Coordinator {
    address: RpcAddress,
    gateway: Gateway<RegionAdminGateway>,
    report: RegionReport,
}

pub(super) async fn run(
    options: &ConnectionOptions,
    command: &RegionCommand,
) -> Result<Shown, Failure> {
    let connection = Connection::open(options, ADMIN_ENDPOINT).await?;
    let shown = carry_out(&connection, command).await;
    connection.close().await;
    shown
}

/// A coordinator that leads.
#[derive(Debug, Serialize)]
pub(super) struct Leader {
    pub(super) address: String,
    pub(super) region: String,
    pub(super) term: u64,
}

/// Which of those who contend leads.
pub(super) async fn leader(options: &ConnectionOptions) -> Result<Leader, Failure> {
    let connection = Connection::open(options, ADMIN_ENDPOINT).await?;
    let found = find(&connection).await;
    connection.close().await;
    let Coordinator {
        address, report, ..
    } = found?;
    if !report.leads {
        return Err(nobody());
    }
    Ok(Leader {
        address: address.to_string(),
        region: report.status.region,
        term: report.status.term,
    })
}

fn nobody() -> Failure {
    Failure::refused("nobody who was asked leads the region: an election may be under way")
}

async fn carry_out(connection: &Connection, command: &RegionCommand) -> Result<Shown, Failure> {
    let coordinator = find(connection).await?;
    if let RegionCommand::Status = command {
        return status(&coordinator);
    }
    if !coordinator.report.leads {
        return Err(nobody());
    }
    let region = &coordinator.report.status.region;
    match command {
        RegionCommand::Status => status(&coordinator),
        RegionCommand::Cut => {
            let cut = ask(connection, &coordinator, "the cut", TakeCut).await?;
            let (pause, took) = (milliseconds(cut.pause), milliseconds(cut.took));
            let text = format!(
                "region {region}: cut {} is complete; it took {took} ms, tuples stood still for {pause} ms, {} bytes\n",
                cut.seq, cut.bytes
            );
            let json = json!({"region": region, "cut": cut.seq, "took_ms": took, "pause_ms": pause, "bytes": cut.bytes});
            Shown::new(Ending::Done, text, &json)
        }
        RegionCommand::Reset { force, reason } => {
            let reset = ResetRegion {
                force: *force,
                reason: reason.clone(),
            };
            let done = ask(connection, &coordinator, "the reset", reset).await?;
            went_back(region, &done)
        }
        RegionCommand::Pause => {
            ask(connection, &coordinator, "the pause", PauseSources).await?;
            let text = format!(
                "region {region}: the sources are paused, each with its worker's next heartbeat, until they are resumed or term {} ends\n",
                coordinator.report.status.term
            );
            Shown::new(
                Ending::Done,
                text,
                &json!({"region": region, "paused": true}),
            )
        }
        RegionCommand::Resume => {
            ask(connection, &coordinator, "going on", ResumeSources).await?;
            let text = format!(
                "region {region}: the sources go on, each with its worker's next heartbeat\n"
            );
            Shown::new(
                Ending::Done,
                text,
                &json!({"region": region, "paused": false}),
            )
        }
        RegionCommand::Savepoint { name } => {
            let name = name.clone();
            let kept = ask(
                connection,
                &coordinator,
                "the savepoint",
                TakeSavepoint { name },
            )
            .await?;
            let text = format!(
                "region {region}: cut {} is kept as {:?}\n",
                kept.seq, kept.name
            );
            let json = json!({"region": region, "savepoint": kept.name, "cut": kept.seq});
            Shown::new(Ending::Done, text, &json)
        }
        RegionCommand::Restore { name } => {
            let name = name.clone();
            let restore = RestoreSavepoint { name };
            let done = ask(connection, &coordinator, "the way back", restore).await?;
            went_back(region, &done)
        }
        RegionCommand::Forget { name } => {
            let forget = ForgetSavepoint { name: name.clone() };
            ask(connection, &coordinator, "forgetting", forget).await?;
            let text = format!("region {region}: there is no savepoint {name:?} any more\n");
            Shown::new(
                Ending::Done,
                text,
                &json!({"region": region, "forgotten": name}),
            )
        }
        RegionCommand::Stop { savepoint } => {
            let savepoint = savepoint.clone();
            let ended = ask(
                connection,
                &coordinator,
                "the stop",
                StopRegion { savepoint },
            )
            .await?;
            let text = format!("region {region}: has ended with cut {}\n", ended.seq);
            Shown::new(
                Ending::Done,
                text,
                &json!({"region": region, "cut": ended.seq}),
            )
        }
    }
}

/// The coordinator that leads; if none does, one that answered.
async fn find(connection: &Connection) -> Result<Coordinator, Failure> {
    let (mut other, mut errors) = (None, String::new());
    for address in &connection.addresses {
        let asked = async {
            let gateway = connection.to::<RegionAdminGateway>(address).await?;
            let question = gateway.send(GetRegion).timeout(connection.question);
            let report = question.await?;
            Ok::<_, lockkeeper_core::RpcError>(Coordinator {
                address: address.clone(),
                gateway,
                report,
            })
        };
        match asked.await {
            Ok(coordinator) if coordinator.report.leads => return Ok(coordinator),
            Ok(coordinator) => other = Some(coordinator),
            Err(error) => {
                let _ = write!(errors, "\n  {address}: {error}");
            }
        }
    }
    other.ok_or_else(|| Failure::unreachable(format!("no coordinator answers:{errors}")))
}

async fn ask<M, T>(
    connection: &Connection,
    coordinator: &Coordinator,
    what: &str,
    command: M,
) -> Result<T, Failure>
where
    M: Message<Result = Result<T, AdminRefused>> + Send + 'static,
    T: Send + 'static,
    RegionAdminGateway: Carries<M>,
{
    let asked = coordinator.gateway.send(command).timeout(connection.limit);
    match asked.await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(refused)) => Err(Failure::refused(format!("{what}: {}", explain(&refused)))),
        Err(error) => Err(Failure::of_call(what, &error)),
    }
}

fn explain(refused: &AdminRefused) -> String {
    let hint = match refused {
        AdminRefused::Command(CommandRefused::Failed { .. }) => {
            ": mend the reason, then `lockkeeper region reset --force`"
        }
        _ => "",
    };
    format!("{refused}{hint}")
}

fn went_back(region: &str, done: &ResetDone) -> Result<Shown, Failure> {
    let ResetDone {
        attempt,
        restored,
        took,
    } = done;
    let took = milliseconds(*took);
    let text =
        format!("region {region}: goes on from cut {restored} (reset {attempt}, {took} ms)\n");
    let json = json!({"region": region, "reset": attempt, "cut": restored, "took_ms": took});
    Shown::new(Ending::Done, text, &json)
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn status(coordinator: &Coordinator) -> Result<Shown, Failure> {
    let RegionReport { leads, status } = &coordinator.report;
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        // a String takes everything
        let _ = writeln!(text, "{name:<10} {value}");
    };
    line("region", status.region.clone());
    let address = &coordinator.address;
    match leads {
        true => line("leader", format!("{address}, term {}", status.term)),
        false => line(
            "leader",
            format!("NOBODY who was asked; as {address} knew it last:"),
        ),
    }
    line(
        "state",
        match &status.reason {
            Some(reason) => format!("{:?}: {reason}", status.state),
            None => format!("{:?}", status.state),
        },
    );
    let (completed, oldest) = (status.completed, status.oldest_retained);
    line(
        "cuts",
        format!(
            "{completed} is complete, tuples belong to {}, the oldest that is kept is {oldest}",
            status.seq
        ),
    );
    let consecutive = status.consecutive_resets;
    line(
        "resets",
        format!(
            "{} in all, {consecutive} since the last cut",
            status.attempt
        ),
    );
    for worker in &status.workers {
        let instances: Vec<String> = worker.instances.iter().map(ToString::to_string).collect();
        let place = match worker.address.as_str() {
            "" => "in the same process",
            address => address,
        };
        line(
            "worker",
            format!("{}: {}; {place}", worker.worker, instances.join(" ")),
        );
    }
    if let Some(since) = status.sources_paused_since_unix_ms {
        let since = UNIX_EPOCH + Duration::from_millis(since);
        let since = humantime::format_rfc3339_seconds(since);
        line(
            "PAUSED",
            format!("the sources take nothing in, since {since}"),
        );
    }
    let waiting: Vec<String> = status.waiting.iter().map(ToString::to_string).collect();
    if !waiting.is_empty() {
        line(
            "WAITING",
            format!("{} (without a worker)", waiting.join(" ")),
        );
    }
    let is_in_order =
        *leads && !matches!(status.state, RegionState::Failed | RegionState::Unhealthy);
    let ending = match is_in_order {
        true => Ending::Done,
        false => Ending::Refused,
    };
    let json = json!({"leads": leads, "address": address.to_string(), "status": status});
    Shown::new(ending, text, &json)
}
