//! The operator: takes lines from the reading task, makes tuples, remembers how far it came.

use std::fmt;
use std::io::Read;
use std::sync::Arc;
use std::task::{self, Poll};

use actix::{Actor, Context};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, spawn_blocking};

use super::lines::{After, Fault, Lines, RawLine, Reached};
use super::{FileSourceConfig, Line, MapLine, Place};
use crate::operator::{
    Committer, Cut, InstanceContext, Operator, OperatorError, Output, Prepared, Produced,
    RegionHandle, StartOperator, Tuple,
};
use crate::point::Point;
use crate::source::bad_row::{DeadLetter, DeadLetters, shown};
use crate::source::change::OnSourceChange;
use crate::source::commands::{self, Finished, Skip, Skipping};

/// Chunks that are read ahead of the operator.
const AHEAD: usize = 2;

/// Reads lines of files into a region. See the [module](super).
pub struct FileSource<T> {
    config: FileSourceConfig,
    map: MapLine<T>,
    context: InstanceContext,
    at: Saved,
    feed: Option<Feed>,
    letters: DeadLetters,
    skipping: Skipping<Place>,
}

/// What a checkpoint holds (JSON).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Saved {
    reached: Reached,
    ended: bool,
    /// How often the source went on although its file was another one.
    changes: u64,
    skips: Vec<Finished>,
}

impl<T: Tuple> FileSource<T> {
    /// A source that makes tuples of lines with `map`. After a reset lines come again, and must give
    /// the same tuples. An error of `map` makes the line a bad row.
    pub fn lines(
        context: InstanceContext,
        config: FileSourceConfig,
        map: impl FnMut(Line<'_>) -> Result<Vec<T>, Box<dyn std::error::Error + Send + Sync>>
        + Send
        + 'static,
    ) -> Self {
        let letters = DeadLetters::new(&config.on_bad_row, &context);
        Self {
            config,
            map: Box::new(map),
            context,
            at: Saved::default(),
            feed: None,
            letters,
            skipping: Skipping::default(),
        }
    }

    /// A source of JSON lines: each is one tuple; blank ones are none.
    pub fn json(context: InstanceContext, config: FileSourceConfig) -> Self
    where
        T: DeserializeOwned,
    {
        Self::lines(context, config, |line| {
            if line.text.trim().is_empty() {
                return Ok(Vec::new());
            }
            Ok(vec![serde_json::from_str(line.text)?])
        })
    }

    fn take(&mut self, line: RawLine, output: &mut Output<T>) -> Result<(), OperatorError> {
        let place = line.place();
        let passage = self.skipping.pass(&place);
        let letter = |reason| letter_of(&self.context, &self.config, &line, reason);
        if self.letters.admit(passage, letter)?
            && let Err(reason) = self.take_row(&line, output)
        {
            let letter = letter_of(&self.context, &self.config, &line, reason);
            self.letters.take(letter)?;
        }
        self.at.reached = line.reached;
        Ok(())
    }

    fn take_row(&mut self, line: &RawLine, output: &mut Output<T>) -> Result<(), String> {
        if line.is_too_long {
            return Err(format!("longer than {} bytes", self.config.max_line_bytes));
        }
        let text = std::str::from_utf8(&line.bytes).map_err(|error| error.to_string())?;
        let line = Line {
            file: &line.reached.path,
            number: line.reached.line,
            text,
        };
        output.extend((self.map)(line).map_err(|error| error.to_string())?);
        Ok(())
    }

    fn begin(&mut self, began: Began) -> Result<(), OperatorError> {
        let Began {
            reached,
            commands,
            changed,
        } = began;
        self.at.reached = reached;
        if changed {
            self.at.changes += 1;
        }
        let files = &self.config.files;
        let skips = std::mem::take(&mut self.at.skips);
        self.skipping = Skipping::restored(skips);
        let taken_up = self
            .skipping
            .take_up(commands, |text| Place::read(text, files));
        taken_up.map_err(OperatorError::Permanent)
    }
}

impl<T> fmt::Debug for FileSource<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileSource")
            .field("config", &self.config)
            .field("at", &self.at)
            .finish_non_exhaustive()
    }
}

