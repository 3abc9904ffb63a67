//! The store of a consistent region on the command line: what `lockkeeper-region` does.

pub(crate) mod place;
pub(crate) mod text;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, Parser, Subcommand};
use lockkeeper_consistent_region::archive::{Adoption, Archive, ArchiveError};
use lockkeeper_consistent_region::protocol::InstanceId;
use lockkeeper_consistent_region::source::commands::{SKIP_LIMIT, Skip, Skipped, SourceCommands};
use lockkeeper_consistent_region::store::CheckpointStore;
use lockkeeper_core::token::Lineage;
use serde::Serialize;

/// The command line.
#[derive(Debug, Parser)]
#[command(
    name = "lockkeeper-region",
    version,
    about = "Looks at the store of a consistent region, and changes it while nobody works on it",
    after_help = "STORE is a folder, redis://HOST:PORT/DATABASE?prefix=PREFIX, or s3://BUCKET/FOLDER \
                  (with AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT). A password for Redis is \
                  read from LOCKKEEPER_REDIS_PASSWORD.\n\n\
                  Exit codes: 0 done; 1 something is damaged (verify); 2 usage, or the store can't be read; \
                  3 there is no region in the store, or no such cut; 4 refused: the region is alive, or what was committed \
                  can't be taken back."
)]
pub struct Options {
    /// One JSON object on standard output instead of text
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Shows what the store holds: state, terms, cuts, positions, sizes, checksums
    Inspect {
        /// The store
        store: String,
        /// Every object of every cut, with its length and checksum
        #[arg(long)]
        objects: bool,
    },
    /// Reads every object and compares lengths and checksums
    Verify {
        /// The store
        store: String,
    },
    /// Writes the state of a cut as JSON lines, one a key
    Export {
        /// The store
        store: String,
        /// The cut; the newest unless told otherwise
        #[arg(long)]
        seq: Option<u64>,
        /// Only the state of this operator
        #[arg(long)]
        operator: Option<String>,
        /// A file that does not exist yet, instead of standard output
        #[arg(long)]
        to: Option<PathBuf>,
    },
    /// Sets the region back to a cut that is kept; the next start begins with it
    ResetTo {
        /// The cut; 0: the state before the first row
        seq: u64,
        #[command(flatten)]
        change: Change,
    },
    /// Gives the store to a region of another name, to a program with another graph, or to the
    /// coordinators of another coordination store
    Adopt {
        /// The region's new name
        #[arg(long, required_unless_present_any = ["graph", "lineage"])]
        region: Option<String>,
        /// Fingerprint of the program's graph: 16 hexadecimal digits, as the refusal shows them
        #[arg(long, value_parser = fingerprint)]
        graph: Option<u64>,
        /// Lineage of the coordination store, as the refusal shows it; first make sure that no
        /// coordinator of the former one is left
        #[arg(long, value_parser = lineage)]
        lineage: Option<Lineage>,
        #[command(flatten)]
        change: Change,
    },
    /// Leaves a row out, or all rows before one, when the source is reset next; the region may live
    Skip {
        /// The store
        store: String,
        /// The source: its operator's name, and :INDEX if it has several instances
        #[arg(value_parser = instance)]
        source: InstanceId,
        /// The row's position, as the failed state names it: FILE:LINE, JOURNAL:OFFSET
        position: String,
        /// Leave out every row that comes before it, instead of the one at it
        #[arg(long)]
        before: bool,
        /// How many rows --before may leave out
        #[arg(long, default_value_t = SKIP_LIMIT, requires = "before")]
        limit: u64,
    },
}

/// What every change needs.
#[derive(Debug, Args)]
struct Change {
    /// The store
    store: String,
    /// A worker of another host that you know to have ended; may be repeated
    #[arg(long, value_name = "WORKER")]
    assume_dead: Vec<String>,
}

fn fingerprint(text: &str) -> Result<u64, String> {
    u64::from_str_radix(text, 16).map_err(|error| error.to_string())
}

fn lineage(text: &str) -> Result<Lineage, String> {
    let bits = u128::from_str_radix(text, 16).map_err(|error| error.to_string())?;
    Ok(Lineage::new(bits))
}

fn instance(text: &str) -> Result<InstanceId, String> {
    let (operator, index) = match text.rsplit_once(':') {
        None => (text, 0),
        Some((operator, index)) => (
            operator,
            index
                .parse()
                .map_err(|_| format!("{index:?} is no index"))?,
        ),
    };
    Ok(InstanceId {
        operator: operator.to_owned(),
        index,
    })
}

/// How the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Everything was done, and is whole.
    Done,
    /// Something in the store is damaged.
    Damaged,
    /// Usage, or a store that can't be read or written.
    Failed,
    /// There is no region in the store, or no such cut.
    Nothing,
    /// The change is refused: the region lives, or what was committed can't be taken back.
    Refused,
}

impl Ending {
    /// The exit code.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Damaged => 1,
            Self::Failed => 2,
            Self::Nothing => 3,
            Self::Refused => 4,
        }
    }
}

/// Why a command came to nothing.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    #[error("{0}")]
    Place(String),
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("standard output: {0}")]
    Output(#[from] io::Error),
}

