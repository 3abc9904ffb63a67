//! Who is on which host, and cuts between hosts.
//!
//! With namespaces each process of the job has a host of its own, the servers share one, and a
//! router lies between them: `tests/chaos` has made all that. The servers listen on the loopback of
//! their host, so this program, which runs there, hands on what comes to their outer addresses. A cut
//! is a rule in the router that swallows what goes one way, so that both ends see silence.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use anyhow::{Context, bail};
use lockkeeper_examples::orders::cluster::{NodeName, Role};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;

/// The server of the job that a node talks to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Server {
    ZooKeeper,
    Canal,
    Redis,
}

impl Server {
    /// All of them.
    pub(crate) const ALL: [Self; 3] = [Self::ZooKeeper, Self::Canal, Self::Redis];

    fn host(self) -> Ipv4Addr {
        Ipv4Addr::new(
            10,
            71,
            1,
            match self {
                Self::ZooKeeper => 2,
                Self::Canal => 3,
                Self::Redis => 4,
            },
        )
    }
}

/// What goes from one address to another.
pub(crate) type Way = (IpAddr, IpAddr);

/// Both ways between two addresses.
pub(crate) fn both(one: IpAddr, other: IpAddr) -> [Way; 2] {
    [(one, other), (other, one)]
}

/// Where everything is.
#[derive(Debug, Clone)]
pub(crate) struct Network {
    /// What the names of the namespaces begin with; `None`: everything on loopback.
    prefix: Option<String>,
}

impl Network {
    pub(crate) fn new(prefix: Option<String>) -> Self {
        Self { prefix }
    }

    /// Whether it can be cut.
    pub(crate) fn can_be_cut(&self) -> bool {
        self.prefix.is_some()
    }

    /// Where a node listens.
    pub(crate) fn node(&self, node: &NodeName) -> IpAddr {
        if self.can_be_cut() {
            IpAddr::V4(Ipv4Addr::new(10, 71, host(node), 2))
        } else {
            IpAddr::V4(Ipv4Addr::LOCALHOST)
        }
    }

    /// The address of a server as a node sees it.
    pub(crate) fn server(&self, server: Server) -> IpAddr {
        if self.can_be_cut() {
            IpAddr::V4(server.host())
        } else {
            IpAddr::V4(Ipv4Addr::LOCALHOST)
        }
    }

    /// A command that runs on a node's host.
    pub(crate) fn command(&self, node: &NodeName, program: &std::path::Path) -> Command {
        match &self.prefix {
            None => Command::new(program),
            Some(prefix) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", &format!("{prefix}h{}", host(node))]);
                command.arg(program);
                command
            }
        }
    }

    /// Swallows what goes these ways, silently.
    pub(crate) async fn cut(&self, ways: &[Way]) -> anyhow::Result<()> {
        self.rules("add", ways).await
    }

    /// Lets it through again.
    pub(crate) async fn mend(&self, ways: &[Way]) -> anyhow::Result<()> {
        self.rules("del", ways).await
    }

    async fn rules(&self, verb: &str, ways: &[Way]) -> anyhow::Result<()> {
        let prefix = self.prefix.as_ref().context("a network that can be cut")?;
        for (from, to) in ways {
            let (router, from, to) = (format!("{prefix}r"), from.to_string(), to.to_string());
            let status = Command::new("ip")
                .args([
                    "-n",
                    &router,
                    "rule",
                    verb,
                    "from",
                    &from,
                    "to",
                    &to,
                    "blackhole",
                ])
                .status()
                .await?;
            if !status.success() {
                bail!("ip rule {verb} from {from} to {to}: {status}");
            }
        }
        Ok(())
    }

    /// Hands on what comes to the servers' outer addresses; does nothing on loopback. Ends with
    /// the runtime.
    pub(crate) async fn forward(&self, server: Server, inner: SocketAddr) -> anyhow::Result<()> {
        if !self.can_be_cut() {
            return Ok(());
        }
        let outer = SocketAddr::new(self.server(server), inner.port());
        let listener = TcpListener::bind(outer)
            .await
            .with_context(|| format!("{server:?} at {outer}"))?;
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(hand_on(client, inner));
            }
        });
        Ok(())
    }
}

/// A server that is down shows as a connection that is closed at once.
async fn hand_on(mut client: TcpStream, inner: SocketAddr) {
    if let Ok(mut server) = TcpStream::connect(inner).await {
        let _ = client.set_nodelay(true).and(server.set_nodelay(true));
        let _ = copy_bidirectional(&mut client, &mut server).await;
    }
}

fn host(node: &NodeName) -> u8 {
    let first = if node.role == Role::Coordinator {
        11
    } else {
        21
    };
    first + u8::try_from(node.number).unwrap_or(0)
}
