//! Who leads: read from where the leader is elected.

use std::path::Path;
use std::time::Duration;

use lockkeeper_fencing::driver::{LeaseFiles, ZooKeeper};
use lockkeeper_fencing::election::{ComponentId, ElectionError, LeaderInformation};
use lockkeeper_fencing::retrieval::LeaderRetrievalService;

use serde_json::json;

use super::ending::{Ending, Failure};
use super::options::ConnectionOptions;
use super::{Shown, region};

/// How long a leader is looked for at most.
const LOOK: Duration = Duration::from_secs(10);

/// The variable with the password for a user in a ZooKeeper's or etcd's place: it is never an
/// argument, which everybody on the machine could read.
const PASSWORD_VARIABLE: &str = "LOCKKEEPER_ELECTION_PASSWORD";

/// The leader of a component, as soon as one is known.
///
/// # Errors
/// Usage; nobody leads within the limit.
pub(super) async fn find(
    place: &str,
    component: Option<&str>,
    limit: Duration,
) -> Result<LeaderInformation, Failure> {
    let Some(component) = component else {
        return Err(Failure::usage("what is led there? Give --component NAME"));
    };
    let invalid = |error: ElectionError| Failure::usage(format!("{place}: {error}"));
    let id = ComponentId::new(component).map_err(invalid)?;
    let retrievals = retrievals(place).await?;
    let mut retrieval = retrievals.retrieve(id).map_err(invalid)?;
    match tokio::time::timeout(limit, retrieval.leader()).await {
        Ok(Ok(leader)) => Ok(leader),
        Ok(Err(error)) => Err(Failure::unreachable(format!("{place}: {error}"))),
        Err(_) => Err(Failure::refused(format!(
            "nobody was seen to lead {component} at {place} within {limit:?}"
        ))),
    }
}

async fn retrievals(place: &str) -> Result<LeaderRetrievalService, Failure> {
    let invalid = |error: ElectionError| Failure::usage(format!("{place}: {error}"));
    match place.split_once("://") {
        None => folder(place),
        Some(("file", path)) => folder(path),
        Some(("zookeeper", rest)) => {
            let Place {
                user,
                servers,
                root,
            } = Place::parse(place, rest)?;
            reach(servers).await?;
            let mut ensemble = ZooKeeper::new(servers, format!("/{root}")).map_err(invalid)?;
            if let Some(user) = user {
                ensemble = ensemble.with_digest(user, password(place)?);
            }
            Ok(LeaderRetrievalService::new(ensemble))
        }
        Some(("etcd", rest)) => etcd(place, Place::parse(place, rest)?).await,
        Some(("kubernetes", rest)) => kubernetes(rest),
        Some((scheme, _)) => Err(Failure::usage(format!(
            "no election is reached by {scheme}: give a folder of lease files, or a URL that begins with \
             zookeeper, etcd or kubernetes"
        ))),
    }
}

/// Retrieval waits for ever for a server that is not there; a person wants to know.
async fn reach(servers: &str) -> Result<(), Failure> {
    const DIAL: Duration = Duration::from_secs(5);
    let mut errors = Vec::new();
    for server in servers.split(',') {
        match tokio::time::timeout(DIAL, tokio::net::TcpStream::connect(server)).await {
            Ok(Ok(_)) => return Ok(()),
            Ok(Err(error)) => errors.push(format!("{server}: {error}")),
            Err(_) => errors.push(format!("{server}: no answer within {DIAL:?}")),
        }
    }
    Err(Failure::unreachable(errors.join("; ")))
}

fn folder(path: &str) -> Result<LeaderRetrievalService, Failure> {
    // a wrong path is not made into an empty election
    match Path::new(path).is_dir() {
        true => Ok(LeaderRetrievalService::new(LeaseFiles::new(path))),
        false => Err(Failure::usage(format!(
            "{path} is no folder of lease files: it is not there"
        ))),
    }
}

#[cfg(feature = "etcd")]
async fn etcd(place: &str, parts: Place<'_>) -> Result<LeaderRetrievalService, Failure> {
    use lockkeeper_fencing::driver::Etcd;

    reach(parts.servers).await?;
    let servers = parts.servers.split(',');
    let mut cluster = Etcd::new(
        servers.map(|server| format!("http://{server}")),
        format!("/{}", parts.root),
    );
    if let Some(user) = parts.user {
        cluster = cluster.with_user(user, password(place)?);
    }
    Ok(LeaderRetrievalService::new(cluster))
}

#[cfg(not(feature = "etcd"))]
#[expect(clippy::unused_async, reason = "as with the feature")]
async fn etcd(_: &str, _: Place<'_>) -> Result<LeaderRetrievalService, Failure> {
    Err(Failure::usage(
        "this program was built without etcd: build it with --features etcd",
    ))
}

#[cfg(feature = "kubernetes")]
fn kubernetes(rest: &str) -> Result<LeaderRetrievalService, Failure> {
    let cluster = crate::kubernetes::lease(rest);
    let cluster = cluster.map_err(|error| Failure::usage(format!("{error:#}")))?;
    Ok(LeaderRetrievalService::new(cluster))
}

#[cfg(not(feature = "kubernetes"))]
fn kubernetes(_: &str) -> Result<LeaderRetrievalService, Failure> {
    Err(Failure::usage(
        "this program was built without Kubernetes: build it with --features kubernetes",
    ))
}

/// `[USER@]HOST:PORT[,HOST:PORT…]/ROOT`.
struct Place<'a> {
    user: Option<&'a str>,
    servers: &'a str,
    root: &'a str,
}

impl<'a> Place<'a> {
    fn parse(place: &str, rest: &'a str) -> Result<Self, Failure> {
        let (servers, root) = rest
            .split_once('/')
            .filter(|(servers, root)| !servers.is_empty() && !root.is_empty())
            .ok_or_else(|| {
                Failure::usage(format!(
                    "{place}: it must end with the root that the election has there: …HOST:PORT/ROOT"
                ))
            })?;
        let (user, servers) = match servers.rsplit_once('@') {
            Some((user, servers)) => (Some(user), servers),
            None => (None, servers),
        };
        if user.is_some_and(|user| user.contains(':')) {
            return Err(Failure::usage(format!(
                "a password in an argument can be read by everybody on this machine: put it into {PASSWORD_VARIABLE}"
            )));
        }
        Ok(Self {
            user,
            servers,
            root,
        })
    }
}

fn password(place: &str) -> Result<String, Failure> {
    std::env::var(PASSWORD_VARIABLE).map_err(|_| {
        Failure::usage(format!(
            "{place} has a user: put the password into {PASSWORD_VARIABLE}"
        ))
    })
}

/// `lockkeeper leader`: by where it is elected, or by asking the admin endpoints of those who contend.
pub(super) async fn run(options: &ConnectionOptions) -> Result<Shown, Failure> {
    if options.address.is_empty()
        && let Some(place) = &options.election
    {
        let component = options.component.as_deref();
        let leader = find(place, component, options.time_out.min(LOOK)).await?;
        let (address, token) = (&leader.address, leader.token);
        let text = format!("{address} leads, with token {token}\n");
        let json = json!({"address": address, "token": token});
        return Shown::new(Ending::Done, text, &json);
    }
    let found = region::leader(options).await?;
    let text = format!(
        "{} leads region {}, term {}\n",
        found.address, found.region, found.term
    );
    Shown::new(Ending::Done, text, &found)
}