impl Failure {
    fn ending(&self) -> Ending {
        match self {
            // nobody reads on: `| head`
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => Ending::Done,
            Self::Archive(ArchiveError::Empty { .. } | ArchiveError::NoCut { .. }) => {
                Ending::Nothing
            }
            Self::Archive(
                ArchiveError::Alive(_)
                | ArchiveError::Irrevocable { .. }
                | ArchiveError::Overtaken { .. },
            ) => Ending::Refused,
            _ => Ending::Failed,
        }
    }
}

/// Carries out the command.
pub fn run(options: &Options, output: &mut dyn Write, errors: &mut dyn Write) -> Ending {
    match carry_out(options, output) {
        Ok(ending) => ending,
        Err(failure) => {
            let ending = failure.ending();
            if ending != Ending::Done {
                // where nothing can be written any more the exit code must do
                let _ = writeln!(errors, "lockkeeper-region: {failure}");
            }
            ending
        }
    }
}

fn carry_out(options: &Options, output: &mut dyn Write) -> Result<Ending, Failure> {
    let json = options.json;
    match &options.command {
        Command::Inspect { store, objects } => {
            let overview = archive(store)?.overview()?;
            show(json, output, &overview, |output| {
                text::overview(output, &overview, *objects)
            })?;
        }
        Command::Verify { store } => {
            let verdicts = archive(store)?.verify()?;
            show(json, output, &verdicts, |output| {
                text::verdicts(output, &verdicts)
            })?;
            if verdicts.iter().any(|verdict| !verdict.faults.is_empty()) {
                return Ok(Ending::Damaged);
            }
        }
        Command::Export {
            store,
            seq,
            operator,
            to,
        } => export(
            &archive(store)?,
            *seq,
            operator.as_deref(),
            to.as_ref(),
            output,
        )?,
        Command::ResetTo { seq, change } => {
            let record = archive(&change.store)?.reset_to(*seq, &change.assume_dead)?;
            show(json, output, &record, |output| {
                writeln!(output, "region {} stands at cut {seq}", record.region)
            })?;
        }
        Command::Adopt {
            region,
            graph,
            lineage,
            change,
        } => {
            let adoption = Adoption {
                region: region.clone(),
                graph: *graph,
                lineage: *lineage,
            };
            let record = archive(&change.store)?.adopt(&adoption, &change.assume_dead)?;
            show(json, output, &record, |output| {
                let (region, graph) = (&record.region, record.graph);
                writeln!(
                    output,
                    "the store is region {region}'s, with graph {graph:016x}"
                )?;
                match lineage {
                    Some(lineage) => writeln!(output, "its coordinators are of lineage {lineage}"),
                    None => Ok(()),
                }
            })?;
        }
        Command::Skip {
            store,
            source,
            position,
            before,
            limit,
        } => {
            let rows = match before {
                true => Skipped::Before { limit: *limit },
                false => Skipped::Only,
            };
            let skip = skip(open(store)?, source, position, rows)?;
            show(json, output, &skip, |output| {
                writeln!(
                    output,
                    "{source} leaves out {} {position} from its next reset on",
                    if *before {
                        "every row before"
                    } else {
                        "the row at"
                    }
                )
            })?;
        }
    }
    Ok(Ending::Done)
}

fn skip(
    store: Arc<dyn CheckpointStore>,
    source: &InstanceId,
    position: &str,
    rows: Skipped,
) -> Result<Skip, Failure> {
    // A command for a source that the region does not have would lie there for ever.
    let archive = Archive::open(Arc::clone(&store))?;
    let record = archive.overview()?.record;
    if !record
        .placement
        .iter()
        .any(|(instance, _)| instance == source)
    {
        let known: Vec<String> = record
            .placement
            .iter()
            .map(|(instance, _)| instance.to_string())
            .collect();
        return Err(Failure::Place(format!(
            "the region has no {source}; it has {}",
            known.join(", ")
        )));
    }
    let commands = SourceCommands::new(store);
    let given = commands.give(source, position.to_owned(), rows);
    Ok(given.map_err(ArchiveError::from)?)
}

fn export(
    archive: &Archive,
    seq: Option<u64>,
    operator: Option<&str>,
    to: Option<&PathBuf>,
    output: &mut dyn Write,
) -> Result<(), Failure> {
    let Some(path) = to else {
        archive.export(seq, operator, output)?;
        return Ok(());
    };
    let failed = |source| Failure::File {
        path: path.clone(),
        source,
    };
    let mut file = BufWriter::new(File::create_new(path).map_err(failed)?);
    archive.export(seq, operator, &mut file)?;
    let file = file
        .into_inner()
        .map_err(|error| failed(error.into_error()))?;
    file.sync_all().map_err(failed)
}

fn show<T: Serialize>(
    json: bool,
    output: &mut dyn Write,
    value: &T,
    text: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), Failure> {
    if !json {
        return Ok(text(output)?);
    }
    serde_json::to_writer(&mut *output, value).map_err(io::Error::from)?;
    Ok(output.write_all(b"\n")?)
}

fn archive(store: &str) -> Result<Archive, Failure> {
    Ok(Archive::open(open(store)?)?)
}

fn open(store: &str) -> Result<Arc<dyn CheckpointStore>, Failure> {
    place::open(store).map_err(Failure::Place)
}

#[cfg(test)]
mod tests;
