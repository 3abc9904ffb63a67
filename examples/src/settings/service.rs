//! `[service]`: the process' `RpcService`, its limits, and who may connect.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use lockkeeper_core::{InboxLimits, RpcService};
use lockkeeper_remote::{RemoteBuilder, RemoteBuilderExt, RemoteSettings};
use serde::{Deserialize, Serialize};

use super::rules::Rules;

/// See [`RemoteBuilder`] and `RpcServiceBuilder`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServiceSettings {
    /// Where it listens, `host:port`; port 0 takes a free one. `127.0.0.1:0`.
    pub bind: String,
    /// What others dial, if it is not that.
    pub advertise: Option<String>,
    /// The first port of a range, in place of the one in `bind`.
    pub first_port: Option<u16>,
    /// The last port of the range.
    pub last_port: Option<u16>,
    /// Listen beyond loopback without TLS and keys.
    pub allow_insecure: bool,
    /// Shared keys, one a line.
    pub shared_key_file: Option<PathBuf>,
    /// This process' certificate, PEM.
    pub tls_certificate_file: Option<PathBuf>,
    /// Its key, PEM.
    pub tls_key_file: Option<PathBuf>,
    /// The authorities that it trusts, PEM.
    pub tls_authorities_file: Option<PathBuf>,
    /// The name in others' certificates, if it is not the host that is dialled.
    pub tls_server_name: Option<String>,
    /// Limit of a call without one of its own. 10 s.
    pub default_timeout: Duration,
    /// Limit of an endpoint's hooks. 60 s.
    pub hook_timeout: Duration,
    /// How long a revocation waits for calls. 1 s.
    pub revoke_timeout: Duration,
    /// How long a handler may hold its thread before it is named; none: for ever. 1 s.
    pub watchdog: Option<Duration>,
    /// Refuse callers whose messages have another shape. `true`.
    pub check_shapes: bool,
    /// What may wait at an endpoint.
    pub inbox: InboxLimits,
    /// The connections.
    pub connections: RemoteSettings,
}

impl Default for ServiceSettings {
    fn default() -> Self {
        Self {
            bind: "127.0.0.1:0".to_owned(),
            advertise: None,
            first_port: None,
            last_port: None,
            allow_insecure: false,
            shared_key_file: None,
            tls_certificate_file: None,
            tls_key_file: None,
            tls_authorities_file: None,
            tls_server_name: None,
            default_timeout: Duration::from_secs(10),
            hook_timeout: Duration::from_secs(60),
            revoke_timeout: Duration::from_secs(1),
            watchdog: Some(Duration::from_secs(1)),
            check_shapes: true,
            inbox: InboxLimits::default(),
            connections: RemoteSettings::default(),
        }
    }
}

impl ServiceSettings {
    /// A service with them, to be started.
    ///
    /// # Errors
    /// Files that can't be read, and what was not built in.
    pub fn builder(&self) -> anyhow::Result<RemoteBuilder> {
        let service = RpcService::builder()
            .default_timeout(self.default_timeout)
            .hook_timeout(self.hook_timeout)
            .revoke_timeout(self.revoke_timeout)
            .watchdog(self.watchdog)
            .check_shapes(self.check_shapes)
            .inbox_limits(self.inbox);
        let mut builder = service
            .bind(&self.bind)
            .settings(self.connections.clone())
            .allow_insecure(self.allow_insecure);
        if let Some(advertise) = &self.advertise {
            builder = builder.advertise(advertise);
        }
        if let (Some(first), Some(last)) = (self.first_port, self.last_port) {
            builder = builder.port_range(first..=last);
        }
        self.keys(self.tls(builder)?)
    }

    #[cfg(feature = "shared-key")]
    fn keys(&self, builder: RemoteBuilder) -> anyhow::Result<RemoteBuilder> {
        let Some(file) = &self.shared_key_file else {
            return Ok(builder);
        };
        let named = || format!("the key file {}", file.display());
        let text = std::fs::read_to_string(file).with_context(named)?;
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let keys = lockkeeper_remote::SharedKeys::new(lines).with_context(named)?;
        Ok(builder.shared_keys(keys))
    }

    #[cfg(not(feature = "shared-key"))]
    fn keys(&self, builder: RemoteBuilder) -> anyhow::Result<RemoteBuilder> {
        anyhow::ensure!(
            self.shared_key_file.is_none(),
            "this program was built without shared keys: build it with --features shared-key"
        );
        Ok(builder)
    }

    #[cfg(feature = "tls")]
    fn tls(&self, builder: RemoteBuilder) -> anyhow::Result<RemoteBuilder> {
        let files = (
            &self.tls_certificate_file,
            &self.tls_key_file,
            &self.tls_authorities_file,
        );
        let (Some(certificate), Some(key), Some(authorities)) = files else {
            return Ok(builder);
        };
        let mut tls =
            lockkeeper_remote::Tls::from_pem_files(certificate, key, authorities).context("TLS")?;
        if let Some(name) = &self.tls_server_name {
            tls = tls.server_name(name)?;
        }
        Ok(builder.tls(tls))
    }

    #[cfg(not(feature = "tls"))]
    fn tls(&self, builder: RemoteBuilder) -> anyhow::Result<RemoteBuilder> {
        anyhow::ensure!(
            self.tls_certificate_file.is_none(),
            "this program was built without TLS: build it with --features tls"
        );
        Ok(builder)
    }

    pub(super) fn check(&self, rules: &mut Rules<'_>) {
        rules.text("service.bind", &self.bind, 300);
        let ports = (self.first_port, self.last_port);
        let holds = match ports {
            (None, None) => true,
            (Some(first), Some(last)) => (1..=last).contains(&first),
            _ => false,
        };
        let key = match ports {
            (None, _) => "service.last_port",
            _ => "service.first_port",
        };
        rules.must(
            key,
            holds,
            "goes with the other one: first_port and last_port are both there, the first from 1 and not above \
             the last",
        );
        let tls = [
            ("service.tls_certificate_file", &self.tls_certificate_file),
            ("service.tls_key_file", &self.tls_key_file),
            ("service.tls_authorities_file", &self.tls_authorities_file),
        ];
        let all = tls.iter().all(|(_, file)| file.is_some());
        for (key, file) in tls {
            let rule =
                "needs the others: tls_certificate_file, tls_key_file and tls_authorities_file";
            rules.must(key, all || file.is_none(), rule);
        }
        rules.must(
            "service.tls_server_name",
            all || self.tls_server_name.is_none(),
            "needs tls_certificate_file, tls_key_file and tls_authorities_file",
        );
        rules.time("service.default_timeout", self.default_timeout);
        rules.time("service.hook_timeout", self.hook_timeout);
        rules.time("service.revoke_timeout", self.revoke_timeout);
        if let Some(watchdog) = self.watchdog {
            rules.time("service.watchdog", watchdog);
        }
        let count = 1..=usize::MAX;
        rules.within("service.inbox.messages", self.inbox.messages, count.clone());
        rules.within("service.inbox.bytes", self.inbox.bytes, count);
        if let Err(broken) = self.connections.validate() {
            let (setting, rule) = broken.text().split_once(' ').unwrap_or_default();
            rules.must(&format!("service.connections.{setting}"), false, rule);
        }
    }
}
