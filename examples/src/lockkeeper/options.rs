//! The command line of `lockkeeper`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

/// The command line.
#[derive(Debug, Parser)]
#[command(
    name = "lockkeeper",
    version,
    about = "Looks at a running system, and tells a region what to do",
    after_help = "Exit codes: 0 done, and in order; 1 refused, came to nothing, or not in order (a region that has \
                  failed or has no place for an operator, nobody leads, a damaged store); 2 usage, or a file that \
                  can't be read; 3 nobody answers there, or does not let this program in: nothing was done; 4 asked, \
                  and no answer came: it may have been done."
)]
pub struct Options {
    /// One JSON object on standard output instead of text
    #[arg(long, global = true)]
    pub(super) json: bool,
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Asks a running region by its admin endpoint
    Region {
        #[command(flatten)]
        connection: ConnectionOptions,
        #[command(subcommand)]
        command: RegionCommand,
    },
    /// Looks at a region's store; the region need not run
    #[command(
        after_help = "STORE is a folder, redis://HOST:PORT/DATABASE?prefix=PREFIX, or s3://BUCKET/FOLDER (with \
                      AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT). A password for Redis is read \
                      from LOCKKEEPER_REDIS_PASSWORD."
    )]
    Store {
        #[command(subcommand)]
        command: StoreCommand,
    },
    /// Shows who leads; exit code 1 if nobody does
    Leader {
        #[command(flatten)]
        connection: ConnectionOptions,
    },
    /// Shows the endpoints of a process, its connections and what else can tell how it is
    Endpoints {
        #[command(flatten)]
        connection: ConnectionOptions,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum StoreCommand {
    /// Shows cuts and savepoints, positions, sizes, and what no cut names
    List {
        /// The store
        store: String,
    },
    /// Reads every object and compares lengths and checksums; exit code 1 if one is damaged
    Verify {
        /// The store
        store: String,
    },
    /// Removes what rounds that came to nothing have left, while nobody works on the region. It does so
    /// by itself with its next cut
    Prune {
        /// The store
        store: String,
        /// Only say what would be removed
        #[arg(long)]
        dry_run: bool,
        /// A worker of another host that you know to have ended; may be repeated
        #[arg(long, value_name = "WORKER")]
        assume_dead: Vec<String>,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum RegionCommand {
    /// Shows how the region stands; exit code 1 if it has failed, lacks workers, or nobody leads it
    Status,
    /// Takes a cut and waits until it is complete
    Cut,
    /// Sets the region back to its newest cut and waits until it goes on
    Reset {
        /// Grants it new attempts, and takes a failed region up again
        #[arg(long)]
        force: bool,
        /// For the region's log
        #[arg(long, default_value = "asked for by lockkeeper region reset")]
        reason: String,
    },
    /// Pauses the sources: they take nothing in until they are resumed, or until somebody else leads;
    /// cuts and resets go on
    Pause,
    /// Lets paused sources go on
    Resume,
    /// Takes a cut and keeps it under a name
    Savepoint {
        /// 1 to 64 letters, digits, _ and -
        name: String,
    },
    /// Sets the region back to a savepoint and waits until it goes on
    Restore {
        /// The savepoint
        name: String,
    },
    /// Forgets a savepoint
    Forget {
        /// The savepoint
        name: String,
    },
    /// Takes a final cut and ends the region; started again it goes on from there
    Stop {
        /// Keeps the final cut under this name as well
        #[arg(long, value_name = "NAME")]
        savepoint: Option<String>,
    },
}

/// Where the endpoint is, and what this program shows of itself.
#[derive(Debug, Clone, Args)]
pub(super) struct ConnectionOptions {
    /// The endpoint, lockkeeper://HOST:PORT/NAME or HOST:PORT; several with commas, of which the
    /// one that leads is asked
    #[arg(
        long,
        global = true,
        env = "LOCKKEEPER_ADDRESS",
        value_delimiter = ',',
        value_name = "ADDRESS"
    )]
    pub(super) address: Vec<String>,
    /// Where its leader is elected, in place of an address: a folder of lease files, or
    /// zookeeper://HOST:PORT/ROOT, etcd://HOST:PORT/ROOT, or kubernetes://NAMESPACE/LEASE
    #[arg(long, global = true, env = "LOCKKEEPER_ELECTION", value_name = "PLACE")]
    pub(super) election: Option<String>,
    /// What is led there; for --election
    #[arg(long, global = true, env = "LOCKKEEPER_COMPONENT", value_name = "NAME")]
    pub(super) component: Option<String>,
    /// The endpoint's name where none is in its address; region-admin, for `endpoints` service-admin
    #[arg(long, global = true, value_name = "NAME")]
    pub(super) endpoint: Option<String>,
    /// A file with the service's shared keys, one a line
    #[arg(long, global = true, env = "LOCKKEEPER_KEY_FILE", value_name = "FILE")]
    pub(super) key_file: Option<PathBuf>,
    /// This program's certificate, a PEM file
    #[arg(
        long,
        global = true,
        env = "LOCKKEEPER_TLS_CERTIFICATE_FILE",
        value_name = "FILE"
    )]
    pub(super) tls_certificate_file: Option<PathBuf>,
    /// Its private key, a PEM file
    #[arg(
        long,
        global = true,
        env = "LOCKKEEPER_TLS_KEY_FILE",
        value_name = "FILE"
    )]
    pub(super) tls_key_file: Option<PathBuf>,
    /// The authorities that it trusts, a PEM file
    #[arg(
        long,
        global = true,
        env = "LOCKKEEPER_TLS_AUTHORITIES_FILE",
        value_name = "FILE"
    )]
    pub(super) tls_authorities_file: Option<PathBuf>,
    /// The name in the service's certificate, if it is not the host that is dialled
    #[arg(
        long,
        global = true,
        env = "LOCKKEEPER_TLS_SERVER_NAME",
        value_name = "NAME"
    )]
    pub(super) tls_server_name: Option<String>,
    /// Seconds that the command may take; what it began goes on all the same
    #[arg(long, global = true, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    pub(super) time_out: Duration,
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.001..=86_400.0).contains(&seconds) => {
            Ok(Duration::from_secs_f64(seconds))
        }
        _ => Err("must be a number of seconds from 0.001 to 86400".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Options::command().debug_assert();
    }

    #[test]
    fn options_may_stand_before_and_after_the_command() {
        for line in [
            "lockkeeper --json region --address a:1 --time-out 2 status",
            "lockkeeper region status --address a:1 --time-out 2 --json",
        ] {
            let options = Options::try_parse_from(line.split(' ')).unwrap();
            let Command::Region { connection, .. } = &options.command else {
                panic!("{options:?}");
            };
            assert!(options.json);
            assert_eq!(connection.address, ["a:1"]);
            assert_eq!(connection.time_out, Duration::from_secs(2));
        }
    }
}
