//! The Kubernetes driver against an API server that keeps the rules for Leases: a change names the
//! resource version that it has read, and of two changes one is refused.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockkeeper_fencing::contract::election::{self, ElectionStore};
use lockkeeper_fencing::driver::Kubernetes;
use lockkeeper_fencing::election::{ComponentId, ElectionError};
use lockkeeper_fencing::retrieval::LeaderRetrievalService;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::link::Link;
use crate::told::{Told, contend, granted, next};

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/lockkeeper/leases";

#[derive(Default)]
struct Leases {
    version: u64,
    by_name: BTreeMap<String, Value>,
}

impl Leases {
    fn store(&mut self, name: &str, mut lease: Value, uid: Value) -> (u16, Value) {
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
                let (_, lease) = self.store(&name, lease, Uuid::new_v4().to_string().into());
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
struct ApiServer {
    address: String,
    leases: Arc<Mutex<Leases>>,
}

impl ApiServer {
    fn start() -> Self {
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

    fn change(&self, change: impl FnOnce(&mut Value)) {
        let mut leases = self.leases.lock().unwrap();
        let mut lease = leases.by_name["orders"].clone();
        change(&mut lease);
        let uid = lease["metadata"]["uid"].clone();
        leases.store("orders", lease, uid);
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

/// A leader has to keep it while a test looks at it, however busy the machine is.
const SESSION: Duration = Duration::from_secs(4);

fn driver(address: &str) -> Kubernetes {
    Kubernetes::new("lockkeeper", "orders")
        .with_url(format!("http://{address}"))
        .with_session(SESSION)
        .with_poll_interval(Duration::from_millis(10))
}

impl ElectionStore for ApiServer {
    type Factory = Kubernetes;

    fn factory(&self) -> Kubernetes {
        driver(&self.address)
    }

    async fn depose_leader(&self) {
        self.change(|lease| lease["spec"]["holderIdentity"] = Value::Null);
    }

    async fn erase_information(&self, component: &ComponentId) {
        let annotation = format!("lockkeeper.leader/{component}");
        self.change(|lease| {
            let annotations = lease["metadata"]["annotations"].as_object_mut().unwrap();
            annotations.remove(&annotation).unwrap();
        });
    }
}

#[tokio::test]
async fn the_kubernetes_driver_keeps_the_contract() {
    election::all(ApiServer::start).await;
}

#[tokio::test]
async fn a_leader_cut_off_the_api_server_has_stopped_before_the_next_one_leads() {
    let server = ApiServer::start();
    let link = Link::to(&server.address);
    let (old, mut old_told) = contend(driver(&link.address)).await;
    let first = granted(&mut old_told).await;
    let (new, mut new_told) = contend(driver(&server.address)).await;
    link.silence();
    let second = granted(&mut new_told).await;
    assert!(first.deadline.check().is_err(), "two may act at once");
    assert!(matches!(next(&mut old_told).await, Told::Revoked));
    assert_eq!(second.token.epoch, first.token.epoch + 1);
    assert_eq!(second.token.lineage, first.token.lineage);
    new.close().await;
    old.close().await;
}

/// A Lease that was deleted counts its transitions anew: epochs of the two cannot be compared.
#[tokio::test]
async fn a_candidate_does_not_lead_under_a_lease_that_was_made_anew() {
    let server = ApiServer::start();
    let (service, mut told) = contend(driver(&server.address)).await;
    granted(&mut told).await;
    server.leases.lock().unwrap().by_name.clear();
    assert!(matches!(next(&mut told).await, Told::Revoked));
    let error = match next(&mut told).await {
        Told::Failed(error) => error,
        other => panic!("told was {other:?}"),
    };
    assert!(
        matches!(error, ElectionError::LineageChanged { .. }),
        "{error}"
    );
    service.close().await;
}

#[tokio::test]
async fn a_component_that_is_no_annotation_is_refused() {
    let server = ApiServer::start();
    let retrieval = LeaderRetrievalService::new(driver(&server.address));
    let component = ComponentId::new("a".repeat(64)).unwrap();
    let refused = retrieval.retrieve(component).unwrap_err();
    assert!(
        matches!(refused, ElectionError::InvalidComponent { .. }),
        "{refused}"
    );
}
