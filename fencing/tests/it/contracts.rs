//! Every driver and store runs the public contract tests.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use lockkeeper_fencing::contract::election::{self, ElectionStore};
use lockkeeper_fencing::contract::guard_store;
use lockkeeper_fencing::driver::{InProcessElection, LeaseFiles};
use lockkeeper_fencing::election::{
    Callback, ComponentId, ElectionError, LeaderContender, LeaderElectionOptions,
    LeaderElectionService, Leadership,
};
use lockkeeper_fencing::guard::{
    Creation, FileGuardStore, GuardError, GuardStore, MemoryGuardStore,
};

/// A leader has to keep it while a test looks at it, however busy the machine is.
const SESSION: Duration = Duration::from_secs(4);

struct InProcess(InProcessElection);

impl ElectionStore for InProcess {
    type Factory = InProcessElection;

    fn factory(&self) -> InProcessElection {
        self.0.clone()
    }

    async fn depose_leader(&self) {
        assert!(self.0.depose_leader(), "nobody leads");
    }

    async fn erase_information(&self, component: &ComponentId) {
        self.0.erase_information(component);
    }
}

#[tokio::test]
async fn the_in_process_driver_keeps_the_contract() {
    election::all(|| InProcess(InProcessElection::new())).await;
}

struct Files(tempfile::TempDir);

impl Files {
    fn highest(&self) -> u64 {
        let names = std::fs::read_dir(self.0.path()).unwrap();
        let names = names.filter_map(|entry| entry.unwrap().file_name().into_string().ok());
        names
            .filter_map(|name| name.strip_prefix("lease-")?.parse().ok())
            .max()
            .unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

impl ElectionStore for Files {
    type Factory = LeaseFiles;

    fn factory(&self) -> LeaseFiles {
        LeaseFiles::new(self.0.path())
            .with_session(SESSION)
            .with_poll_interval(Duration::from_millis(5))
    }

    /// A higher lease appears whose holder is dead at once.
    async fn depose_leader(&self) {
        let highest = self.highest();
        let lease = std::fs::read_to_string(self.path(&format!("lease-{highest}"))).unwrap();
        let mut lease: serde_json::Value = serde_json::from_str(&lease).unwrap();
        lease["session"] = "00000000-0000-4000-8000-000000000000".into();
        let temporary = self.path("deposing");
        std::fs::write(&temporary, lease.to_string()).unwrap();
        std::fs::hard_link(&temporary, self.path(&format!("lease-{}", highest + 1))).unwrap();
    }

    async fn erase_information(&self, component: &ComponentId) {
        let name = format!("information-{}-{component}", self.highest());
        std::fs::remove_file(self.path(&name)).unwrap();
    }
}

#[tokio::test]
async fn the_lease_file_driver_keeps_the_contract() {
    election::all(|| Files(tempfile::tempdir().unwrap())).await;
}

#[test]
fn the_file_store_keeps_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    guard_store::all(|| FileGuardStore::open(folder.path()).unwrap());
}

/// One memory store, opened again and again.
#[derive(Debug)]
struct Shared(Arc<MemoryGuardStore>);

impl GuardStore for Shared {
    fn create_if_absent(&self, name: &str, bytes: &[u8]) -> Result<Creation, GuardError> {
        self.0.create_if_absent(name, bytes)
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>, GuardError> {
        self.0.list(prefix)
    }

    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, GuardError> {
        self.0.read(name)
    }

    fn remove(&self, name: &str) -> Result<(), GuardError> {
        self.0.remove(name)
    }
}

#[test]
fn the_memory_store_keeps_the_contract() {
    let store = OnceLock::new();
    let store = store.get_or_init(|| Arc::new(MemoryGuardStore::new()));
    guard_store::all(|| Shared(store.clone()));
}

#[cfg(feature = "object-store")]
#[test]
fn the_object_store_keeps_the_contract() {
    use lockkeeper_fencing::guard::ObjectGuardStore;

    // What is in memory is seen through one client only.
    let memory = ObjectGuardStore::open("memory:///orders", []).unwrap();
    guard_store::all(|| memory.within("checkpoints").unwrap());
    let folder = tempfile::tempdir().unwrap();
    let url = format!("file://{}/orders/checkpoints", folder.path().display());
    guard_store::all(|| ObjectGuardStore::open(&url, []).unwrap());
}

/// Epochs of another folder cannot be compared: whoever began with the former one does not lead.
#[tokio::test]
async fn a_candidate_does_not_lead_in_a_folder_that_was_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("leases");
    let leases = LeaseFiles::new(&path)
        .with_session(SESSION)
        .with_poll_interval(Duration::from_millis(5));
    let options = LeaderElectionOptions::default();
    let service = LeaderElectionService::start(leases, options).unwrap();
    let (sender, mut told) = tokio::sync::mpsc::unbounded_channel();
    let election = service.election(ComponentId::new("replaced").unwrap());
    election.start(Errors(sender)).await.unwrap();
    // Led once; then the folder is another one, with a lineage of its own.
    assert!(told.recv().await.unwrap().is_none());
    std::fs::write(
        path.join("lineage"),
        format!("{:?}", uuid::Uuid::new_v4().to_string()),
    )
    .unwrap();
    let highest = path.join("lease-9");
    std::fs::copy(path.join("lease-1"), path.join("copy")).unwrap();
    std::fs::hard_link(path.join("copy"), highest).unwrap();
    let limit = Duration::from_secs(120);
    let error = tokio::time::timeout(limit, told.recv())
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    assert!(
        matches!(error, ElectionError::LineageChanged { .. }),
        "{error}"
    );
    assert!(!path.join("lease-10").exists());
    service.close().await;
}

/// Tells grants as `None`, errors as what they are.
struct Errors(tokio::sync::mpsc::UnboundedSender<Option<ElectionError>>);

impl LeaderContender for Errors {
    fn grant_leadership(&mut self, _: Leadership) -> Callback {
        let _ = self.0.send(None);
        Box::pin(async {})
    }

    fn revoke_leadership(&mut self) -> Callback {
        Box::pin(async {})
    }

    fn handle_error(&mut self, error: ElectionError) -> Callback {
        let _ = self.0.send(Some(error));
        Box::pin(async {})
    }
}
