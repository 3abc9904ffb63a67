//! State as JSON lines, for other programs.

use std::collections::BTreeMap;
use std::io::Write;

use serde::Serialize;
use serde_json::Value;

use super::{Archive, ArchiveError, value};
use crate::manifest::{Manifest, ObjectRecord};
use crate::state::{is_keyed, read_entries};
use crate::store::read_state;

/// What was exported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Exported {
    /// The cut.
    pub seq: u64,
    /// State objects.
    pub objects: u64,
    /// Lines.
    pub lines: u64,
}

/// A line.
#[derive(Clone, Copy, Serialize)]
struct Line<'a> {
    operator: &'a str,
    index: u16,
    /// Which of several objects that make up the state together, from 0: later ones replace keys of
    /// earlier ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    part: Option<usize>,
    /// The key group of a keyed state's entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<&'a Value>,
    /// The whole object, when it is neither JSON nor MessagePack.
    #[serde(skip_serializing_if = "Option::is_none")]
    hex: Option<&'a str>,
}

impl<'a> Line<'a> {
    fn of(object: &'a ObjectRecord) -> Self {
        Self {
            operator: &object.instance.operator,
            index: object.instance.index,
            part: None,
            group: None,
            key: None,
            value: None,
            hex: None,
        }
    }

    fn write(&self, to: &mut dyn Write) -> std::io::Result<()> {
        serde_json::to_writer(&mut *to, self)?;
        to.write_all(b"\n")
    }
}

impl Archive {
    /// Writes the state of a cut as JSON lines: one for each key of a
    /// [`KeyedState`](crate::state::KeyedState), with its key group, and of any other map, one for each
    /// item of a list, one for anything else. State that is neither JSON nor MessagePack is one line of
    /// hexadecimal digits. Every object is verified before a line of it is written.
    ///
    /// Structures are lists of their fields, as operators write them; bytes are `{"hex": "00ff"}`, and
    /// numbers that JSON has none for are text. The state of one instance must fit in memory.
    ///
    /// `seq` is one of the kept cuts; `None`: the newest. `operator`: only this one's.
    ///
    /// # Errors
    /// [`ArchiveError::NoCut`], those of the store, and [`ArchiveError::Write`].
    pub fn export(
        &self,
        seq: Option<u64>,
        operator: Option<&str>,
        to: &mut dyn Write,
    ) -> Result<Exported, ArchiveError> {
        let manifest = self.kept(seq)?;
        let mut exported = Exported {
            seq: manifest.seq,
            ..Exported::default()
        };
        let wanted = |object: &&ObjectRecord| {
            operator.is_none_or(|operator| operator == object.instance.operator)
        };
        for object in manifest.objects.iter().filter(wanted) {
            let several = object.parts().count() > 1;
            let mut keyed = Keyed::default();
            for (number, part) in object.parts().enumerate() {
                let state = read_state(self.store.as_ref(), part)?;
                exported.objects += 1;
                if is_keyed(&state) {
                    keyed.take(part, &state)?;
                } else {
                    let mut line = Line::of(object);
                    line.part = several.then_some(number);
                    exported.lines += write(to, line, &state)?;
                }
            }
            exported.lines += keyed.write(to, Line::of(object))?;
        }
        Ok(exported)
    }

    fn kept(&self, seq: Option<u64>) -> Result<Manifest, ArchiveError> {
        let record = self.newest()?.record;
        let found = match seq {
            Some(seq) => record.retained.iter().find(|cut| cut.seq == seq),
            None => record.retained.first(),
        };
        match found {
            Some(retained) => self.manifest(retained),
            None => Err(ArchiveError::NoCut {
                seq: seq.unwrap_or(0),
                kept: record.retained.iter().map(|cut| cut.seq).collect(),
            }),
        }
    }
}

/// The entries of a keyed state, with the changes since its last whole object.
#[derive(Default)]
struct Keyed(BTreeMap<(u16, Vec<u8>), Vec<u8>>);

impl Keyed {
    fn take(&mut self, object: &ObjectRecord, mut state: &[u8]) -> Result<(), ArchiveError> {
        let read = read_entries(&mut state, |entry| {
            let key = (entry.group, entry.key);
            match entry.value {
                Some(value) => self.0.insert(key, value),
                None => self.0.remove(&key),
            };
            Ok(())
        });
        read.map_err(|error| ArchiveError::State {
            object: object.object.clone(),
            what: error.to_string(),
        })
    }

    fn write(&self, to: &mut dyn Write, line: Line<'_>) -> Result<u64, ArchiveError> {
        for ((group, key), value) in &self.0 {
            let (key, value) = (value::one(key), value::one(value));
            let line = Line {
                group: Some(*group),
                key: Some(&key),
                value: Some(&value),
                ..line
            };
            line.write(to)?;
        }
        Ok(self.0.len() as u64)
    }
}

/// State that is not keyed by this crate.
fn write(to: &mut dyn Write, line: Line<'_>, state: &[u8]) -> Result<u64, ArchiveError> {
    let Some(values) = value::read(state) else {
        let hex = value::hex(state);
        let hex = Some(hex.as_str());
        Line { hex, ..line }.write(to)?;
        return Ok(1);
    };
    let mut lines = 0;
    let mut write = |key: Option<&Value>, value: &Value| {
        let value = Some(value);
        lines += 1;
        Line { key, value, ..line }.write(to)
    };
    for value in &values {
        match value {
            Value::Object(map) => {
                for (key, value) in map {
                    write(Some(&Value::String(key.clone())), value)?;
                }
            }
            Value::Array(items) => {
                for item in items {
                    write(None, item)?;
                }
            }
            other => write(None, other)?,
        }
    }
    Ok(lines)
}
