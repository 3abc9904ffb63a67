//! What the console of a job shows: the job's figures, its processes, and what those tell of
//! themselves.

mod job;
mod process;
mod told;

use std::collections::{BTreeMap, HashMap};
use std::process::ExitStatus;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lockkeeper_core::status::{StatusRegistry, StatusSource};
use tokio::sync::{mpsc, oneshot};

use self::job::JobSource;
use self::process::ProcessSource;
use self::told::ToldSource;
use super::armed::Act;
use super::outcome::Measured;
use super::report::{Report, Told};

/// Something that a process is asked to do.
#[derive(Debug)]
pub struct Wish {
    /// The process.
    pub process: String,
    /// What.
    pub act: Act,
}

/// What is known of the job and its processes. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Overview {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    registry: StatusRegistry,
    job: Arc<JobSource>,
    processes: Mutex<BTreeMap<String, Process>>,
    wishes: Arc<Wishes>,
}

#[derive(Debug)]
struct Process {
    source: Arc<ProcessSource>,
    /// What it tells of itself, by name.
    told: BTreeMap<String, Arc<ToldSource>>,
}

/// What processes were asked to do, and who waits for the answers.
#[derive(Debug)]
struct Wishes {
    sender: mpsc::UnboundedSender<Wish>,
    waiting: Mutex<HashMap<u64, oneshot::Sender<Result<String, String>>>>,
    next: AtomicU64,
}

impl Wishes {
    fn ask(
        &self,
        process: &str,
        source: &str,
        action: &str,
    ) -> oneshot::Receiver<Result<String, String>> {
        let (answer, answered) = oneshot::channel();
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut waiting = lock(&self.waiting);
        // Who gave up waiting has dropped its end.
        waiting.retain(|_, answer| !answer.is_closed());
        waiting.insert(number, answer);
        let wish = Wish {
            process: process.to_owned(),
            act: Act {
                number,
                source: source.to_owned(),
                action: action.to_owned(),
            },
        };
        if self.sender.send(wish).is_err() {
            waiting.remove(&number);
        }
        answered
    }

    fn answer(&self, number: u64, result: Result<String, String>) {
        if let Some(answer) = lock(&self.waiting).remove(&number) {
            let _ = answer.send(result);
        }
    }
}

impl Overview {
    /// An overview of a job that is about to begin, and what its processes are to be asked.
    #[must_use]
    pub fn new() -> (Self, mpsc::UnboundedReceiver<Wish>) {
        let (sender, wishes) = mpsc::unbounded_channel();
        let registry = StatusRegistry::default();
        let job = Arc::new(JobSource::new());
        register(&registry, &job);
        let inner = Inner {
            registry,
            job,
            processes: Mutex::default(),
            wishes: Arc::new(Wishes {
                sender,
                waiting: Mutex::default(),
                next: AtomicU64::new(0),
            }),
        };
        let overview = Self {
            inner: Arc::new(inner),
        };
        (overview, wishes)
    }

    /// What a console draws.
    #[must_use]
    pub fn registry(&self) -> &StatusRegistry {
        &self.inner.registry
    }

    /// A process was started, for the first time or again.
    pub fn started(&self, process: &str, pid: Option<u32>) {
        let mut processes = lock(&self.inner.processes);
        let known = processes.entry(process.to_owned()).or_insert_with(|| {
            let source = Arc::new(ProcessSource::new(process));
            register(&self.inner.registry, &source);
            Process {
                source,
                told: BTreeMap::new(),
            }
        });
        known.source.started(pid);
    }

    /// A process has ended: what it told is no more.
    pub fn ended(&self, process: &str, status: Option<ExitStatus>) {
        if let Some(known) = lock(&self.inner.processes).get_mut(process) {
            known.told.clear();
            known.source.ended(status);
        }
    }

    /// Takes what a process tells of itself; false if that is no concern of the overview.
    pub fn take(&self, process: &str, report: &Report) -> bool {
        let mut processes = lock(&self.inner.processes);
        let Some(known) = processes.get_mut(process) else {
            return false;
        };
        match report {
            Report::Status { sources } => {
                known.source.has_told();
                self.tell(process, known, sources);
            }
            Report::Happened { source, event } => {
                if let Some(told) = known.told.get(source) {
                    told.happened(event);
                }
            }
            Report::Acted { number, result } => {
                self.inner.wishes.answer(*number, result.clone());
            }
            Report::Kill { point, .. } => known.source.kills_itself(point),
            Report::Stop { point } => known.source.stops_itself(point),
            _ => return false,
        }
        true
    }

    fn tell(&self, process: &str, known: &mut Process, sources: &[Told]) {
        let is_told = |name: &String| sources.iter().any(|one| one.name == *name);
        known.told.retain(|name, _| is_told(name));
        for one in sources {
            let source = known.told.entry(one.name.clone()).or_insert_with(|| {
                let wishes = Arc::clone(&self.inner.wishes);
                let source = Arc::new(ToldSource::new(process, &one.name, wishes));
                register(&self.inner.registry, &source);
                source
            });
            source.tell(one);
        }
    }

    /// Takes the job's figures.
    pub fn measure(&self, measured: &Measured) {
        self.inner.job.measure(measured);
    }

    /// A wish that can't be passed on.
    pub fn refuse(&self, wish: &Wish) {
        let reason = format!("{} does not run", wish.process);
        self.inner.wishes.answer(wish.act.number, Err(reason));
    }
}

fn register<S: StatusSource>(registry: &StatusRegistry, source: &Arc<S>) {
    let source: Arc<dyn StatusSource> = Arc::clone(source) as _;
    registry.register(&source);
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
