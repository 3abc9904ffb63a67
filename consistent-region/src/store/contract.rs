//! What every [`CheckpointStore`] must do, as tests that any back end can run.
//!
//! Not part of the stable interface. Each function panics with what it found. Give each an empty
//! store or one that other functions of this module have used.

use std::io;
use std::io::Read;

use super::{
    CheckpointStore, Encoding, StoreError, Written, read_state, read_verified, verify, write_state,
};
use crate::manifest::ObjectRecord;
use crate::protocol::InstanceId;

/// Runs all of them.
pub fn all(store: &dyn CheckpointStore) {
    what_is_written_is_read_back(store);
    a_large_object_streams(store);
    state_comes_back_compressed_or_not(store);
    a_name_is_written_once(store);
    a_failed_write_leaves_no_object(store);
    a_missing_object_is_missing(store);
    a_removed_object_is_gone_and_removing_it_again_is_no_error(store);
    a_record_that_does_not_fit_is_damage(store);
    bad_names_are_refused(store);
}

fn write(store: &dyn CheckpointStore, name: &str, bytes: &[u8]) -> Written {
    match store.write_object(name, &mut |writer| writer.write_all(bytes)) {
        Ok(written) => written,
        Err(error) => panic!("{error}"),
    }
}

pub(super) fn record(name: &str, written: Written) -> ObjectRecord {
    ObjectRecord {
        instance: InstanceId {
            operator: "contract".to_owned(),
            index: 0,
        },
        object: name.to_owned(),
        length: written.length,
        crc32: written.crc32,
        state_type: "contract".to_owned(),
        state_version: 1,
        encoding: Encoding::Plain,
        base: Vec::new(),
    }
}

/// Content, length and checksum.
pub fn what_is_written_is_read_back(store: &dyn CheckpointStore) {
    for (name, bytes) in [
        ("1.1.0.empty.0", &b""[..]),
        ("1.1.0.some.0", b"what was there"),
    ] {
        let written = write(store, name, bytes);
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        assert_eq!(
            written,
            Written {
                length,
                crc32: crc32fast::hash(bytes)
            }
        );
        let mut read = Vec::new();
        match read_verified(store, &record(name, written)) {
            Ok(mut reader) => assert!(reader.read_to_end(&mut read).is_ok()),
            Err(error) => panic!("{error}"),
        }
        assert_eq!(read, bytes);
        let names = store.list_objects().unwrap_or_default();
        assert!(
            names.iter().any(|listed| listed == name),
            "{name} is not listed: {names:?}"
        );
    }
}

/// Five megabytes in pieces.
pub fn a_large_object_streams(store: &dyn CheckpointStore) {
    let name = "1.1.0.large.0";
    let piece: Vec<u8> = (0..=250_u8).cycle().take(50_000).collect();
    let written = store.write_object(name, &mut |writer| {
        (0..100).try_for_each(|_| writer.write_all(&piece))
    });
    let Ok(written) = written else {
        panic!("{written:?}")
    };
    assert_eq!(written.length, 5_000_000);
    assert!(verify(store, &record(name, written)).is_ok());
}

/// Whatever the store's compression is.
pub fn state_comes_back_compressed_or_not(store: &dyn CheckpointStore) {
    for (name, length) in [("1.1.0.short.0", 100), ("1.1.0.long.0", 1_000_000)] {
        let state: Vec<u8> = (0..=250_u8).cycle().take(length).collect();
        let (written, encoding) = match write_state(store, name, |to| to.write_all(&state)) {
            Ok(written) => written,
            Err(error) => panic!("{error}"),
        };
        let record = ObjectRecord {
            encoding,
            ..record(name, written)
        };
        match read_state(store, &record) {
            Ok(read) => assert!(read == state, "{name} comes back as another"),
            Err(error) => panic!("{error}"),
        }
    }
}

/// The second writer is told, the first content stays.
pub fn a_name_is_written_once(store: &dyn CheckpointStore) {
    let name = "1.1.0.once.0";
    let first = write(store, name, b"first");
    let second = store.write_object(name, &mut |writer| writer.write_all(b"second"));
    assert!(
        matches!(second, Err(StoreError::Exists { .. })),
        "{second:?}"
    );
    assert!(verify(store, &record(name, first)).is_ok());
}

/// The name stays free, and a later write under it succeeds.
pub fn a_failed_write_leaves_no_object(store: &dyn CheckpointStore) {
    let name = "1.1.0.failed.0";
    let failed = store.write_object(name, &mut |writer| {
        writer.write_all(&[7; 100_000])?;
        Err(io::Error::from(io::ErrorKind::StorageFull))
    });
    assert!(matches!(failed, Err(StoreError::Io { .. })), "{failed:?}");
    assert!(matches!(
        store.read_object(name).err(),
        Some(StoreError::Missing { .. })
    ));
    assert!(
        !store
            .list_objects()
            .unwrap_or_default()
            .iter()
            .any(|listed| listed == name)
    );
    assert!(matches!(
        store.remove_unfinished(&|object| object == name),
        Ok(0)
    ));
    write(store, name, b"now");
}

/// A typed error, so that the region falls back.
pub fn a_missing_object_is_missing(store: &dyn CheckpointStore) {
    let error = store.read_object("9.9.9.nowhere.0").err();
    assert!(
        matches!(error, Some(StoreError::Missing { .. })),
        "{error:?}"
    );
}

/// Removal is idempotent.
pub fn a_removed_object_is_gone_and_removing_it_again_is_no_error(store: &dyn CheckpointStore) {
    let name = "1.1.0.removed.0";
    write(store, name, b"x");
    assert!(store.remove_object(name).is_ok());
    assert!(store.remove_object(name).is_ok());
    assert!(matches!(
        store.read_object(name).err(),
        Some(StoreError::Missing { .. })
    ));
}

/// Longer, shorter, other: each is [`StoreError::Damaged`].
pub fn a_record_that_does_not_fit_is_damage(store: &dyn CheckpointStore) {
    let name = "1.1.0.damaged.0";
    let good = write(store, name, b"as it was written");
    for wrong in [
        Written {
            length: good.length - 1,
            ..good
        },
        Written {
            length: good.length + 1,
            ..good
        },
        Written {
            crc32: good.crc32 ^ 1,
            ..good
        },
    ] {
        let error = verify(store, &record(name, wrong)).err();
        assert!(
            matches!(error, Some(StoreError::Damaged { .. })),
            "{error:?}"
        );
    }
}

/// No name leads out of the store.
pub fn bad_names_are_refused(store: &dyn CheckpointStore) {
    for name in ["", "../outside", "/etc/passwd", ".hidden", "a b"] {
        let refused = store.write_object(name, &mut |_| Ok(()));
        assert!(
            matches!(refused, Err(StoreError::BadName { .. })),
            "{name:?}: {refused:?}"
        );
    }
}
