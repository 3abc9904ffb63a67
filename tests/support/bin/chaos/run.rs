//! One run: faults by the schedule while rows are loaded, the end of the job, the judge.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::time::Duration;

use anyhow::{Context, bail};
use lockkeeper_examples::orders::cluster::NodeName;
use lockkeeper_examples::orders::report::{Report, now_ms};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use super::faults::{Begun, Faults};
use super::gauges::{self, Gauge};
use super::leak::Samples;
use super::network::Network;
use super::nodes::{Nodes, Told, all_nodes, was_killed};
use super::options::{Options, Store};
use super::outcome::Outcome;
use super::schedule::{Fault, Kind, Need, schedule};
use super::stage::{self, Folders};
use super::watch::Watch;
use super::{judge, say};

/// The job must have subscribed after this time. A bound against a hang.
const SUBSCRIBED_WITHIN: Duration = Duration::from_secs(180);
/// Without a complete cut for so long the job hangs. Longer than what the region itself waits for at
/// most: 180 s for a drain or a reset.
const STUCK_AFTER: Duration = Duration::from_secs(300);
/// Before a process that ended by itself is started again.
const START_AGAIN: Duration = Duration::from_millis(500);
/// Between two tries of a fault that finds nobody to hit, and how many.
const TRY_AGAIN: Duration = Duration::from_secs(1);
const TRIES: u32 = 60;
/// Between two samples.
const SAMPLE_EVERY: Duration = Duration::from_secs(2);

/// What is to be done at a time.
#[derive(Debug)]
enum Todo {
    Begin(Fault, u32),
    End(u64),
    Start(NodeName),
}

