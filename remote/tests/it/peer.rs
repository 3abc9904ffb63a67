//! Another process: this test binary, run anew, with a service in it.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use lockkeeper_core::{RpcAddress, RpcService};
use lockkeeper_remote::RemoteBuilderExt;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use crate::flow::Slow;
use crate::hostile::Reader;
use crate::support::Counter;

const BIND: &str = "LOCKKEEPER_TEST_PEER_BIND";
const VERSIONS: &str = "LOCKKEEPER_TEST_PEER_VERSIONS";

/// A process that serves `counter`; killed when this is dropped.
pub struct Peer {
    child: Child,
    pub address: RpcAddress,
}

impl Peer {
    pub fn start() -> Self {
        Self::start_at("127.0.0.1:0", "1-2")
    }

    /// Binds that address and speaks these protocol versions.
    pub fn start_at(bind: &str, versions: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "peer::a_process_of_its_own",
                "--ignored",
                "--nocapture",
            ])
            .env(BIND, bind)
            .env(VERSIONS, versions)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
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
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status
            .lines()
            .find(|line| line.starts_with("VmHWM:"))
            .unwrap();
        let kibibytes: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        kibibytes * 1024
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
    let builder = RpcService::builder().bind(bind).protocol_versions(min, max);
    let service = builder.start().await.unwrap();
    let server = service
        .start_server("counter", Counter::default())
        .await
        .unwrap();
    server.start().await.unwrap();
    let slow = service.start_server("slow", Slow::default()).await.unwrap();
    slow.start().await.unwrap();
    let tree = service.start_server("tree", Reader).await.unwrap();
    tree.start().await.unwrap();
    println!("SERVES {}", server.address());
    // Until the parent closes the pipe, by dropping it or by its own death.
    let parent = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()));
    parent.await.unwrap().unwrap();
}
