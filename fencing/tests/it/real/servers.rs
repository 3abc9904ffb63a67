//! Servers of a test's own, which it may kill and start again.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::free_port;

/// A server's process, with its data in a folder. Killed with it.
pub(super) struct Server {
    /// Where clients find it, as `host:port`.
    pub(super) address: String,
    program: Box<dyn Fn(&Path) -> Command>,
    folder: tempfile::TempDir,
    process: Option<Child>,
}

impl Server {
    fn new(address: String, program: impl Fn(&Path) -> Command + 'static) -> Self {
        Server {
            address,
            program: Box::new(program),
            folder: tempfile::tempdir().unwrap(),
            process: None,
        }
    }

    /// Does not wait until it is ready: clients try again until it is.
    pub(super) fn start(&mut self) {
        let mut command = (self.program)(self.folder.path());
        let log = std::fs::File::create(self.folder.path().join("log")).unwrap();
        command
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        self.process = Some(command.spawn().unwrap());
    }

    pub(super) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// As after a loss of its disk.
    pub(super) fn forget(&mut self) {
        assert!(self.process.is_none(), "it still runs");
        std::fs::remove_dir_all(self.folder.path().join("data")).unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A program, in a network namespace if one is given.
fn program(name: &str, namespace: Option<&str>) -> Command {
    match namespace {
        Some(namespace) => {
            let mut within = Command::new("ip");
            within.args(["netns", "exec", namespace, name]);
            within
        }
        None => Command::new(name),
    }
}

/// What TLS files etcd is to use.
#[cfg(feature = "etcd")]
pub(super) struct ServerTls<'a> {
    pub(super) certificate: &'a Path,
    pub(super) key: &'a Path,
    pub(super) client_authorities: &'a Path,
}

/// One etcd, on loopback or at an address of that namespace.
#[cfg(feature = "etcd")]
pub(super) fn etcd(
    address: String,
    namespace: Option<String>,
    tls: Option<ServerTls<'_>>,
) -> Server {
    let scheme = if tls.is_some() { "https" } else { "http" };
    let url = format!("{scheme}://{address}");
    let mut options: Vec<std::ffi::OsString> = Vec::new();
    if let Some(tls) = tls {
        options.extend([
            "--client-cert-auth".into(),
            "--cert-file".into(),
            tls.certificate.into(),
            "--key-file".into(),
            tls.key.into(),
            "--trusted-ca-file".into(),
            tls.client_authorities.into(),
        ]);
    }
    // A port that is fixed, so that the cluster's id stays the same over restarts.
    let peer = format!("http://127.0.0.1:{}", free_port());
    Server::new(address, move |folder| {
        let mut etcd = program("etcd", namespace.as_deref());
        etcd.args(["--log-level", "error"])
            .args([
                "--listen-client-urls",
                &url,
                "--advertise-client-urls",
                &url,
            ])
            .args(["--listen-peer-urls", &peer])
            .args(["--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("default={peer}")])
            .args(&options)
            .arg("--data-dir")
            .arg(folder.join("data"));
        etcd
    })
}

/// The folder with ZooKeeper's jars.
#[cfg(feature = "zookeeper")]
fn jars() -> &'static str {
    static JARS: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    JARS.get_or_init(|| {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/services/jars");
        let found = Command::new(script).output().unwrap();
        let said = String::from_utf8_lossy(&found.stderr);
        assert!(found.status.success(), "no jars of ZooKeeper: {said}");
        String::from_utf8(found.stdout).unwrap().trim().to_owned()
    })
}

/// The other members of an ensemble, and which of them this is.
#[cfg(feature = "zookeeper")]
#[derive(Clone, Default)]
pub(super) struct Ensemble {
    pub(super) own: usize,
    /// Their hosts, with the numbers that they have in it.
    pub(super) members: Vec<(usize, String)>,
}

/// One ZooKeeper, on loopback or at an address of that namespace, whose process has these variables
/// in its environment.
#[cfg(feature = "zookeeper")]
pub(super) fn zookeeper(
    address: String,
    namespace: Option<String>,
    ensemble: Ensemble,
    environment: Vec<(&'static str, String)>,
) -> Server {
    let (host, port) = address.split_once(':').unwrap();
    let mut settings = format!(
        "clientPort={port}\nclientPortAddress={host}\ntickTime=500\nminSessionTimeout=1000\n\
         maxSessionTimeout=120000\ninitLimit=20\nsyncLimit=4\nadmin.enableServer=false\n\
         forceSync=no\n"
    );
    for (number, host) in &ensemble.members {
        settings.push_str(&format!("server.{number}={host}:2888:3888\n"));
    }
    Server::new(address, move |folder| {
        let data = folder.join("data");
        std::fs::create_dir_all(&data).unwrap();
        std::fs::write(data.join("myid"), ensemble.own.to_string()).unwrap();
        let settings = format!("{settings}dataDir={}\n", data.display());
        let file = folder.join("zoo.cfg");
        std::fs::write(&file, settings).unwrap();
        let mut java = program("java", namespace.as_deref());
        java.args(["-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"])
            .arg("-Djava.net.preferIPv4Stack=true")
            .arg("-Dzookeeper.jmx.log4j.disable=true")
            .arg(concat!(
                "-Dlogback.configurationFile=",
                env!("CARGO_MANIFEST_DIR"),
                "/../tests/services/canal-node/logback.xml"
            ))
            .arg(format!("-Dlockkeeper.log={}", folder.join("log").display()))
            .arg("-Dlockkeeper.level=WARN")
            .args(["-cp", &format!("{}/*", jars())])
            .arg("org.apache.zookeeper.server.quorum.QuorumPeerMain")
            .arg(file)
            .envs(environment.iter().cloned());
        java
    })
}
