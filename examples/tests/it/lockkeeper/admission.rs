//! Who is let in, and what is said when no answer comes: on an admin endpoint of the test's own.

#[cfg(feature = "tls")]
mod certificates;

use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use lockkeeper_consistent_region::admin::RegionAdmin;
use lockkeeper_consistent_region::coordinator::{CoordinatorSettings, RegionCoordinator};
use lockkeeper_consistent_region::point::Hook;
use lockkeeper_consistent_region::store::MemoryStore;
use lockkeeper_core::RpcService;
use lockkeeper_examples::settings::source::FileSourceSettings;
use lockkeeper_examples::word_count::graph::graph;
use lockkeeper_remote::{RemoteBuilder, RemoteBuilderExt, SharedKeys};
use tokio::sync::oneshot;

use super::{Ran, lockkeeper};

/// An admin endpoint on a thread of its own, of a region that has no workers: its cuts never come.
struct Endpoint {
    address: String,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Endpoint {
    fn start(secure: impl FnOnce(RemoteBuilder) -> RemoteBuilder + Send + 'static) -> Self {
        let (tell, address) = std::sync::mpsc::channel();
        let (end, ended) = oneshot::channel::<()>();
        let serve = async move {
            let region = graph(
                "text".into(),
                1,
                FileSourceSettings::default(),
                1,
                Path::new("out"),
            )
            .unwrap();
            let coordinator = RegionCoordinator::start_local(
                CoordinatorSettings::for_region(&region),
                Arc::new(MemoryStore::new()),
                Hook::default(),
            )
            .unwrap();
            let builder = RpcService::builder().bind("127.0.0.1:0");
            let service = secure(builder).start().await.unwrap();
            let admin = RegionAdmin::new(coordinator).serve(&service).await.unwrap();
            tell.send(admin.address().to_string()).unwrap();
            // the end of the test, however it comes
            let _ = ended.await;
            service.terminate().await.unwrap();
        };
        let thread = std::thread::spawn(move || actix::System::new().block_on(serve));
        Self {
            address: address.recv().unwrap(),
            end: Some(end),
            thread: Some(thread),
        }
    }

    fn ask(&self, arguments: &[&str]) -> Ran {
        let all = ["region", "--address", &self.address].into_iter();
        lockkeeper(all.chain(arguments.iter().copied()))
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[test]
fn a_command_without_an_answer_is_exit_code_4() {
    let endpoint = Endpoint::start(|builder| builder);
    endpoint
        .ask(&["cut", "--time-out", "1"])
        .fails(4, "it may have been done");
}

#[test]
fn a_shared_key_is_read_from_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, key: &str| {
        let file = folder.path().join(name);
        std::fs::write(&file, key).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let right = file("right", "the new key of a test\nthe old key of a test\n");
    let wrong = file("wrong", "another key of a test\n");
    let short = file("short", "short\n");
    let endpoint = Endpoint::start(|builder| {
        builder.shared_keys(SharedKeys::new(["the old key of a test"]).unwrap())
    });
    endpoint.ask(&["status", "--key-file", &right]).done();
    endpoint
        .ask(&["status", "--key-file", &wrong, "--time-out", "5"])
        .fails(3, &endpoint.address);
    endpoint
        .ask(&["status", "--time-out", "5"])
        .fails(3, &endpoint.address);
    endpoint
        .ask(&["status", "--key-file", &short])
        .fails(2, &short);
    let none = folder.path().join("none");
    let none = none.to_str().unwrap();
    endpoint.ask(&["status", "--key-file", none]).fails(2, none);
}
