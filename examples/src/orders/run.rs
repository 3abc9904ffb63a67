//! One run of the job, from the command line to the figures.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use lockkeeper_canal::testing::CanalServer;
use lockkeeper_consistent_region::point::Point;
use tokio::sync::mpsc;

use super::chaos::{self, Kill};
use super::cluster::{Cluster, End};
use super::console::{self, Serving};
use super::database::{self, TableName};
use super::embedded;
use super::job::Job;
use super::judge::Verdict;
use super::options::Options;
use super::outcome::{Measured, Outcome};
use super::overview::{Overview, Wish};
use super::report::Report;
use super::script::Script;
use super::truth::Truth;
use crate::settings::Settings;
use crate::settings::election::{ElectionDriver, ElectionSettings};
use crate::{note, say};

/// How a run ended.
#[derive(Debug)]
pub struct Finished {
    /// The figures; of a run without a verdict what the judge finds is left at zero.
    pub outcome: Outcome,
    /// What the judge said; `None` when the job was interrupted or there is no truth to compare with.
    pub verdict: Option<Verdict>,
    /// The job's folder.
    pub data: PathBuf,
}

impl Finished {
    /// For people: what happened, in a few lines.
    #[must_use]
    pub fn summary(&self) -> String {
        let outcome = &self.outcome;
        let verdict = match &self.verdict {
            Some(verdict) if verdict.is_right() => "every customer's total equals the source's own",
            Some(_) => "THE OUTPUT IS WRONG",
            None => "not compared with the source",
        };
        format!(
            "{} row changes of {} customers in {:.1} s ({:.0} a second), {} cuts, {} resets\n\
             killed: {} workers, {} leaders, at {}\n\
             recovered in: worker {} ms, leader {} ms; longest pause {} ms\n\
             lost {}, duplicated {}: {verdict}\n\
             output in {}",
            outcome.rows,
            outcome.customers,
            outcome.seconds,
            outcome.rows_per_s,
            outcome.cuts,
            outcome.resets,
            outcome.worker_kills,
            outcome.leader_kills,
            if outcome.kill_points.is_empty() {
                "no point".to_owned()
            } else {
                outcome.kill_points.join(", ")
            },
            outcome.worker_recovery_ms,
            outcome.leader_recovery_ms,
            outcome.max_pause_ms,
            outcome.lost,
            outcome.duplicated,
            self.data.join("out").display(),
        )
    }
}

/// Runs the job.
///
/// # Errors
/// Usage and environment: the job could not be run to its end.
pub async fn run(options: &Options) -> anyhow::Result<Finished> {
    let mut settings = options.settings()?;
    let is_embedded = settings.canal.addresses.is_empty();
    let data = folder(options)?;
    let begun = data.join("job.json").exists();
    let table = options.table.clone().unwrap_or(TableName {
        schema: "shop".to_owned(),
        table: "orders".to_owned(),
    });
    let embedded = embedded_source(options, &settings, &data, &table, begun)?;
    if !begun {
        check_table_is_empty(options, &table).await?;
    }
    if let Some(server) = &embedded {
        settings.canal.addresses = vec![server.address().to_string()];
    }
    settings.election.root = root(&settings, &data);
    let shown = (
        shown_source(&settings, is_embedded),
        shown_election(&settings),
    );
    let job = write_job(options, &data, settings, table.clone(), begun)?;
    write_truth(options, &data, table, is_embedded)?;
    let (console, overview) = serve_console(options)?.unzip();
    let cluster = Cluster::start(&data, options.workers, plan(options)?, overview)?;
    let (end, measured) = cluster
        .run(announce(job), show_progress(!options.no_chaos))
        .await?;
    if let Some(console) = console {
        console.stop().await;
    }
    if let Some(server) = embedded {
        server.stop();
    }
    match &end {
        End::Failed(reason) => note!("orders: the region failed: {reason}"),
        End::Interrupted => note!(
            "orders: ended with a final cut; start it again with --data {} to go on",
            data.display()
        ),
        End::Completed => {}
    }
    let has_truth = is_embedded || options.expect_sql.is_some();
    let verdict = match end {
        End::Interrupted => None,
        End::Completed if !has_truth => None,
        End::Failed(reason) if !has_truth => bail!("the region failed: {reason}"),
        End::Completed | End::Failed(_) => Some(verify(&data)?),
    };
    Ok(Finished {
        outcome: figures(
            options,
            shown,
            measured,
            &verdict.clone().unwrap_or_default(),
        ),
        verdict,
        data,
    })
}

