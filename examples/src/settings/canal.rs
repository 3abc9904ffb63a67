//! `[canal]` and `[connector]`: the Canal server, and how the connector that is an actor works.

use std::path::PathBuf;
use std::time::Duration;

use lockkeeper_canal::{
    CanalConnectorBuilder, CanalConnectorSettings, ClientIdentity, ClusterNodeAccessStrategy,
    Filter,
};
use serde::{Deserialize, Serialize};

use super::rules::Rules;
use super::secret::Secret;

/// See [`CanalConnectorBuilder`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CanalSettings {
    /// The servers, `host:port`.
    pub addresses: Vec<String>,
    /// A ZooKeeper ensemble that names the server, in place of addresses.
    pub zookeeper: Option<String>,
    /// The destination.
    pub destination: String,
    /// The client id.
    pub client_id: u16,
    /// Regular expressions over schema.table, with commas; none: the filter in force is kept.
    pub filter: Option<String>,
    /// The user there.
    pub user: Option<String>,
    /// A file whose first line is the user's password.
    pub password_file: Option<PathBuf>,
    /// The password; by the environment only.
    #[serde(skip_serializing)]
    pub password: Option<Secret>,
    /// Limit of dialling, of the handshake and of authentication, each.
    pub connect_timeout: Duration,
    /// From a request to its answer.
    pub request_timeout: Duration,
    /// After how much silence of ours the server hangs up.
    pub net_read_timeout: Duration,
    /// After how much silence of its own it does.
    pub net_write_timeout: Duration,
    /// The largest frame in bytes.
    pub frame_limit_bytes: usize,
    /// How often in a row a connector that connects again by itself tries.
    pub retry_times: u32,
    /// The first pause between two attempts; it doubles.
    pub retry_first: Duration,
    /// The longest.
    pub retry_longest: Duration,
}

impl Default for CanalSettings {
    fn default() -> Self {
        Self {
            addresses: vec!["127.0.0.1:11111".to_owned()],
            zookeeper: None,
            destination: "example".to_owned(),
            client_id: 1001,
            filter: None,
            user: None,
            password_file: None,
            password: None,
            connect_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(30),
            net_read_timeout: Duration::from_secs(3_600),
            net_write_timeout: Duration::from_secs(3_600),
            frame_limit_bytes: 256 << 20,
            retry_times: 20,
            retry_first: Duration::from_millis(100),
            retry_longest: Duration::from_secs(5),
        }
    }
}

impl CanalSettings {
    /// A connector to these servers, or to `address` in their place.
    ///
    /// # Errors
    /// A password file that can't be read.
    pub fn builder(&self, address: Option<String>) -> anyhow::Result<CanalConnectorBuilder> {
        let builder = self.without_server()?;
        Ok(match address {
            Some(address) => builder.address(address),
            None => builder.addresses(&self.addresses),
        })
    }

    /// As [`builder`](Self::builder), with the server that ZooKeeper names if there is one.
    ///
    /// # Errors
    /// Those of the password, and of ZooKeeper.
    pub async fn finding_builder(
        &self,
        address: Option<String>,
    ) -> anyhow::Result<CanalConnectorBuilder> {
        match (&self.zookeeper, address) {
            (Some(ensemble), None) => {
                let strategy =
                    ClusterNodeAccessStrategy::connect(ensemble, &self.destination).await?;
                Ok(self.without_server()?.access_strategy(strategy))
            }
            (_, address) => self.builder(address),
        }
    }

    /// Takes the password from a variable of the program's own, unless there is one or a file for it.
    pub fn password_or(&mut self, variable: &str) {
        if self.password.is_none() && self.password_file.is_none() {
            self.password = std::env::var(variable).ok().map(Secret::from);
        }
    }

    fn without_server(&self) -> anyhow::Result<CanalConnectorBuilder> {
        let identity =
            ClientIdentity::new(&self.destination).with_client_id(self.client_id.into())?;
        let builder = CanalConnectorBuilder::new(identity)
            .connect_timeout(self.connect_timeout)
            .request_timeout(self.request_timeout)
            .net_read_timeout(self.net_read_timeout)
            .net_write_timeout(self.net_write_timeout)
            .frame_limit(self.frame_limit_bytes)
            .retry(self.retry_times, self.retry_first, self.retry_longest);
        let Some(user) = &self.user else {
            return Ok(builder);
        };
        let password = Secret::given(self.password.as_ref(), self.password_file.as_deref())?;
        let password = password.as_ref().map(Secret::reveal).unwrap_or_default();
        Ok(builder.credentials(user, password))
    }

