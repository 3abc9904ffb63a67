//! The command line of `orders`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::ensure;
use clap::{Parser, Subcommand};

use super::cluster::Role;
use super::database::TableName;
use super::job::CANAL_PASSWORD_VARIABLE;
use super::sabotage::Sabotage;
use crate::settings::Settings;
use crate::settings::election::ElectionDriver;

/// Keeps totals per customer over the row changes of an orders table, exactly once, while it kills
/// its own processes. Without flags everything is embedded.
#[derive(Debug, Clone, Parser)]
#[command(name = "orders", version)]
pub struct Options {
    /// What `orders` starts its own processes with
    #[command(subcommand)]
    pub node: Option<NodeCommand>,
    /// Settings, a TOML file (docs/tasks/settings.md); flags are above it
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Row changes of the embedded source
    #[arg(long, default_value_t = 1_000_000, conflicts_with = "canal")]
    pub rows: u64,
    /// Worker processes; 0: everything in one process
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(0..=64))]
    pub workers: u16,
    /// Seed of the embedded rows and of the kills
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Kill nothing
    #[arg(long)]
    pub no_chaos: bool,
    /// Seconds between two cuts. Default: 0.5
    #[arg(long, value_parser = period)]
    pub period: Option<f64>,
    /// The job's folder; a job that was interrupted goes on in it. Default: a new one in the
    /// system's folder for temporary files
    #[arg(long)]
    pub data: Option<PathBuf>,
    /// Addresses of the Canal servers, host:port
    #[arg(long, requires = "table")]
    pub canal: Option<String>,
    /// Canal's destination. Default: example
    #[arg(long)]
    pub destination: Option<String>,
    /// Canal's client id. Default: 1001
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=32767))]
    pub client_id: Option<u16>,
    /// The table: SCHEMA.TABLE with id, customer, amount, placed, version
    #[arg(long)]
    pub table: Option<TableName>,
    /// User at the Canal server; the password is read from ORDERS_CANAL_PASSWORD or
    /// --password-file
    #[arg(long)]
    pub user: Option<String>,
    /// File with the password for the Canal server
    #[arg(long)]
    pub password_file: Option<PathBuf>,
    /// Elect the leader by this ZooKeeper, host:port, instead of lease files
    #[arg(long)]
    pub zookeeper: Option<String>,
    /// Keep the checkpoints at redis://HOST:PORT/DATABASE?prefix=PREFIX instead of in the job's
    /// folder; needs the feature `redis`, its password is read from LOCKKEEPER__STORE__PASSWORD
    #[arg(long)]
    pub store: Option<String>,
    /// Compare with the table at mysql://user@host:port in the end; the password is read from
    /// ORDERS_SQL_PASSWORD
    #[arg(long, requires = "expect_log")]
    pub expect_sql: Option<String>,
    /// The loader's log of what it committed, for --expect-sql
    #[arg(long, requires = "expect_sql")]
    pub expect_log: Option<PathBuf>,
    /// Entries that the server's buffer holds. Default: 16384
    #[arg(long, value_parser = clap::value_parser!(u64).range(8..))]
    pub server_buffer: Option<u64>,
    /// Serve a console that shows what goes on at this address, such as 127.0.0.1:8080; port 0 is a
    /// free one, and is printed. Beyond loopback only with a token
    #[arg(long)]
    pub console: Option<SocketAddr>,
    /// File with the token for the console's actions, 16 characters or more; else it is read from
    /// ORDERS_CONSOLE_TOKEN. Without a token there are none
    #[arg(long, requires = "console")]
    pub console_token_file: Option<PathBuf>,
    /// The last line on standard output is one JSON object
    #[arg(long)]
    pub json: bool,
    /// Kill at these points only, in this order
    #[arg(long, hide = true, value_delimiter = ',', conflicts_with = "no_chaos")]
    pub kill_points: Vec<String>,
    /// Stop processes beyond their lease at these points only, in this order, and continue them
    #[arg(long, hide = true, value_delimiter = ',', conflicts_with_all = ["no_chaos", "kill_points"])]
    pub stop_points: Vec<String>,
    /// Do something wrong, to see that it is noticed
    #[arg(long, hide = true)]
    pub sabotage: Option<Sabotage>,
}

