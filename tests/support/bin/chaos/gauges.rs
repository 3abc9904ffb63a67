//! What is measured of processes, servers and folders, from outside.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use rustix::process::Pid;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::leak::Measure;

/// One value.
pub(crate) type Gauge = (Measure, u64);

/// How long a server's answer is waited for: one that is down or stopped has no gauges then.
const PATIENCE: Duration = Duration::from_secs(2);

/// Of a process; nothing of one that has just ended.
pub(crate) fn of_process(pid: Pid) -> Vec<Gauge> {
    let folder = format!("/proc/{}", pid.as_raw_nonzero());
    let (Ok(status), Ok(handles)) = (
        fs::read_to_string(format!("{folder}/status")),
        fs::read_dir(format!("{folder}/fd")),
    ) else {
        return Vec::new();
    };
    let number = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse().ok()
    };
    let handles: Vec<bool> = handles
        .flatten()
        .filter_map(|handle| fs::read_link(handle.path()).ok())
        .map(|target| target.to_string_lossy().starts_with("socket:"))
        .collect();
    let sockets = handles.iter().filter(|socket| **socket).count();
    // a process that has ended and was not waited for has no memory
    let Some(memory) = number("VmRSS:") else {
        return Vec::new();
    };
    let mut gauges = vec![
        (Measure::Memory, memory),
        (Measure::Files, handles.len() as u64),
        (Measure::Sockets, sockets as u64),
    ];
    gauges.extend(number("Threads:").map(|threads| (Measure::Threads, threads)));
    gauges
}

/// Of ZooKeeper, by its own word.
pub(crate) async fn of_zookeeper(address: SocketAddr) -> Vec<Gauge> {
    let text = ask(address, "mntr").await.unwrap_or_default();
    let number = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once('\t'));
        let (_, value) = lines.find(|(key, _)| *key == name)?;
        value.trim().parse().ok()
    };
    [
        ("zk_watch_count", Measure::Watches),
        ("zk_ephemerals_count", Measure::Ephemerals),
        ("zk_znode_count", Measure::Nodes),
        ("zk_num_alive_connections", Measure::Connections),
    ]
    .into_iter()
    .filter_map(|(name, measure)| Some((measure, number(name)?)))
    .collect()
}

/// Of Redis, by its own word.
pub(crate) async fn of_redis(address: SocketAddr) -> Vec<Gauge> {
    let commands = "DBSIZE\r\nINFO clients\r\nQUIT\r\n";
    let text = ask(address, commands).await.unwrap_or_default();
    let number = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().parse().ok()
    };
    [
        (":", Measure::Keys),
        ("connected_clients:", Measure::Connections),
    ]
    .into_iter()
    .filter_map(|(name, measure)| Some((measure, number(name)?)))
    .collect()
}

/// Files of a folder; none of one that is not there yet.
pub(crate) fn of_folder(folder: &Path) -> Vec<Gauge> {
    let entries = fs::read_dir(folder);
    entries.map_or_else(
        |_| Vec::new(),
        |entries| vec![(Measure::Entries, entries.count() as u64)],
    )
}

async fn ask(address: SocketAddr, question: &str) -> std::io::Result<String> {
    let answer = async {
        let mut server = TcpStream::connect(address).await?;
        server.write_all(question.as_bytes()).await?;
        let mut text = String::new();
        server.read_to_string(&mut text).await?;
        Ok(text)
    };
    match tokio::time::timeout(PATIENCE, answer).await {
        Ok(answer) => answer,
        Err(late) => Err(late.into()),
    }
}
