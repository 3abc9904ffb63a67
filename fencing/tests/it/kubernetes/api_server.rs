//! An API server that keeps the rules for Leases: a change names the resource version that it has
//! read, and of two changes one is refused. Also for the examples' tests, which take this file.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/lockkeeper/leases";

#[derive(Default)]
pub(crate) struct Leases {
    version: u64,
    pub(crate) by_name: BTreeMap<String, Value>,
}

impl Leases {
    pub(crate) fn store(&mut self, name: &str, mut lease: Value, uid: Value) -> (u16, Value) {
        self.version += 1;
        lease["metadata"]["resourceVersion"] = self.version.to_string().into();
        lease["metadata"]["uid"] = uid;
        lease["metadata"]["namespace"] = "lockkeeper".into();
        self.by_name.insert(name.to_owned(), lease.clone());
        (200, lease)
    }

    fn answer(&mut self, method: &str, path: &str, body: &[u8]) -> (u16, Value) {
        let path = path.split('?').next().unwrap();
        let Some(name) = path.strip_prefix(LEASES) else {
            return failure(404, "NotFound");
        };
        let name = name.trim_start_matches('/');
        match method {
            "GET" => match self.by_name.get(name) {
                Some(lease) => (200, lease.clone()),
                None => failure(404, "NotFound"),
            },
            "POST" => {
                let lease: Value = serde_json::from_slice(body).unwrap();
                let name = lease["metadata"]["name"].as_str().unwrap().to_owned();
                if self.by_name.contains_key(&name) {
                    return failure(409, "AlreadyExists");
                }
                // no version comes twice, and so does no uid: a Lease that is made anew is another one
                let uid = format!("00000000-0000-4000-8000-{:012x}", self.version);
                let (_, lease) = self.store(&name, lease, uid.into());
                (201, lease)
            }
            "PUT" => {
                let lease: Value = serde_json::from_slice(body).unwrap();
                let Some(present) = self.by_name.get(name) else {
                    return failure(404, "NotFound");
                };
                let version = &lease["metadata"]["resourceVersion"];
                assert!(
                    version.is_string(),
                    "a change without the version that it has read"
                );
                if *version != present["metadata"]["resourceVersion"] {
                    return failure(409, "Conflict");
                }
                let uid = present["metadata"]["uid"].clone();
                self.store(name, lease, uid)
            }
            _ => failure(405, "MethodNotAllowed"),
        }
    }
}

fn failure(code: u16, reason: &str) -> (u16, Value) {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": reason, "reason": reason, "code": code,
    });
    (code, status)
}

/// Serves leases over HTTP until the process ends.
#[derive(Clone)]
pub(crate) struct ApiServer {
    pub(crate) address: String,
    pub(crate) leases: Arc<Mutex<Leases>>,
}

impl ApiServer {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = ApiServer {
            address: listener.local_addr().unwrap().to_string(),
            leases: Arc::default(),
        };
        let leases = server.leases.clone();
        std::thread::spawn(move || {
            for connection in listener.incoming().map_while(Result::ok) {
                let leases = leases.clone();
                std::thread::spawn(move || serve(connection, &leases));
            }
        });
        server
    }
}

/// One connection: request after request. Returns when the client hangs up.
fn serve(connection: TcpStream, leases: &Mutex<Leases>) -> Option<()> {
    let mut reader = BufReader::new(connection.try_clone().ok()?);
    let mut writer = connection;
    loop {
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if line.trim().is_empty() {
                break;
            }
            head.push(line.trim().to_owned());
        }
        let length = head.iter().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length")
                .then(|| value.trim().parse().ok())?
        });
        let mut body = vec![0; length.unwrap_or(0)];
        reader.read_exact(&mut body).ok()?;
        let mut first = head.first()?.split(' ');
        let (method, path) = (first.next()?, first.next()?);
        let (code, answer) = leases.lock().unwrap().answer(method, path, &body);
        let answer = answer.to_string();
        let head = format!(
            "HTTP/1.1 {code} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            answer.len(),
        );
        writer.write_all(head.as_bytes()).ok()?;
        writer.write_all(answer.as_bytes()).ok()?;
    }
}
