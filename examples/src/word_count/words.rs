//! The stateless operator: lines become words.

use actix::{Actor, Context};
use lockkeeper_consistent_region::operator::{Operator, OperatorError, Output};

/// The words of a text: runs of letters and digits, in small letters.
pub fn words_of(text: &str) -> impl Iterator<Item = String> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
}

/// Takes lines, gives words. It has no state, so nothing of it is saved or restored.
#[derive(Debug, Default)]
pub struct Words;

impl Actor for Words {
    type Context = Context<Self>;
}

impl Operator for Words {
    type Input = String;
    type Output = String;

    fn process(
        &mut self,
        lines: Vec<String>,
        output: &mut Output<String>,
    ) -> Result<(), OperatorError> {
        for line in &lines {
            output.extend(words_of(line));
        }
        Ok(())
    }
}