/// Serves the console, if one is wanted, and says where.
fn serve_console(options: &Options) -> anyhow::Result<Option<(Serving, ToBeShown)>> {
    let Some(address) = options.console else {
        return Ok(None);
    };
    let token = console::read_token(options.console_token_file.as_deref())?;
    let (overview, wishes) = Overview::new();
    let serving = console::serve(overview.registry(), address, token)?;
    say!("console http://{}/", serving.address());
    Ok(Some((serving, (overview, wishes))))
}

/// An overview, and what its processes are to be asked.
type ToBeShown = (Overview, mpsc::UnboundedReceiver<Wish>);

fn folder(options: &Options) -> anyhow::Result<PathBuf> {
    let data = match &options.data {
        Some(data) => data.clone(),
        None => std::env::temp_dir().join(format!("lockkeeper-orders-{}", std::process::id())),
    };
    std::fs::create_dir_all(&data).with_context(|| data.display().to_string())?;
    Ok(data.canonicalize()?)
}

fn embedded_source(
    options: &Options,
    settings: &Settings,
    data: &Path,
    table: &TableName,
    begun: bool,
) -> anyhow::Result<Option<CanalServer>> {
    if !settings.canal.addresses.is_empty() {
        return Ok(None);
    }
    if begun {
        bail!(
            "{} holds a job already, and the embedded source ended with its process: \
             give an empty --data",
            data.display()
        );
    }
    let slots = usize::try_from(settings.source.canal.server_buffer_entries)?;
    let script = Script::new(options.seed, options.rows);
    Ok(Some(embedded::start(
        &settings.canal.destination,
        table,
        script,
        slots,
    )?))
}

/// Rows from before can't be counted: Canal has no snapshot.
async fn check_table_is_empty(options: &Options, table: &TableName) -> anyhow::Result<()> {
    let Some(url) = &options.expect_sql else {
        return Ok(());
    };
    let mut connection = database::connect(url).await?;
    match database::count_rows(&mut connection, table).await? {
        0 => Ok(()),
        rows => bail!("{table} holds {rows} rows already: the job must begin with an empty table"),
    }
}

fn write_job(
    options: &Options,
    data: &Path,
    settings: Settings,
    table: TableName,
    begun: bool,
) -> anyhow::Result<Job> {
    let job = Job {
        data: data.to_owned(),
        settings,
        table,
        width: options.workers.max(2),
        sabotage: options.sabotage,
        workers: options.workers,
    };
    if begun {
        job.open_store()?;
    } else {
        job.make_store()?;
    }
    job.write()?;
    Ok(job)
}

/// The one that is set; else the same for a job that goes on, another for every other job.
fn root(settings: &Settings, data: &Path) -> String {
    if settings.election.root != ElectionSettings::default().root {
        return settings.election.root.clone();
    }
    match Job::read(data) {
        Ok(job) => job.settings.election.root,
        Err(_) => format!("/lockkeeper/orders-{:016x}", fastrand::u64(..)),
    }
}

fn write_truth(
    options: &Options,
    data: &Path,
    table: TableName,
    is_embedded: bool,
) -> anyhow::Result<()> {
    match (&options.expect_sql, &options.expect_log) {
        (Some(url), Some(log)) => {
            let log = std::path::absolute(log)?;
            Truth::Sql {
                url: url.clone(),
                table,
                log,
            }
            .write(data)
        }
        _ if is_embedded => Truth::Script {
            seed: options.seed,
            rows: options.rows,
        }
        .write(data),
        _ => Ok(()),
    }
}