struct Run {
    options: Options,
    folders: Folders,
    nodes: Nodes,
    told: mpsc::UnboundedReceiver<Told>,
    faults: Faults,
    todo: BTreeMap<(Instant, u64), Todo>,
    next: u64,
    watch: Watch,
    samples: Samples,
    sampled: mpsc::UnboundedReceiver<(&'static str, Duration, Vec<Gauge>)>,
    sampling: mpsc::UnboundedSender<(&'static str, Duration, Vec<Gauge>)>,
    begun: Instant,
    last_cut: Instant,
    outcome: Outcome,
}

/// Runs it all.
///
/// # Errors
/// Usage and environment: it could not be run to its end.
pub(crate) async fn run(options: Options) -> anyhow::Result<Outcome> {
    let mut run = Run::prepare(options).await?;
    for node in all_nodes() {
        run.nodes.start(&node)?;
    }
    run.until_subscribed().await?;
    let ended = run.under_load().await?;
    run.judge(ended)?;
    Ok(run.outcome)
}

impl Run {
    async fn prepare(options: Options) -> anyhow::Result<Self> {
        let folders = Folders::create(&options.folder)?;
        let network = Network::new(options.network.clone());
        let disk = stage::disk(&options, &folders).await;
        stage::forward(&options, &network).await?;
        stage::create_table(&options).await?;
        stage::write_job(&options, &network, &folders).await?;
        let possible = |kind: &Kind| match kind.need() {
            Need::Nothing => true,
            Need::Network => network.can_be_cut(),
            Need::Mount => disk.is_some(),
            Need::Redis => options.store() == Store::Redis,
        };
        let left_out = Kind::ALL.iter().filter(|kind| !possible(kind));
        let outcome = Outcome {
            seed: options.seed,
            minutes: options.minutes,
            store: options.store().name(),
            left_out: left_out.map(|kind| kind.name()).collect(),
            ..Outcome::default()
        };
        let (tell, told) = mpsc::unbounded_channel();
        let (sampling, sampled) = mpsc::unbounded_channel();
        let canal_password = stage::password(&options.servers.canal_password_file)?;
        let (data, logs) = (folders.data.clone(), folders.logs.clone());
        let mut run = Self {
            nodes: Nodes::new(data, logs.clone(), canal_password, network.clone(), tell)?,
            told,
            faults: Faults::new(network, disk, options.servers.services.clone(), logs),
            todo: BTreeMap::new(),
            next: 0,
            watch: Watch::default(),
            samples: Samples::default(),
            sampled,
            sampling,
            begun: Instant::now(),
            last_cut: Instant::now(),
            outcome,
            folders,
            options,
        };
        say(&format!(
            "seed {}, {} minutes, checkpoints: {}",
            run.outcome.seed, run.outcome.minutes, run.outcome.store
        ));
        for kind in &run.outcome.left_out {
            say(&format!("left out: {kind}"));
        }
        let left_out = run.outcome.left_out.clone();
        for fault in schedule(run.options.seed, run.options.load()) {
            if !left_out.contains(&fault.kind.name()) {
                run.plan(fault.at, Todo::Begin(fault, 0));
            }
        }
        Ok(run)
    }

    /// Plans something for a time from the begin of the load.
    fn plan(&mut self, at: Duration, todo: Todo) {
        self.next += 1;
        self.todo.insert((self.begun + at, self.next), todo);
    }

    fn plan_in(&mut self, time: Duration, todo: Todo) {
        self.plan(self.begun.elapsed() + time, todo);
    }

    async fn until_subscribed(&mut self) -> anyhow::Result<()> {
        let until = Instant::now() + SUBSCRIBED_WITHIN;
        while !self.watch.subscribed {
            tokio::select! {
                Some(told) = self.told.recv() => self.hear(told)?,
                () = sleep_until(until) => bail!("no worker has subscribed at Canal in {SUBSCRIBED_WITHIN:?}"),
            }
        }
        // the plan is from the begin of the load
        let (planned_from, begun) = (self.begun, Instant::now());
        let todo = std::mem::take(&mut self.todo);
        for ((at, number), todo) in todo {
            let at = begun + at.duration_since(planned_from);
            self.todo.insert((at, number), todo);
        }
        (self.begun, self.last_cut) = (begun, begun);
        Ok(())
    }

    /// Until the job has ended; whether it has.
    async fn under_load(&mut self) -> anyhow::Result<bool> {
        let mut loader = stage::load(&self.options, &self.folders)?;
        let mut loading = true;
        let mut sample = interval(SAMPLE_EVERY);
        sample.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let due = self.todo.first_key_value().map(|((at, _), _)| *at);
            let due = due.unwrap_or_else(|| Instant::now() + SAMPLE_EVERY);
            tokio::select! {
                Some(told) = self.told.recv() => self.hear(told)?,
                () = sleep_until(due) => self.do_what_is_due().await?,
                done = self.faults.restarted(), if self.faults.restarting() => {
                    if let Some(number) = done? {
                        self.end(number).await?;
                    }
                }
                Some((who, at, gauges)) = self.sampled.recv() => self.take_sample(who, at, &gauges),
                _ = sample.tick(), if loading => self.sample(),
                status = loader.wait(), if loading => {
                    let status = status?;
                    anyhow::ensure!(status.success(), "the loader ended with {status}");
                    loading = false;
                    self.end_all().await?;
                }
            }
            if let Some(reason) = &self.watch.failed {
                let finding = format!("the region failed: {reason}");
                self.outcome.findings.push(finding);
                return Ok(false);
            }
            if self.watch.completed {
                return Ok(true);
            }
            if self.last_cut.elapsed() > STUCK_AFTER {
                let finding = format!("no cut was complete for {STUCK_AFTER:?}: the job hangs");
                self.outcome.findings.push(finding);
                return Ok(false);
            }
        }
    }

    fn hear(&mut self, told: Told) -> anyhow::Result<()> {
        match told {
            Told::Report(node, life, report) => {
                if let Report::Cut { .. } = report {
                    self.last_cut = Instant::now();
                }
                if let Report::Reset { reason, .. } = &report {
                    self.note(&format!("{node}: reset: {reason}"));
                }
                if let Report::Leader { term } = report {
                    self.note(&format!("{node}: leads in term {term}"));
                }
                self.watch.take(&node, life, &report);
            }
            Told::Ended(node, status) => {
                self.nodes.forget(&node);
                if !self.faults.holds_down(&node) && !self.watch.completed {
                    if !was_killed(&status) {
                        self.outcome.ended_by_themselves += 1;
                    }
                    self.note(&format!("{node}: ended by itself: {status:?}"));
                    self.plan_in(START_AGAIN, Todo::Start(node));
                }
            }
        }
        Ok(())
    }

    async fn do_what_is_due(&mut self) -> anyhow::Result<()> {
        let now = Instant::now();
        while let Some(entry) = self.todo.first_entry() {
            if entry.key().0 > now {
                break;
            }
            match entry.remove() {
                Todo::Begin(fault, tries) => self.begin(fault, tries).await?,
                Todo::End(number) => self.end(number).await?,
                Todo::Start(node) => self.start(&node)?,
            }
        }
        Ok(())
    }

    async fn begin(&mut self, fault: Fault, tries: u32) -> anyhow::Result<()> {
        let name = fault.kind.name();
        let leader = self.watch.leader().cloned();
        match self
            .faults
            .begin(&fault, &self.nodes, leader.as_ref())
            .await?
        {
            Begun::Now(number, what, lasts) => {
                *self.outcome.faults.entry(name).or_default() += 1;
                let time = lasts.map_or(String::new(), |lasts| {
                    format!(" for {} ms", lasts.as_millis())
                });
                self.tell(&format!("#{number} {name}: {what}{time}"));
                if let Some(lasts) = lasts {
                    self.plan_in(lasts, Todo::End(number));
                }
            }
            Begun::Later(first) => {
                if let Some((number, what, lasts)) = first {
                    self.tell(&format!("#{number} before {name}: stops {what}"));
                    self.plan_in(lasts, Todo::End(number));
                }
                if tries < TRIES {
                    self.plan_in(TRY_AGAIN, Todo::Begin(fault, tries + 1));
                } else {
                    self.outcome.skipped += 1;
                    self.tell(&format!("{name}: nobody to hit"));
                }
            }
        }
        Ok(())
    }

    async fn end(&mut self, number: u64) -> anyhow::Result<()> {
        if let Some(over) = self.faults.end(number, &self.nodes).await? {
            for node in over.start {
                self.start(&node)?;
            }
            if let Some(kind) = over.kind {
                self.watch.over(kind, now_ms());
            }
            self.note(&format!("#{number} is over"));
        }
        Ok(())
    }

    /// The load is over: nothing new begins, and what goes on ends.
    async fn end_all(&mut self) -> anyhow::Result<()> {
        self.tell("the load is over");
        let waiting = |todo: &Todo| matches!(todo, Todo::Begin(..));
        let skipped = self.todo.values().filter(|todo| waiting(todo)).count();
        self.outcome.skipped += skipped as u64;
        self.todo.retain(|_, todo| !waiting(todo));
        for number in self.faults.to_be_ended() {
            self.end(number).await?;
        }
        Ok(())
    }

    /// Starts a node when its last process is gone.
    fn start(&mut self, node: &NodeName) -> anyhow::Result<()> {
        if self.nodes.is_running(node) {
            self.plan_in(Duration::from_millis(20), Todo::Start(node.clone()));
            return Ok(());
        }
        if self.faults.holds_down(node) {
            return Ok(());
        }
        self.nodes.start(node)
    }

    fn sample(&mut self) {
        let at = self.begun.elapsed();
        let of_processes: Vec<(String, Vec<Gauge>)> = self
            .nodes
            .processes()
            .map(|(name, pid)| (name.to_owned(), gauges::of_process(pid)))
            .collect();
        for (name, gauges) in of_processes {
            self.take_sample(&name, at, &gauges);
        }
        let data = &self.folders.data;
        let folders = [
            ("staged", data.join("staged")),
            ("store/objects", data.join("store/objects")),
            ("store/log", data.join("store/log")),
        ];
        for (name, folder) in folders {
            self.take_sample(name, at, &gauges::of_folder(&folder));
        }
        let servers = &self.options.servers;
        let (zookeeper, redis) = (servers.zookeeper, servers.redis);
        let answers = self.sampling.clone();
        let with_redis = self.options.store() == Store::Redis;
        tokio::spawn(async move {
            // the run may be over meanwhile
            let _ = answers.send(("zookeeper", at, gauges::of_zookeeper(zookeeper).await));
            if with_redis {
                let _ = answers.send(("redis", at, gauges::of_redis(redis).await));
            }
        });
    }

    fn take_sample(&mut self, who: &str, at: Duration, gauges: &[Gauge]) {
        for (measure, value) in gauges {
            self.samples.add(who, *measure, at, *value);
        }
        let lines = gauges.iter().map(|(measure, value)| {
            format!("{:.1},{who},{},{value}\n", at.as_secs_f64(), measure.name())
        });
        self.append("samples.csv", &lines.collect::<String>());
    }

    fn judge(&mut self, ended: bool) -> anyhow::Result<()> {
        let outcome = &mut self.outcome;
        let watch = &self.watch;
        if ended {
            let verdict = judge::verdict(&self.folders.data).context("the judge")?;
            outcome.findings.extend(judge::of_verdict(&verdict));
            outcome.rows = verdict.changes;
            (outcome.lost, outcome.duplicated) = (verdict.lost, verdict.duplicated);
            outcome.cuts = verdict.cuts;
            let chain = judge::chain(&self.folders.data)?;
            outcome
                .findings
                .extend(judge::of_chain(&chain, &watch.cuts)?);
        }
        outcome.findings.extend(judge::of_logs(&self.folders.logs)?);
        outcome.findings.extend(watch.tenures.findings());
        let (medians, findings) = self.samples.judge(self.options.load());
        outcome.take_medians(&medians);
        if ended {
            outcome.findings.extend(findings);
        }
        outcome.resets = watch.resets;
        outcome.terms = watch.tenures.count();
        outcome.longest_pause_ms = watch.longest_pause_ms();
        let named = |(kind, value): (&Kind, &u64)| (kind.name(), *value);
        outcome.survived = watch.survived().iter().map(named).collect();
        outcome.recovery_ms = watch.recovery_ms().iter().map(named).collect();
        if outcome.terms == 0 {
            outcome
                .findings
                .push("no leader was ever heard of".to_owned());
        }
        Ok(())
    }

    /// To the log of the run and to whoever looks on.
    fn tell(&self, text: &str) {
        say(&format!(
            "{:7.1} s  {text}",
            self.begun.elapsed().as_secs_f64()
        ));
        self.note(text);
    }

    /// To the log of the run.
    fn note(&self, text: &str) {
        let (boot, at) = (now_ms(), self.begun.elapsed().as_secs_f64());
        self.append("chaos.log", &format!("{boot} {at:9.3}  {text}\n"));
    }

    /// A line that can't be written is missing, and nothing else.
    fn append(&self, name: &str, text: &str) {
        let path = self.folders.logs.join(name);
        let file = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(path);
        if let Ok(mut file) = file {
            let _ = file.write_all(text.as_bytes());
        }
    }
}
