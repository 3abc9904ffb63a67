//! The layers of settings, lowest first: the program's defaults, a TOML file, the environment, flags.
//!
//! `figment` merges them and remembers which layer each value is of.

use std::ffi::OsString;
use std::path::Path;

use figment::value::{Dict, Map, Tag, Value};
use figment::{Figment, Metadata, Profile, Provider, Source};
use serde::de::DeserializeOwned;

use super::error::{Place, SettingsError};
use super::reader::{Fault, Reader};

/// What the names of environment variables begin with; the rest is the key, with `__` between its
/// parts: `LOCKKEEPER__REGION__PERIOD`.
pub const PREFIX: &str = "LOCKKEEPER__";

/// The longest file that is read, in bytes.
const LONGEST: u64 = 1024 * 1024;

/// Layers of settings; each one is above those before it.
#[derive(Debug, Default)]
pub struct Layers {
    merged: Figment,
    text: Option<String>,
}

impl Layers {
    /// No layer yet: every setting has its own default.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A program's own defaults, each a key and a value as the file would have it.
    #[must_use]
    pub fn defaults(self, defaults: &[(&str, &str)]) -> Self {
        let texts = defaults
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        self.texts("default", texts)
    }

    /// A TOML file.
    ///
    /// # Errors
    /// When it can't be read, is longer than a megabyte, or is no TOML.
    pub fn file(mut self, path: &Path) -> Result<Self, SettingsError> {
        let name = path.display().to_string();
        let wrong = |line, what: String| SettingsError {
            place: Place::File {
                file: name.clone(),
                line,
            },
            key: String::new(),
            what,
        };
        let unreadable = |error: std::io::Error| wrong(None, error.to_string());
        let length = std::fs::metadata(path).map_err(unreadable)?.len();
        if length > LONGEST {
            return Err(wrong(
                None,
                format!("has {length} bytes, the limit is {LONGEST}"),
            ));
        }
        let text = std::fs::read_to_string(path).map_err(unreadable)?;
        let dict: Dict = toml::from_str(&text).map_err(|error| {
            let line = error.span().map(|span| line_at(&text, span.start));
            wrong(line, error.message().to_owned())
        })?;
        self.merged = self.merged.merge(Layer {
            name: FILE,
            source: Some(Source::File(path.to_owned())),
            dict,
        });
        self.text = Some(text);
        Ok(self)
    }

    /// The variables that begin with [`PREFIX`].
    ///
    /// # Errors
    /// A value that is not UTF-8.
    pub fn environment(
        self,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self, SettingsError> {
        let mut layers = self;
        for (name, value) in variables {
            let Some(name) = name.to_str().filter(|name| name.starts_with(PREFIX)) else {
                continue;
            };
            let key = name[PREFIX.len()..].to_ascii_lowercase().replace("__", ".");
            let value = value.into_string().map_err(|_| SettingsError {
                place: Place::Environment(name.to_owned()),
                key: key.clone(),
                what: "must be UTF-8".to_owned(),
            })?;
            layers = layers.text(ENVIRONMENT, name, &key, value);
        }
        Ok(layers)
    }

    /// Flags that were given: the key that each is for, its name, and its value.
    #[must_use]
    pub fn flags<'a>(
        self,
        flags: impl IntoIterator<Item = (&'a str, &'a str, Option<String>)>,
    ) -> Self {
        flags
            .into_iter()
            .filter_map(|(key, flag, value)| Some((key, flag, value?)))
            .fold(self, |layers, (key, flag, value)| {
                layers.text(FLAG, flag, key, value)
            })
    }