fn plan(options: &Options) -> anyhow::Result<Vec<Kill>> {
    if options.no_chaos {
        return Ok(Vec::new());
    }
    let parse = |names: &[String]| {
        names
            .iter()
            .map(|name| {
                name.parse::<Point>()
                    .map_err(|error| anyhow::anyhow!("{error}"))
            })
            .collect::<anyhow::Result<Vec<_>>>()
    };
    let (kills, stops) = (parse(&options.kill_points)?, parse(&options.stop_points)?);
    Ok(match (kills.as_slice(), stops.as_slice()) {
        ([], []) => chaos::kills(options.seed),
        ([], stops) => chaos::kills_at(stops, options.seed, true),
        (kills, _) => chaos::kills_at(kills, options.seed, false),
    })
}

/// Tells on standard output when rows may be written, where operators reach the job, and of each
/// cut.
fn announce(job: Job) -> impl FnMut(&Report) {
    let (mut ready, mut early) = (false, Vec::new());
    move |report| {
        let line = match report {
            Report::Leader { .. } => {
                if let Err(error) = job.remember_that_it_ran() {
                    tracing::warn!(%error, "a loss of the checkpoints may go unnoticed");
                }
                return;
            }
            Report::Subscribed if !std::mem::replace(&mut ready, true) => {
                say!("ready");
                early.drain(..).for_each(|line| say!("{line}"));
                return;
            }
            Report::Admin { address } => format!("admin {address}"),
            Report::Cut { seq, .. } => format!("cut {seq}"),
            _ => return,
        };
        // `ready` is the first line, whoever is faster
        if ready {
            say!("{line}");
        } else {
            early.push(line);
        }
    }
}

/// Shows each second how far the job is.
fn show_progress(chaos: bool) -> impl FnMut(&Measured) {
    let mut before = 0;
    move |measured| {
        let processed = measured.processed();
        let a_second = processed - std::mem::replace(&mut before, processed);
        note!(
            "{processed} changes processed, {a_second} a second, last cut {}, leader's term {}, {} kills{}",
            measured.last_cut(),
            measured.term(),
            measured.kills(),
            if chaos { "" } else { " (no chaos)" },
        );
    }
}

/// Asks the judge, a process of its own: `orders-verify`, or this program in its place where only
/// this one was built.
fn verify(data: &Path) -> anyhow::Result<Verdict> {
    let this = std::env::current_exe()?;
    let judge = this.with_file_name("orders-verify");
    let mut command = if judge.exists() {
        Command::new(judge)
    } else {
        let mut command = Command::new(this);
        command.arg("verify");
        command
    };
    let output = command.arg(data).output().context("starting the judge")?;
    if output.status.code().is_none_or(|code| code > 1) {
        bail!("{}", String::from_utf8_lossy(&output.stderr).trim_end());
    }
    serde_json::from_slice(&output.stdout).context("the judge's verdict")
}

fn shown_source(settings: &Settings, is_embedded: bool) -> String {
    match is_embedded {
        true => "embedded".to_owned(),
        false => settings.canal.addresses.join(","),
    }
}

fn shown_election(settings: &Settings) -> String {
    match settings.election.driver {
        ElectionDriver::File => "file",
        ElectionDriver::Zookeeper => "zookeeper",
        ElectionDriver::Etcd => "etcd",
        ElectionDriver::Kubernetes => "kubernetes",
    }
    .to_owned()
}

fn figures(
    options: &Options,
    (canal, election): (String, String),
    measured: Measured,
    verdict: &Verdict,
) -> Outcome {
    Outcome {
        canal,
        election,
        seed: options.seed,
        ..measured.outcome(verdict)
    }
}
