//! The keyed operator: one account a customer, given out at each cut for those that changed.

use std::collections::HashMap;
use std::io::Read;

use actix::{Actor, Context};
use lockkeeper_consistent_region::operator::{Cut, Operator, OperatorError, Output, Prepared};

use super::account::{Account, AccountChange};
use super::output::Line;

/// Is told what the operator does.
pub type Observer = Box<dyn FnMut(Observed)>;

/// See [`Observer`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Observed {
    /// It stands at a cut and goes on.
    Resumed,
    /// It has processed so many changes.
    Processed(u64),
    /// It has processed the last change of a cut.
    Drained,
}

/// Keeps the accounts of its share of the customers.
pub struct Totals {
    accounts: HashMap<String, Account>,
    /// Changes of each customer since the last cut.
    changed: HashMap<String, u64>,
    /// For the progress display and the recovery times.
    observer: Observer,
    /// Number of the change to leave out, for the test that the judge notices (`--sabotage`).
    skip: Option<u64>,
}

impl Totals {
    /// An operator without accounts.
    #[must_use]
    pub fn new(observer: Observer) -> Self {
        Self {
            accounts: HashMap::new(),
            changed: HashMap::new(),
            observer,
            skip: None,
        }
    }

    /// Leaves out the change with this number: sabotage.
    #[must_use]
    pub fn skipping(mut self, change: Option<u64>) -> Self {
        self.skip = change;
        self
    }

    fn skips_this_one(&mut self) -> bool {
        match &mut self.skip {
            Some(0) => {
                self.skip = None;
                true
            }
            Some(left) => {
                *left -= 1;
                false
            }
            None => false,
        }
    }
}

impl std::fmt::Debug for Totals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Totals")
            .field("customers", &self.accounts.len())
            .finish_non_exhaustive()
    }
}

impl Actor for Totals {
    type Context = Context<Self>;
}

impl Operator for Totals {
    type Input = AccountChange;
    type Output = Line;
    const STATE_TYPE: &'static str = "orders.totals";

    fn process(
        &mut self,
        batch: Vec<AccountChange>,
        _output: &mut Output<Line>,
    ) -> Result<(), OperatorError> {
        let changes = batch.len() as u64;
        for change in batch {
            if self.skips_this_one() {
                continue;
            }
            match self.accounts.get_mut(&change.customer) {
                Some(account) => account.apply(&change),
                None => {
                    self.accounts
                        .entry(change.customer.clone())
                        .or_default()
                        .apply(&change);
                }
            }
            *self.changed.entry(change.customer).or_default() += 1;
        }
        (self.observer)(Observed::Processed(changes));
        Ok(())
    }

    fn drain(&mut self, output: &mut Output<Line>) -> Result<(), OperatorError> {
        for (customer, new_changes) in self.changed.drain() {
            let account = self.accounts[&customer];
            output.emit(Line {
                customer,
                account,
                new_changes,
            });
        }
        Ok(())
    }

    fn prepare(&mut self, _cut: Cut) -> Result<Prepared, OperatorError> {
        let accounts = self.accounts.clone();
        Ok(Prepared {
            state: Some(Box::new(move |writer| {
                serde_json::to_writer(writer, &accounts).map_err(Into::into)
            })),
            stage: None,
        })
    }

    fn reset(&mut self, state: &mut dyn Read, _version: u32) -> Result<(), OperatorError> {
        self.accounts = serde_json::from_reader(state)
            .map_err(|error| OperatorError::Retry(format!("accounts: {error}")))?;
        self.changed.clear();
        Ok(())
    }

    fn reset_to_initial_state(&mut self) -> Result<(), OperatorError> {
        self.accounts.clear();
        self.changed.clear();
        Ok(())
    }

    fn resumed_at(&mut self, _completed: u64, _oldest_retained: u64) -> Result<(), OperatorError> {
        (self.observer)(Observed::Resumed);
        Ok(())
    }
}
