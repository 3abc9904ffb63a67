//! `[store]`: where a region's checkpoints lie.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_consistent_region::store::{CheckpointStore, Compression, FileStore, StoreError};
use serde::{Deserialize, Serialize};

use super::rules::Rules;
use super::secret::Secret;

/// See the stores of `lockkeeper_consistent_region`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StoreSettings {
    /// A folder, `redis://HOST:PORT/DATABASE?prefix=PREFIX` or `s3://BUCKET/FOLDER`; none: the
    /// program's own folder.
    pub url: Option<String>,
    /// A file whose first line is the password of a Redis server.
    pub password_file: Option<PathBuf>,
    /// The password; by the environment only.
    #[serde(skip_serializing)]
    pub password: Option<Secret>,
    /// State above so many bytes is compressed; none: as the operator writes it.
    pub compress_above_bytes: Option<usize>,
    /// How long each answer of a Redis server is waited for.
    pub redis_timeout: Duration,
    /// Ask a Redis server whether its answers are durable.
    pub redis_check_durability: bool,
    /// The size of a chunk in bytes at Redis and S3; none: the store's own.
    pub chunk_bytes: Option<usize>,
}

impl Default for StoreSettings {
    fn default() -> Self {
        Self {
            url: None,
            password_file: None,
            password: None,
            compress_above_bytes: Some(4 * 1024),
            redis_timeout: Duration::from_secs(5),
            redis_check_durability: true,
            chunk_bytes: None,
        }
    }
}

impl StoreSettings {
    /// Opens it; `otherwise` is the folder where none is set. A folder that is not there is made. Blocks.
    ///
    /// # Errors
    /// What can't be opened, or was not built in.
    pub fn open(&self, otherwise: &Path) -> anyhow::Result<Arc<dyn CheckpointStore>> {
        self.open_by(otherwise, FileStore::open)
    }

    /// The same for a store that must be there, as far as a folder can tell.
    ///
    /// # Errors
    /// As [`open`](Self::open), and for a folder that is no store.
    pub fn open_existing(&self, otherwise: &Path) -> anyhow::Result<Arc<dyn CheckpointStore>> {
        self.open_by(otherwise, FileStore::open_existing)
    }

    fn open_by(
        &self,
        otherwise: &Path,
        folder: fn(PathBuf) -> Result<FileStore, StoreError>,
    ) -> anyhow::Result<Arc<dyn CheckpointStore>> {
        let compression = self
            .compress_above_bytes
            .map_or(Compression::Off, |above| Compression::Lz4 { above });
        let folder = |path: &Path| -> anyhow::Result<Arc<dyn CheckpointStore>> {
            let store = folder(path.to_owned())?.with_compression(compression);
            Ok(Arc::new(store))
        };
        match self.url.as_deref() {
            None => folder(otherwise),
            Some(url) => match url.split_once("://") {
                None => folder(Path::new(url)),
                Some(("file", path)) => folder(Path::new(path)),
                Some(("redis" | "rediss", _)) => self.redis(url, compression),
                Some(("s3", _)) => self.s3(url, compression),
                Some((scheme, _)) => anyhow::bail!("no store is reached by {scheme}"),
            },
        }
    }

    #[cfg(feature = "redis")]
    fn redis(
        &self,
        url: &str,
        compression: Compression,
    ) -> anyhow::Result<Arc<dyn CheckpointStore>> {
        use lockkeeper_consistent_region::store::{RedisSettings, RedisStore};

        let password = Secret::given(self.password.as_ref(), self.password_file.as_deref())?;
        let password = password.as_ref().map(Secret::reveal);
        let (server, prefix) =
            crate::region::place::redis_place(url, password).map_err(anyhow::Error::msg)?;
        let mut settings = RedisSettings {
            timeout: self.redis_timeout,
            check_durability: self.redis_check_durability,
            compression,
            ..RedisSettings::default()
        };
        if let Some(bytes) = self.chunk_bytes {
            settings.chunk_bytes = bytes;
        }
        Ok(Arc::new(RedisStore::open(&server, &prefix, &settings)?))
    }

    #[cfg(not(feature = "redis"))]
    fn redis(&self, _: &str, _: Compression) -> anyhow::Result<Arc<dyn CheckpointStore>> {
        anyhow::bail!("this program was built without Redis: build it with --features redis")
    }

    #[cfg(feature = "s3")]
    fn s3(&self, url: &str, compression: Compression) -> anyhow::Result<Arc<dyn CheckpointStore>> {
        use lockkeeper_consistent_region::store::ObjectStorageStore;

        let options = crate::region::place::aws_options();
        let options = options
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()));
        let mut store = ObjectStorageStore::open(url, options)?.with_compression(compression);
        if let Some(bytes) = self.chunk_bytes {
            store = store.with_chunk_bytes(bytes);
        }
        Ok(Arc::new(store))
    }

    #[cfg(not(feature = "s3"))]
    fn s3(&self, _: &str, _: Compression) -> anyhow::Result<Arc<dyn CheckpointStore>> {
        anyhow::bail!("this program was built without S3: build it with --features s3")
    }

    pub(super) fn check(&self, rules: &mut Rules<'_>) {
        if let Some(url) = &self.url {
            rules.text("store.url", url, 2_000);
            let user = url
                .split_once("://")
                .and_then(|(_, rest)| rest.rsplit_once('@'));
            rules.must(
                "store.url",
                !user.is_some_and(|(user, _)| user.contains(':')),
                "must not hold a password: put it into the file that password_file names, or into the environment",
            );
        }
        rules.time("store.redis_timeout", self.redis_timeout);
        if let Some(bytes) = self.chunk_bytes {
            rules.within("store.chunk_bytes", bytes, 1 << 10..=32 << 20);
        }
    }
}
