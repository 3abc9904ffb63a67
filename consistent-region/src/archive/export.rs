//! State as JSON lines, for other programs.

use std::io::Write;

use serde::Serialize;
use serde_json::Value;

use super::{Archive, ArchiveError, value};
use crate::manifest::{Manifest, ObjectRecord};
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
#[derive(Serialize)]
struct Line<'a> {
    operator: &'a str,
    index: u16,
    /// Which of several objects that make up the state together, from 0: later ones replace keys of
    /// earlier ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    part: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<&'a Value>,
    /// The whole object, when it is neither JSON nor MessagePack.
    #[serde(skip_serializing_if = "Option::is_none")]
    hex: Option<String>,
}

impl Archive {
    /// Writes the state of a cut as JSON lines: one for each key of a map, one for each item of a
    /// list, one for anything else. State that is neither JSON nor MessagePack is one line of
    /// hexadecimal digits. Every object is verified before a line of it is written.
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
            for (number, part) in object.parts().enumerate() {
                let state = read_state(self.store.as_ref(), part)?;
                exported.objects += 1;
                exported.lines += write(to, object, several.then_some(number), &state)?;
            }
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

fn write(
    to: &mut dyn Write,
    object: &ObjectRecord,
    part: Option<usize>,
    state: &[u8],
) -> Result<u64, ArchiveError> {
    let mut lines = 0;
    let mut line = |key: Option<&Value>, value: Option<&Value>, hex: Option<String>| {
        let line = Line {
            operator: &object.instance.operator,
            index: object.instance.index,
            part,
            key,
            value,
            hex,
        };
        serde_json::to_writer(&mut *to, &line).map_err(std::io::Error::from)?;
        lines += 1;
        to.write_all(b"\n")
    };
    let Some(values) = value::read(state) else {
        line(None, None, Some(value::hex(state)))?;
        return Ok(lines);
    };
    for value in &values {
        match value {
            Value::Object(map) => {
                for (key, value) in map {
                    line(Some(&Value::String(key.clone())), Some(value), None)?;
                }
            }
            Value::Array(items) => {
                for item in items {
                    line(None, Some(item), None)?;
                }
            }
            other => line(None, Some(other), None)?,
        }
    }
    Ok(lines)
}
