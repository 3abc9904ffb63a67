//! Records of a folder whose errors name the folder: "no such file" alone helps nobody.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use lockkeeper_fencing::guard::{Creation, GuardError, GuardStore};

/// A guard store whose failures say where it lies.
#[derive(Debug)]
pub(super) struct Located {
    records: Arc<dyn GuardStore>,
    folder: PathBuf,
}

impl Located {
    pub(super) fn new(records: Arc<dyn GuardStore>, folder: PathBuf) -> Self {
        Self { records, folder }
    }

    fn place(&self, source: io::Error) -> io::Error {
        let folder = self.folder.display();
        let gone = match source.kind() == io::ErrorKind::NotFound && !self.folder.is_dir() {
            true => ", the folder is gone",
            false => "",
        };
        io::Error::new(source.kind(), format!("file:{folder}: {source}{gone}"))
    }

    fn located<T>(&self, result: Result<T, GuardError>) -> Result<T, GuardError> {
        result.map_err(|error| match error {
            GuardError::NotWritten { name, source } => GuardError::NotWritten {
                name,
                source: self.place(source),
            },
            GuardError::Unknown { name, source } => GuardError::Unknown {
                name,
                source: self.place(source),
            },
            GuardError::Unavailable { what, source } => GuardError::Unavailable {
                what,
                source: self.place(source),
            },
            other => other,
        })
    }
}

impl GuardStore for Located {
    fn create_if_absent(&self, name: &str, bytes: &[u8]) -> Result<Creation, GuardError> {
        self.located(self.records.create_if_absent(name, bytes))
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>, GuardError> {
        self.located(self.records.list(prefix))
    }

    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, GuardError> {
        self.located(self.records.read(name))
    }

    fn remove(&self, name: &str) -> Result<(), GuardError> {
        self.located(self.records.remove(name))
    }
}
