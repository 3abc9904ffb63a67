//! Compressed and plain state, of this version and of one before it.

use super::super::contract::record;
use super::super::{FileStore, MemoryStore};
use super::*;

fn state() -> Vec<u8> {
    b"a row that comes again and again;".repeat(10_000)
}

fn written(store: &dyn CheckpointStore, name: &str, state: &[u8]) -> ObjectRecord {
    let (written, encoding) = write_state(store, name, |to| to.write_all(state)).unwrap();
    ObjectRecord {
        encoding,
        ..record(name, written)
    }
}

#[test]
fn long_state_is_compressed_and_short_state_is_not() {
    let store = MemoryStore::new();
    let long = written(&store, "1.1.0.long.0", &state());
    assert_eq!(long.encoding, Encoding::Lz4Frame);
    assert!(long.length < 10_000, "{} bytes are stored", long.length);
    assert_eq!(read_state(&store, &long).unwrap(), state());

    let short = written(&store, "1.1.0.short.0", &state()[..4 * 1024]);
    assert_eq!((short.encoding, short.length), (Encoding::Plain, 4 * 1024));
    assert_eq!(read_state(&store, &short).unwrap(), &state()[..4 * 1024]);
}

#[test]
fn compression_can_be_switched_off() {
    let folder = tempfile::tempdir().unwrap();
    let store = FileStore::open(folder.path())
        .unwrap()
        .with_compression(Compression::Off);
    let record = written(&store, "1.1.0.a.0", &state());
    assert_eq!(record.encoding, Encoding::Plain);
    assert_eq!(usize::try_from(record.length), Ok(state().len()));
    assert_eq!(read_state(&store, &record).unwrap(), state());
}

/// A manifest of a version without compression, as it lies in stores.
#[test]
fn state_of_a_version_that_did_not_compress_is_read() {
    let store = MemoryStore::new();
    let written = store
        .write_object("1.1.0.a.0", &mut |to| to.write_all(b"old state"))
        .unwrap();
    let old = format!(
        r#"{{"instance":{{"operator":"a","index":0}},"object":"1.1.0.a.0","length":{},"crc32":{},
            "state_type":"text","state_version":1}}"#,
        written.length, written.crc32
    );
    let record: ObjectRecord = serde_json::from_str(&old).unwrap();
    assert_eq!(read_state(&store, &record).unwrap(), b"old state");
}

#[test]
fn what_is_no_frame_is_damage() {
    let store = MemoryStore::new();
    let written = store
        .write_object("1.1.0.a.0", &mut |to| to.write_all(b"no frame at all"))
        .unwrap();
    let record = ObjectRecord {
        encoding: Encoding::Lz4Frame,
        ..record("1.1.0.a.0", written)
    };
    let error = read_state(&store, &record).unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
}

#[test]
fn a_changed_byte_of_compressed_state_is_damage() {
    let store = super::super::FailingStore::new(MemoryStore::new());
    let record = written(&store, "1.1.0.a.0", &state());
    store.damage("1.1.0.a.0");
    let error = read_state(&store, &record).unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
}

/// A full disk; the writer of the state takes no notice.
#[test]
fn a_failed_write_is_not_forgotten_when_its_writer_does_not_look() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    for compression in [Compression::Off, Compression::Lz4 { above: 0 }] {
        let mut to = Full;
        let mut encoder = Encoder::new(compression, &mut to);
        // More than a block of the frame.
        let _ = encoder.write(&state());
        let _ = encoder.write(&state());
        assert!(encoder.finish().is_err(), "{compression:?}");
    }
}