/// What else this program can be.
#[derive(Debug, Clone, Subcommand)]
pub enum NodeCommand {
    /// One process of the cluster; `orders` starts them
    #[command(hide = true)]
    Node {
        /// The job's folder
        #[arg(long)]
        data: PathBuf,
        /// What it does
        #[arg(long)]
        role: Role,
        /// 0, 1, …
        #[arg(long)]
        number: u16,
        /// Tell how it is
        #[arg(long)]
        status: bool,
        /// Where it listens. Beyond loopback it answers whoever reaches it: for the network of a test
        #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
        host: IpAddr,
        /// A coordinator reports all the time whether it leads: `Report::Leads`
        #[arg(long)]
        report_tenure: bool,
    },
    /// Does what `orders-verify` does, where that program was not built beside this one
    #[command(hide = true)]
    Verify {
        /// The job's folder
        data: PathBuf,
    },
}

impl Options {
    /// What the flags, the environment, the file and this program's defaults say together.
    ///
    /// # Errors
    /// A setting that can't be; a table without a server, or the reverse.
    pub fn settings(&self) -> anyhow::Result<Settings> {
        let text = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
        let period = self.period.map(Duration::from_secs_f64);
        let by_zookeeper = self.zookeeper.as_ref().map(|_| "zookeeper".to_owned());
        let flags = [
            (
                "region.period",
                "--period",
                period.map(|time| humantime::format_duration(time).to_string()),
            ),
            ("canal.addresses", "--canal", self.canal.clone()),
            (
                "canal.destination",
                "--destination",
                self.destination.clone(),
            ),
            (
                "canal.client_id",
                "--client-id",
                self.client_id.map(|id| id.to_string()),
            ),
            ("canal.user", "--user", self.user.clone()),
            (
                "canal.password_file",
                "--password-file",
                text(&self.password_file),
            ),
            ("store.url", "--store", self.store.clone()),
            ("election.driver", "--zookeeper", by_zookeeper),
            ("election.servers", "--zookeeper", self.zookeeper.clone()),
            (
                "source.canal.server_buffer_entries",
                "--server-buffer",
                self.server_buffer.map(|count| count.to_string()),
            ),
        ];
        let mut settings = Settings::of_program(&DEFAULTS, self.config.as_deref(), flags)?;
        settings.canal.password_or(CANAL_PASSWORD_VARIABLE);
        if settings.election.driver == ElectionDriver::Zookeeper {
            settings.election.session.get_or_insert(ZOOKEEPER_SESSION);
        }
        ensure!(
            settings.canal.addresses.is_empty() == self.table.is_none(),
            "--table names the table at the Canal server: give both, or neither for the embedded source"
        );
        ensure!(
            self.expect_sql.is_none() || self.table.is_some(),
            "--expect-sql compares with a table: the embedded source has none"
        );
        Ok(settings)
    }
}

/// Above the components' own defaults. No server: the embedded source.
const DEFAULTS: [(&str, &str); 5] = [
    ("canal.addresses", ""),
    ("region.period", "500ms"),
    ("region.lease", "2s"),
    ("region.lease_margin", "500ms"),
    // a cluster that kills itself resets more often than one that does not
    ("region.max_consecutive_reset_attempts", "50"),
];

/// How long leadership by ZooKeeper holds without renewal.
const ZOOKEEPER_SESSION: Duration = Duration::from_secs(4);

fn period(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.01..=86_400.0).contains(&seconds) => Ok(seconds),
        _ => Err("must be a number of seconds from 0.01 to 86400".to_owned()),
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
    fn a_period_of_zero_is_refused() {
        assert!(Options::try_parse_from(["orders", "--period", "0"]).is_err());
        assert!(Options::try_parse_from(["orders", "--period", "3600"]).is_ok());
    }
}
