//! The command line of `lockkeeper-region-worker`.

use std::path::PathBuf;

use clap::{ArgAction, Parser};

/// A worker of the region that counts the words of a text, on any host that reaches the text, the
/// output's folder, the store and the place of the election.
#[derive(Debug, Clone, Parser)]
#[command(
    name = "lockkeeper-region-worker",
    version,
    after_help = "STORE is a folder, redis://HOST:PORT/DATABASE?prefix=PREFIX, or s3://BUCKET/FOLDER (with \
                  AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT). A password for Redis is read from \
                  LOCKKEEPER_REDIS_PASSWORD.\n\n\
                  ELECTION is a folder with lease files (one host), zookeeper://HOST:PORT,…/ROOT, \
                  etcd://HOST:PORT,…/ROOT or kubernetes://NAMESPACE/LEASE (API server and credentials: those of the \
                  pod's service account or the kubeconfig, or ?url=URL of one that asks for none).\n\n\
                  Exit codes: 0 the region has ended, or SIGTERM; 1 the region has failed, or does not take this worker; \
                  2 usage, or a part that can't be reached or started, or no last cut within 20 s of SIGTERM."
)]
pub struct Options {
    /// The text. It may grow with --follow
    pub file: PathBuf,
    /// Where the output appears, the same folder on every host
    #[arg(long)]
    pub out: PathBuf,
    /// Where the checkpoints lie
    #[arg(long, value_name = "STORE", env = "LOCKKEEPER_STORE")]
    pub store: String,
    /// Where it is decided which coordinator leads, and found out
    #[arg(long, value_name = "ELECTION", env = "LOCKKEEPER_ELECTION")]
    pub election: String,
    /// The worker's name, unique in the region; the same after a restart. Default: the host's
    #[arg(long, env = "LOCKKEEPER_WORKER")]
    pub id: Option<String>,
    /// How many operator instances it takes; 0: none, it only contends
    #[arg(long, default_value_t = 64, env = "LOCKKEEPER_SLOTS")]
    pub slots: u16,
    /// What it has to offer: operators that need a label run only on workers that have it. May be
    /// repeated
    #[arg(
        long = "label",
        value_name = "LABEL",
        env = "LOCKKEEPER_LABELS",
        value_delimiter = ','
    )]
    pub labels: Vec<String>,
    /// Where it listens
    #[arg(long, default_value = "127.0.0.1:0", env = "LOCKKEEPER_BIND")]
    pub bind: String,
    /// What other hosts dial, if it is not where it listens
    #[arg(long, env = "LOCKKEEPER_ADVERTISE")]
    pub advertise: Option<String>,
    /// File with the key that all processes of the region share, at least 32 bytes; needed to
    /// listen beyond loopback
    #[arg(long, env = "LOCKKEEPER_KEY_FILE")]
    pub key_file: Option<PathBuf>,
    /// Contend for the region's leadership too: a coordinator in this process
    #[arg(long)]
    pub contend: bool,
    /// Make the store's folder if it is not there: for the very first start
    #[arg(long, requires = "contend")]
    pub new_store: bool,
    /// How many workers the very first placement waits for, up to ten seconds
    #[arg(long, default_value_t = 1, requires = "contend")]
    pub workers: usize,
    /// An operator (lines, words, counts, files) that runs only on workers with a label. May be
    /// repeated
    #[arg(long, value_name = "OPERATOR=LABEL", value_parser = needs, requires = "contend")]
    pub needs: Vec<(String, String)>,
    /// Instances that count; the same in every process
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=128))]
    pub width: u16,
    /// The source asks for a cut after so many lines
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub lines_per_cut: u64,
    /// Wait for more at the file's end, until the coordinator is stopped
    #[arg(long)]
    pub follow: bool,
    /// End when standard input does: for a process that another one has started
    #[arg(long, action = ArgAction::SetTrue)]
    pub end_with_parent: bool,
}

fn needs(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((operator, label)) if !operator.is_empty() && !label.is_empty() => {
            Ok((operator.to_owned(), label.to_owned()))
        }
        _ => Err(format!("{text:?} is not OPERATOR=LABEL")),
    }
}