impl<T: Tuple> Actor for FileSource<T> {
    type Context = Context<Self>;
}

impl<T: Tuple> Operator for FileSource<T> {
    type Input = ();
    type Output = T;
    const STATE_TYPE: &'static str = super::STATE_TYPE;

    fn process(&mut self, _: Vec<()>, _: &mut Output<T>) -> Result<(), OperatorError> {
        Ok(())
    }

    fn prepare(&mut self, cut: Cut) -> Result<Prepared, OperatorError> {
        let mut saved = self.at.clone();
        saved.skips = self.skipping.at_cut(cut.seq);
        Ok(Prepared {
            state: Some(Box::new(move |to| {
                serde_json::to_writer(to, &saved).map_err(Into::into)
            })),
            stage: self.letters.prepare(cut),
        })
    }

    fn reset(&mut self, state: &mut dyn Read, _version: u32) -> Result<(), OperatorError> {
        self.feed = None;
        self.letters.clear();
        self.at = serde_json::from_reader(state)
            .map_err(|error| OperatorError::Retry(format!("the source's state: {error}")))?;
        Ok(())
    }

    fn reset_to_initial_state(&mut self) -> Result<(), OperatorError> {
        self.feed = None;
        self.letters.clear();
        self.at = Saved::default();
        Ok(())
    }

    fn resumed_at(&mut self, _: u64, _: u64) -> Result<(), OperatorError> {
        self.feed = Some(Feed::start(
            &self.config,
            &self.context,
            self.at.reached.clone(),
        ));
        Ok(())
    }

    fn region_checkpointed(&mut self, _: u64, oldest_retained: u64) -> Result<(), OperatorError> {
        self.context.hook().at(Point::AfterCommitBeforeAck);
        commands::forget(&self.context, self.skipping.outlived(oldest_retained));
        Ok(())
    }

    fn committer(&self) -> Option<Arc<dyn Committer>> {
        self.letters.committer()
    }
}

impl<T: Tuple> StartOperator for FileSource<T> {
    fn poll_produce(
        &mut self,
        cx: &mut task::Context<'_>,
        output: &mut Output<T>,
        _: &RegionHandle,
    ) -> Poll<Result<Produced, OperatorError>> {
        if self.at.ended {
            return Poll::Ready(Ok(Produced::End));
        }
        let Some(feed) = &mut self.feed else {
            let text = "the source was not started".to_owned();
            return Poll::Ready(Err(OperatorError::Retry(text)));
        };
        let fed = match feed.fed.poll_recv(cx) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Some(fed)) => fed,
            Poll::Ready(None) => {
                let text = "reading has ended".to_owned();
                return Poll::Ready(Err(OperatorError::Retry(text)));
            }
        };
        let taken = match fed {
            Fed::Began(began) => self.begin(*began),
            Fed::Lines(lines) => lines
                .into_iter()
                .try_for_each(|line| self.take(line, output)),
            Fed::Failed(error) => Err(error),
            Fed::End => {
                self.at.ended = true;
                Ok(())
            }
        };
        Poll::Ready(taken.map(|()| Produced::More))
    }
}

/// Position and changes in a state; see [`describe`](crate::source::describe).
pub(crate) fn describe(state: &[u8]) -> Option<(String, u64)> {
    let saved: Saved = serde_json::from_slice(state).ok()?;
    let Reached { path, line, .. } = &saved.reached;
    let ended = if saved.ended { ", ended" } else { "" };
    Some((format!("{}:{line}{ended}", path.display()), saved.changes))
}

fn letter_of(
    context: &InstanceContext,
    config: &FileSourceConfig,
    line: &RawLine,
    reason: String,
) -> DeadLetter {
    DeadLetter {
        source: context.instance().to_string(),
        position: line.place().shown(&config.files),
        row: shown(&String::from_utf8_lossy(&line.bytes)),
        reason,
    }
}

