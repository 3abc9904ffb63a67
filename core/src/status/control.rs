//! What can be done with a part of a program from a console.

use std::{future::Future, pin::Pin};

use serde::{Deserialize, Serialize};

/// Resolves to what was done, or why not, in one line for people.
pub type ActionFuture = Pin<Box<dyn Future<Output = Result<String, String>> + Send>>;

/// The actions of a [`StatusSource`](super::StatusSource).
pub trait StatusControl: Send + Sync + 'static {
    /// What can be done now.
    fn actions(&self) -> Vec<StatusAction>;

    /// Does it. An action that is not in [`actions`](Self::actions) at the time is refused. A
    /// future that is dropped may have done it or not.
    fn act(&self, action: &str) -> ActionFuture;
}

/// Something that can be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusAction {
    /// Its name, such as `cut`.
    pub name: String,
    /// What it does, in a sentence: a person is asked with it before it is done.
    pub effect: String,
}

impl StatusAction {
    /// An action.
    #[must_use]
    pub fn new(name: impl Into<String>, effect: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            effect: effect.into(),
        }
    }
}
