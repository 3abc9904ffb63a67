//! A ZooKeeper of the bench's own: nobody else's sessions and watches are counted.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bench_harness::Failure;

const LIMIT: Duration = Duration::from_secs(120);
const SERVICES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/services");

pub struct ZooKeeper {
    pub address: String,
    process: Child,
    _folder: tempfile::TempDir,
}

impl ZooKeeper {
    /// As `tests/services` configures it.
    pub fn start() -> Result<Self, Failure> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let folder = tempfile::tempdir()?;
        let settings = folder.path().join("zoo.cfg");
        std::fs::write(
            &settings,
            format!(
                "dataDir={}\nclientPort={port}\nclientPortAddress=127.0.0.1\ntickTime=500\n\
                 minSessionTimeout=1000\nmaxSessionTimeout=4000\nmaxClientCnxns=0\n\
                 admin.enableServer=false\n4lw.commands.whitelist=*\nforceSync=no\n",
                folder.path().join("data").display()
            ),
        )?;
        let log = std::fs::File::create(folder.path().join("out"))?;
        let process = Command::new("java")
            .args([
                "-Xmx256m",
                "-XX:+UseSerialGC",
                "-Djava.net.preferIPv4Stack=true",
            ])
            .arg("-Dzookeeper.jmx.log4j.disable=true")
            .arg(format!(
                "-Dlogback.configurationFile={SERVICES}/canal-node/logback.xml"
            ))
            .arg(format!(
                "-Dlockkeeper.log={}",
                folder.path().join("log").display()
            ))
            .arg("-Dlockkeeper.level=WARN")
            .args(["-cp", &format!("{}/*", jars()?)])
            .arg("org.apache.zookeeper.server.quorum.QuorumPeerMain")
            .arg(&settings)
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        let server = ZooKeeper {
            address: format!("127.0.0.1:{port}"),
            process,
            _folder: folder,
        };
        let began = Instant::now();
        while server.ask("ruok").unwrap_or_default() != "imok" {
            if began.elapsed() > LIMIT {
                return Err("ZooKeeper did not start".into());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(server)
    }

    /// One of its four-letter words.
    pub fn ask(&self, word: &str) -> Result<String, Failure> {
        let mut connection = TcpStream::connect(&self.address)?;
        connection.set_read_timeout(Some(Duration::from_secs(5)))?;
        connection.write_all(word.as_bytes())?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer)?;
        Ok(answer)
    }

    /// The number that `mntr` gives to this name.
    pub fn count(&self, name: &str) -> Result<u64, Failure> {
        let all = self.ask("mntr")?;
        let found = all.lines().find_map(|line| line.strip_prefix(name));
        let found = found.ok_or_else(|| format!("{name} is not in {all}"))?;
        Ok(found.trim().parse()?)
    }
}

impl Drop for ZooKeeper {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The folder with ZooKeeper's jars.
pub fn jars() -> Result<String, Failure> {
    let script = Path::new(SERVICES).join("jars");
    let found = Command::new(script).stderr(Stdio::inherit()).output()?;
    if !found.status.success() {
        return Err("no jars of ZooKeeper".into());
    }
    Ok(String::from_utf8(found.stdout)?.trim().to_owned())
}