/// What the reading task gives the operator.
enum Fed {
    /// First of all.
    Began(Box<Began>),
    Lines(Vec<RawLine>),
    End,
    Failed(OperatorError),
}

struct Began {
    reached: Reached,
    commands: Vec<Skip>,
    /// The file is another one, and the source goes on.
    changed: bool,
}

/// The operator's end of the reading task. Dropping it ends the task.
struct Feed {
    fed: mpsc::Receiver<Fed>,
    task: JoinHandle<()>,
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Feed {
    fn start(config: &FileSourceConfig, context: &InstanceContext, reached: Reached) -> Self {
        let (sender, fed) = mpsc::channel(AHEAD);
        let (config, context) = (config.clone(), context.clone());
        let task = actix_rt::spawn(async move {
            if let Err(error) = read(config, context, reached, &sender).await {
                // nobody listens after a reset
                let _ = sender.send(Fed::Failed(error)).await;
            }
        });
        Self { fed, task }
    }
}

async fn read(
    config: FileSourceConfig,
    context: InstanceContext,
    reached: Reached,
    fed: &mpsc::Sender<Fed>,
) -> Result<(), OperatorError> {
    let commands = commands::read(&context).await?;
    let (began, mut lines) = off_the_arbiter({
        let (config, context) = (config.clone(), context.clone());
        move || begin(&config, &context, reached, commands)
    })
    .await?;
    if fed.send(Fed::Began(Box::new(began))).await.is_err() {
        return Ok(());
    }
    loop {
        let (back, chunk, after) = off_the_arbiter(move || {
            let (chunk, after) = lines.next_chunk().map_err(told)?;
            Ok((lines, chunk, after))
        })
        .await?;
        lines = back;
        context.lease().check()?;
        context.hook().at(Point::BetweenCheckAndGet);
        if !chunk.is_empty() && fed.send(Fed::Lines(chunk)).await.is_err() {
            return Ok(());
        }
        match after {
            After::More => {}
            After::Growth => tokio::time::sleep(config.pause).await,
            After::Nothing => {
                let _ = fed.send(Fed::End).await;
                return Ok(());
            }
        }
    }
}

fn begin(
    config: &FileSourceConfig,
    context: &InstanceContext,
    reached: Reached,
    commands: Vec<Skip>,
) -> Result<(Began, Lines), OperatorError> {
    let own = |(file, _): &(usize, _)| {
        file % usize::from(context.width().max(1)) == usize::from(context.instance().index)
    };
    let files = config
        .files
        .iter()
        .cloned()
        .enumerate()
        .filter(own)
        .collect();
    let mut lines = Lines::new(files, reached, config.follow, config.max_line_bytes);
    let mut changed = false;
    match lines.check() {
        Ok(()) => {}
        Err(fault @ Fault::Changed { .. })
            if config.on_source_change == OnSourceChange::AtLeastOnce =>
        {
            tracing::warn!(%fault, "the source was changed: its rows count at least once");
            changed = true;
            lines.reached.offset = 0;
            lines.reached.line = 0;
        }
        Err(fault) => return Err(told(fault)),
    }
    let began = Began {
        reached: lines.reached.clone(),
        commands,
        changed,
    };
    Ok((began, lines))
}

async fn off_the_arbiter<T: Send + 'static>(
    job: impl FnOnce() -> Result<T, OperatorError> + Send + 'static,
) -> Result<T, OperatorError> {
    match spawn_blocking(job).await {
        Ok(result) => result,
        Err(error) => Err(OperatorError::Retry(format!("reading: {error}"))),
    }
}

fn told(fault: Fault) -> OperatorError {
    match fault {
        Fault::Io { .. } => OperatorError::Retry(fault.to_string()),
        Fault::Changed { .. } => {
            OperatorError::Permanent(format!("the source was changed: {fault}"))
        }
    }
}