    /// Which tables.
    ///
    /// # Errors
    /// What is no filter.
    pub fn filter(&self) -> anyhow::Result<Filter> {
        match &self.filter {
            Some(text) => Ok(text.parse()?),
            None => Ok(Filter::keep()),
        }
    }

    pub(super) fn check(&self, rules: &mut Rules<'_>) {
        rules.text("canal.destination", &self.destination, 255);
        rules.within("canal.client_id", self.client_id, 1..=32_767);
        if let Some(text) = &self.filter {
            let parsed = text.parse::<Filter>();
            let rule = parsed
                .as_ref()
                .err()
                .map_or_else(String::new, ToString::to_string);
            rules.must("canal.filter", parsed.is_ok(), rule);
        }
        rules.time("canal.connect_timeout", self.connect_timeout);
        rules.time("canal.request_timeout", self.request_timeout);
        for (key, silence) in [
            ("canal.net_read_timeout", self.net_read_timeout),
            ("canal.net_write_timeout", self.net_write_timeout),
        ] {
            let longest = Duration::from_secs(24 * 86_400);
            rules.times(key, silence, Duration::from_millis(2)..=longest);
            let rule = "must be longer than request_timeout";
            rules.must(key, silence > self.request_timeout, rule);
        }
        let frame = 1 << 10..=1 << 31;
        rules.within("canal.frame_limit_bytes", self.frame_limit_bytes, frame);
        rules.time("canal.retry_first", self.retry_first);
        let times = self.retry_first..=Duration::from_secs(86_400);
        rules.times("canal.retry_longest", self.retry_longest, times);
    }
}

/// See [`CanalConnectorSettings`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConnectorSettings {
    /// How much one batch has at most: KiB, or entries in the server's ITEMSIZE mode.
    pub fetch_size: u32,
    /// Batches with the handler at a time.
    pub window: usize,
    /// The longest pause between two questions while nothing comes.
    pub longest_poll_pause: Duration,
    /// How often a server that is not asked for rows is asked whether it lives.
    pub keep_alive: Duration,
    /// The first pause before connecting again; it doubles.
    pub first_back_off: Duration,
    /// The longest.
    pub longest_back_off: Duration,
    /// How often in a row connecting may fail; none: without limit.
    pub reconnect_limit: Option<u32>,
    /// How long stopping waits for handlers.
    pub stop_timeout: Duration,
    /// The largest transaction in bytes.
    pub transaction_limit_bytes: usize,
}

impl Default for ConnectorSettings {
    fn default() -> Self {
        Self {
            fetch_size: 1_000,
            window: 1,
            longest_poll_pause: Duration::from_millis(50),
            keep_alive: Duration::from_secs(10),
            first_back_off: Duration::from_millis(100),
            longest_back_off: Duration::from_secs(30),
            reconnect_limit: Some(20),
            stop_timeout: Duration::from_secs(30),
            transaction_limit_bytes: 64 << 20,
        }
    }
}

impl ConnectorSettings {
    /// For a connector that follows the tables of `filter`.
    #[must_use]
    pub fn connector(&self, filter: Filter) -> CanalConnectorSettings {
        CanalConnectorSettings::default()
            .with_filter(filter)
            .with_fetch_size(self.fetch_size)
            .with_window(self.window)
            .with_longest_poll_pause(self.longest_poll_pause)
            .with_keep_alive(self.keep_alive)
            .with_back_off(self.first_back_off, self.longest_back_off)
            .with_reconnect_limit(self.reconnect_limit)
            .with_stop_timeout(self.stop_timeout)
            .with_transaction_limit(self.transaction_limit_bytes)
    }

    pub(super) fn check(&self, rules: &mut Rules<'_>) {
        rules.within("connector.fetch_size", self.fetch_size, 1..=2_097_151);
        rules.within("connector.window", self.window, 1..=10_000);
        rules.time("connector.longest_poll_pause", self.longest_poll_pause);
        rules.time("connector.keep_alive", self.keep_alive);
        rules.time("connector.first_back_off", self.first_back_off);
        let times = self.first_back_off..=Duration::from_secs(86_400);
        rules.times("connector.longest_back_off", self.longest_back_off, times);
        rules.time("connector.stop_timeout", self.stop_timeout);
        let (key, bytes) = (
            "connector.transaction_limit_bytes",
            self.transaction_limit_bytes,
        );
        rules.within(key, bytes, 1..=1 << 40);
    }
}