    /// Reads them into `T`. Afterwards [`place`](Self::place) tells where a key was written.
    ///
    /// # Errors
    /// The first unknown key, or value of another kind.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, SettingsError> {
        let dict = self.dict();
        T::deserialize(Reader::new(self, &dict)).map_err(|fault: Fault| self.explain(fault))
    }

    /// A key whose value breaks a rule.
    #[must_use]
    pub fn refuse(&self, key: &str, rule: &str) -> SettingsError {
        SettingsError {
            place: self.place(key),
            key: key.to_owned(),
            what: rule.to_owned(),
        }
    }

    /// Where a key was written.
    #[must_use]
    pub fn place(&self, key: &str) -> Place {
        let dict = self.dict();
        let mut parts = key.split('.');
        let mut value = parts.next().and_then(|part| dict.get(part));
        for part in parts {
            value = value.and_then(|value| match value {
                Value::Dict(_, dict) => dict.get(part),
                _ => None,
            });
        }
        value.map_or(Place::Default, |value| self.place_of(key, value.tag()))
    }

    pub(super) fn place_of(&self, key: &str, tag: Tag) -> Place {
        let Some(metadata) = self.merged.get_metadata(tag) else {
            return Place::Default;
        };
        let name = metadata.name.to_string();
        match (&metadata.source, name.split_once(' ')) {
            (Some(Source::File(file)), _) => Place::File {
                file: file.display().to_string(),
                line: self.text.as_deref().and_then(|text| line_of(text, key)),
            },
            (_, Some((ENVIRONMENT, variable))) => Place::Environment(variable.to_owned()),
            (_, Some((FLAG, flag))) => Place::Flag(flag.to_owned()),
            _ => Place::Default,
        }
    }

    fn explain(&self, fault: Fault) -> SettingsError {
        SettingsError {
            place: fault.tag.map_or_else(
                || self.place(&fault.key),
                |tag| self.place_of(&fault.key, tag),
            ),
            key: fault.key,
            what: fault.what,
        }
    }

    fn dict(&self) -> Dict {
        let data = self.merged.data().ok();
        data.and_then(|mut data| data.remove(&Profile::Default))
            .unwrap_or_default()
    }

    fn texts(self, kind: &'static str, texts: impl Iterator<Item = (String, String)>) -> Self {
        texts.fold(self, |layers, (key, value)| {
            layers.text(kind, "", &key, value)
        })
    }

    /// One key with a text, which is read as what is asked for.
    fn text(mut self, kind: &'static str, name: &str, key: &str, value: String) -> Self {
        let dict = figment::util::nest(key, Value::from(value));
        self.merged = self.merged.merge(Layer {
            name: format!("{kind} {name}"),
            source: None,
            dict: dict.into_dict().unwrap_or_default(),
        });
        self
    }
}

const FILE: &str = "file";
const ENVIRONMENT: &str = "environment";
const FLAG: &str = "flag";

/// One layer as figment takes it.
struct Layer<N> {
    name: N,
    source: Option<Source>,
    dict: Dict,
}

impl<N: ToString> Provider for Layer<N> {
    fn metadata(&self) -> Metadata {
        let metadata = Metadata::named(self.name.to_string());
        match &self.source {
            Some(source) => metadata.source(source.clone()),
            None => metadata,
        }
    }

    fn data(&self) -> Result<Map<Profile, Dict>, figment::Error> {
        Ok(Profile::Default.collect(self.dict.clone()))
    }
}

/// The line of a key in TOML, from 1; that of its section if the key itself is not found.
fn line_of(text: &str, key: &str) -> Option<usize> {
    let table = toml::de::DeTable::parse(text).ok()?;
    let mut table = table.get_ref();
    let mut found = None;
    for part in key.split('.') {
        let Some((name, value)) = table.iter().find(|(name, _)| name.get_ref() == part) else {
            break;
        };
        found = Some(line_at(text, name.span().start));
        match value.get_ref() {
            toml::de::DeValue::Table(inner) => table = inner,
            _ => break,
        }
    }
    found
}

fn line_at(text: &str, byte: usize) -> usize {
    1 + text
        .bytes()
        .take(byte)
        .filter(|byte| *byte == b'\n')
        .count()
}
