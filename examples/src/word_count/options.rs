//! The command line of `word-count`.

use std::path::PathBuf;

use clap::Parser;
use lockkeeper_consistent_region::point::Point;

/// Counts the words of a text file in a consistent region, and compares with a plain count.
#[derive(Debug, Clone, Parser)]
#[command(name = "word-count", version)]
pub struct Options {
    /// The text. It may grow; a line counts once its end is there. Nothing else in it may change
    pub file: PathBuf,
    /// The job's folder: checkpoints, and the output in `out`. With the folder of a run that was
    /// killed or stopped it goes on there. Default: a new one among the temporary files
    #[arg(long)]
    pub data: Option<PathBuf>,
    /// Settings, a TOML file (docs/tasks/settings.md)
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The source asks for a cut after so many lines
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub lines_per_cut: u64,
    /// Wait for more at the file's end, until SIGTERM or Ctrl-C
    #[arg(long)]
    pub follow: bool,
    /// Instances that count, each of them a share of the words
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=128))]
    pub width: u16,
    /// Threads that the instances are spread over
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub threads: u16,
    /// How many of the most frequent words are printed
    #[arg(long, default_value_t = 5)]
    pub top: usize,
    /// Count in a process of its own, which kills itself with SIGKILL when it comes to the first of
    /// these points of a round, is started again, kills itself at the second, and so on
    #[arg(long, value_delimiter = ',', value_name = "POINT")]
    pub kill_points: Vec<Point>,
    /// Count, and compare nothing
    #[arg(long, hide = true)]
    pub child: bool,
    /// Where the process kills itself
    #[arg(long, hide = true)]
    pub die_at: Option<Point>,
}
