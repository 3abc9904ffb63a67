//! Another process: this test binary, run anew, with a service in it.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use std::time::Duration;

use actix::Arbiter;
use lockkeeper_core::{RpcAddress, RpcService};
use lockkeeper_remote::{RemoteBuilderExt, RemoteSettings};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use crate::flow::{Slow, Store};
use crate::hostile::Reader;
use crate::support::Counter;

const BIND: &str = "LOCKKEEPER_TEST_PEER_BIND";
const VERSIONS: &str = "LOCKKEEPER_TEST_PEER_VERSIONS";
/// How long the endpoint `slow` works, in microseconds.
const WORK: &str = "LOCKKEEPER_TEST_PEER_WORK";
/// One-way messages that a session may have here.
const CREDIT: &str = "LOCKKEEPER_TEST_PEER_CREDIT";

/// A process that serves `counter`; killed when this is dropped.
pub struct Peer {
    child: Child,
    pub address: RpcAddress,
}

impl Peer {
    pub fn start() -> Self {
        Self::start_at("127.0.0.1:0", "1-2")
    }

    /// Its endpoint `slow` works so long, and its sessions have so much credit.
    pub fn start_slow(work: Duration, credit: u32) -> Self {
        let mut command = Self::command("127.0.0.1:0", "1-2");
        command
            .env(WORK, work.as_micros().to_string())
            .env(CREDIT, credit.to_string());
        Self::spawn(command)
    }

    /// Binds that address and speaks these protocol versions.
    pub fn start_at(bind: &str, versions: &str) -> Self {
        Self::spawn(Self::command(bind, versions))
    }

    fn command(bind: &str, versions: &str) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args([
                "--exact",
                "peer::a_process_of_its_own",
                "--ignored",
                "--nocapture",
            ])
            .env(BIND, bind)
            .env(VERSIONS, versions)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        command
    }

    fn spawn(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let address = lines
            .find_map(|line| Some(line.unwrap().split_once("SERVES ")?.1.parse().unwrap()))
            .expect("the peer says where it is");
        // Its further output is nobody's concern, but must not fill the pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, address }
    }

    /// The address of another endpoint of the process.
    pub fn endpoint(&self, name: &str) -> RpcAddress {
        let address = self.address.to_string();
        address
            .replace("/counter", &format!("/{name}"))
            .parse()
            .unwrap()
    }

    /// The most memory that it ever had resident.
    pub fn peak_memory_bytes(&self) -> u64 {
        peak_memory_bytes(&self.child.id().to_string())
    }

    /// SIGKILL, and its end awaited.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// SIGSTOP, and its taking hold awaited.
    pub fn stop(&self) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::STOP).unwrap();
        waitpid(Some(pid), WaitOptions::UNTRACED).unwrap();
    }

    /// SIGCONT.
    pub fn go_on(&self) {
        kill_process(Pid::from_child(&self.child), Signal::CONT).unwrap();
    }
}

/// The most memory that a process ever had resident, by its id or `self`.
pub fn peak_memory_bytes(process: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM:"))
        .unwrap();
    let kibibytes: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kibibytes * 1024
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It may be dead already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Not a test: what [`Peer`] runs.
#[actix::test]
#[ignore = "run by other tests, in a process of its own"]
async fn a_process_of_its_own() {
    let Ok(bind) = std::env::var(BIND) else {
        return;
    };
    let versions = std::env::var(VERSIONS).unwrap();
    let (min, max) = versions.split_once('-').unwrap();
    let (min, max) = (min.parse().unwrap(), max.parse().unwrap());
    let number = |name| std::env::var(name).map_or(None, |set| Some(set.parse::<u32>().unwrap()));
    let mut settings = RemoteSettings::default();
    if let Some(credit) = number(CREDIT) {
        settings.credit_messages = credit;
    }
    let builder = RpcService::builder()
        .bind(bind)
        .protocol_versions(min, max)
        .settings(settings);
    let service = builder.start().await.unwrap();
    let server = service
        .start_server("counter", Counter::default())
        .await
        .unwrap();
    server.start().await.unwrap();
    // Each on a thread of its own: who is slow there holds nobody else up.
    // Each on a thread of its own: who is slow there holds nobody else up.
    let (working, storing) = (Arbiter::new().handle(), Arbiter::new().handle());
    let pause = Duration::from_micros(number(WORK).unwrap_or(1_000).into());
    let slow = service
        .start_server_in(&working, "slow", move || Slow {
            pause,
            works: 0,
            jobs: 0,
        })
        .await
        .unwrap();
    slow.start().await.unwrap();
    let bulk = service
        .start_server_in(&storing, "bulk", Store::default)
        .await
        .unwrap();
    bulk.start().await.unwrap();
    let tree = service.start_server("tree", Reader).await.unwrap();
    tree.start().await.unwrap();
    println!("SERVES {}", server.address());
    // Until the parent closes the pipe, by dropping it or by its own death.
    let parent = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()));
    parent.await.unwrap().unwrap();
}
