//! The disk of the job's folder: a small one of its own in memory, that can be filled.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::fs::statvfs;
use tokio::process::Command;
use tokio::task::JoinHandle;

/// What a full disk had left when it began to be full.
const LEFT: u64 = 4 << 20;
/// How often it is filled again, while others remove files.
const FILL_AGAIN: Duration = Duration::from_millis(20);

/// A mounted disk; gone with the mount namespace of this process.
#[derive(Debug)]
pub(crate) struct Disk {
    folder: PathBuf,
    bytes: u64,
    filling: Option<(Arc<AtomicBool>, JoinHandle<()>)>,
}

impl Disk {
    /// Mounts one at the folder; `None` where that is not permitted.
    pub(crate) async fn mount(folder: &Path, bytes: u64) -> Option<Self> {
        let disk = Self {
            folder: folder.to_owned(),
            bytes,
            filling: None,
        };
        let options = format!("size={bytes}");
        disk.run(&["-t", "tmpfs", "-o", &options, "lockkeeper-chaos"])
            .await
            .then_some(disk)
    }

    async fn run(&self, arguments: &[&str]) -> bool {
        let status = Command::new("mount")
            .args(arguments)
            .arg(&self.folder)
            .stderr(std::process::Stdio::null())
            .status()
            .await;
        status.is_ok_and(|status| status.success())
    }

    /// Fills it, and keeps it full.
    pub(crate) async fn fill(&mut self) -> anyhow::Result<()> {
        // so that little memory is needed for it
        let stat = statvfs(&self.folder)?;
        let used = (stat.f_blocks - stat.f_bfree) * stat.f_frsize;
        self.resize((used + LEFT).min(self.bytes)).await?;
        let (full, file) = (Arc::new(AtomicBool::new(true)), self.filler());
        let wanted = Arc::clone(&full);
        let task = tokio::spawn(async move {
            while wanted.load(Ordering::SeqCst) {
                fill_up(&file);
                tokio::time::sleep(FILL_AGAIN).await;
            }
        });
        self.filling = Some((full, task));
        Ok(())
    }

    /// Whether it is kept full.
    pub(crate) fn is_full(&self) -> bool {
        self.filling.is_some()
    }

    /// Gives the room back.
    pub(crate) async fn free(&mut self) -> anyhow::Result<()> {
        if let Some((full, task)) = self.filling.take() {
            full.store(false, Ordering::SeqCst);
            task.await?;
            std::fs::remove_file(self.filler())?;
            self.resize(self.bytes).await?;
        }
        Ok(())
    }

    async fn resize(&self, bytes: u64) -> anyhow::Result<()> {
        let options = format!("remount,size={bytes}");
        anyhow::ensure!(
            self.run(&["-o", &options]).await,
            "mount -o {options} failed"
        );
        Ok(())
    }

    fn filler(&self) -> PathBuf {
        self.folder.join("filler")
    }
}

/// Writes until there is no room for a page.
fn fill_up(path: &Path) {
    let Ok(mut file) = OpenOptions::new().create(true).append(true).open(path) else {
        return;
    };
    for length in [1 << 20, 1 << 12] {
        let zeros = vec![0; length];
        while file.write_all(&zeros).is_ok() {}
    }
}
