//! Cuts that are kept under a name.
//!
//! A savepoint is one object of the store, `savepoint.<name>`, with the manifest of its cut. While
//! it is there, nobody removes the objects that the manifest names.

use std::io::{Read, Write};

use lockkeeper_core::status::now_unix_ms;
use serde::{Deserialize, Serialize};

use super::codec;
use crate::manifest::Manifest;
use crate::store::{CheckpointStore, StoreError, read_verified};

/// What the names of savepoints' objects begin with; no state object's name does.
const PREFIX: &str = "savepoint.";
/// The longest savepoint that is read, in bytes.
const LONGEST: u64 = 256 * 1024 * 1024;

/// A cut that is kept under a name (JSON, with a checksum in a second line).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Savepoint {
    /// Its name.
    pub name: String,
    /// Milliseconds since 1970 when it was kept, for people: no rule reads it.
    pub kept_at_ms: u64,
    /// The cut.
    pub manifest: Manifest,
}

impl Savepoint {
    pub(crate) fn now(name: &str, manifest: Manifest) -> Self {
        Self {
            name: name.to_owned(),
            kept_at_ms: now_unix_ms(),
            manifest,
        }
    }
}

/// The names of a store's savepoints, sorted.
///
/// # Errors
/// When the store can't be listed.
pub fn list_savepoints(store: &dyn CheckpointStore) -> Result<Vec<String>, StoreError> {
    let objects = store.list_objects()?;
    let names = objects.iter().filter_map(|name| name.strip_prefix(PREFIX));
    let mut names: Vec<String> = names.map(str::to_owned).collect();
    names.sort();
    Ok(names)
}

/// Reads a savepoint.
///
/// # Errors
/// [`StoreError::Missing`] when there is none of that name, [`StoreError::Damaged`] when it is not
/// as it was written or a newer version wrote it, [`StoreError::Io`] when the medium fails.
pub fn read_savepoint(store: &dyn CheckpointStore, name: &str) -> Result<Savepoint, StoreError> {
    let object = format!("{PREFIX}{name}");
    let mut bytes = Vec::new();
    let mut read = store.read_object(&object)?.take(LONGEST);
    let io = |source| StoreError::Io {
        location: store.location(),
        name: object.clone(),
        source,
    };
    let damaged = |what: String| StoreError::Damaged {
        location: store.location(),
        name: object.clone(),
        what,
    };
    read.read_to_end(&mut bytes).map_err(io)?;
    let json = codec::unseal(&bytes).map_err(|error| damaged(error.to_string()))?;
    let savepoint: Savepoint =
        serde_json::from_str(json).map_err(|error| damaged(error.to_string()))?;
    savepoint
        .manifest
        .check_format()
        .map_err(|error| damaged(error.to_string()))?;
    Ok(savepoint)
}

pub(crate) fn write(store: &dyn CheckpointStore, savepoint: &Savepoint) -> Result<(), StoreError> {
    let object = format!("{PREFIX}{}", savepoint.name);
    let bytes = codec::seal(savepoint).map_err(|error| StoreError::Io {
        location: store.location(),
        name: object.clone(),
        source: error.into(),
    })?;
    store.write_object(&object, &mut |to| to.write_all(&bytes))?;
    Ok(())
}

pub(crate) fn remove(store: &dyn CheckpointStore, name: &str) -> Result<(), StoreError> {
    store.remove_object(&format!("{PREFIX}{name}"))
}

/// Copies a savepoint to the store of another region, which can begin with it
/// ([`restore_from`](super::CoordinatorSettings::restore_from)). Every object is verified on the
/// way; the savepoint itself comes last, so that a copy that was broken off is none.
///
/// The outputs that were staged for its cut are not part of the copy: they belong to the region
/// that the savepoint is of, and are committed there.
///
/// # Errors
/// Those of reading and of writing; [`StoreError::Exists`] when the store has a savepoint of that
/// name, or objects of those names.
pub fn copy_savepoint(
    from: &dyn CheckpointStore,
    name: &str,
    to: &dyn CheckpointStore,
) -> Result<(), StoreError> {
    let mut savepoint = read_savepoint(from, name)?;
    for record in &savepoint.manifest.objects {
        for part in record.parts() {
            let mut object = Some(read_verified(from, part)?);
            let copy = &mut |to: &mut dyn Write| {
                let mut object = object.take().ok_or_else(copied_twice)?;
                std::io::copy(&mut object, to)?;
                object.finish().map_err(std::io::Error::other)
            };
            to.write_object(&part.object, copy)?;
        }
    }
    savepoint.manifest.tokens.clear();
    write(to, &savepoint)
}

fn copied_twice() -> std::io::Error {
    std::io::Error::other("an object can be copied only once")
}
