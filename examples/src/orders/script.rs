//! The changes of the embedded source and of the loader: the same for the same seed.
//!
//! About 70 % inserts, 20 % updates (one in ten moves the row to another customer) and 10 %
//! deletes, in transactions of 1 to 1,000 row changes.

use std::collections::HashMap;

use fastrand::Rng;
use rust_decimal::Decimal;

use super::account::{Account, Order, RowChange};

/// Number of customers.
const CUSTOMERS: u64 = 1_000;
/// Most row changes in a transaction.
const TRANSACTION_CHANGES: u64 = 1_000;

/// An endless supply of changes up to a number of them.
#[derive(Debug)]
pub struct Script {
    random: Rng,
    left: u64,
    next_id: u64,
    living: Vec<Order>,
}

impl Script {
    /// A script of `rows` row changes.
    #[must_use]
    pub fn new(seed: u64, rows: u64) -> Self {
        Self {
            random: Rng::with_seed(seed),
            left: rows,
            next_id: 1,
            living: Vec::new(),
        }
    }

    /// The id that no row of the script has: for the row that ends the job.
    #[must_use]
    pub fn unused_id(&self) -> u64 {
        self.next_id
    }

    fn change(&mut self) -> RowChange {
        let kind = self.random.u8(0..10);
        if self.living.is_empty() || kind < 7 {
            let row = Order {
                id: self.next_id,
                customer: self.customer(),
                amount: self.amount(),
                placed: self.placed(),
                version: 1,
            };
            self.next_id += 1;
            self.living.push(row.clone());
            return RowChange::Insert(row);
        }
        let index = self.random.usize(0..self.living.len());
        if kind == 9 {
            return RowChange::Delete(self.living.swap_remove(index));
        }
        let before = self.living[index].clone();
        let mut after = before.clone();
        after.amount = self.amount();
        after.version += 1;
        if self.random.u8(0..10) == 0 {
            after.customer = self.customer();
        }
        self.living[index] = after.clone();
        RowChange::Update { before, after }
    }

    fn customer(&mut self) -> String {
        // squared, so that some customers are much busier than others
        let share = self.random.f64();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a share of 0..1 of a small number"
        )]
        let number = (share * share * CUSTOMERS as f64) as u64;
        format!("customer-{number:04}")
    }

    fn amount(&mut self) -> Decimal {
        Decimal::new(self.random.i64(1..100_000), 2)
    }

    fn placed(&mut self) -> String {
        let random = &mut self.random;
        format!(
            "2026-{:02}-{:02} {:02}:{:02}:{:02}",
            random.u8(1..=12),
            random.u8(1..=28),
            random.u8(0..24),
            random.u8(0..60),
            random.u8(0..60)
        )
    }
}

impl Iterator for Script {
    type Item = Vec<RowChange>;

    /// The next transaction.
    fn next(&mut self) -> Option<Vec<RowChange>> {
        if self.left == 0 {
            return None;
        }
        let size = self.random.u64(1..=TRANSACTION_CHANGES).min(self.left);
        self.left -= size;
        Some((0..size).map(|_| self.change()).collect())
    }
}

/// The accounts that a script ends with, computed from the seed alone.
#[must_use]
pub fn accounts(seed: u64, rows: u64) -> HashMap<String, Account> {
    let mut accounts: HashMap<String, Account> = HashMap::new();
    for change in Script::new(seed, rows).flatten() {
        for change in change.account_changes() {
            accounts
                .entry(change.customer.clone())
                .or_default()
                .apply(&change);
        }
    }
    accounts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_changes_and_another_seed_others() {
        let changes = |seed| Script::new(seed, 5_000).flatten().collect::<Vec<_>>();
        assert_eq!(changes(1), changes(1));
        assert_ne!(changes(1), changes(2));
        assert_eq!(changes(1).len(), 5_000);
    }

    #[test]
    fn a_script_has_all_kinds_of_changes_and_transactions_within_the_limit() {
        let transactions: Vec<_> = Script::new(3, 20_000).collect();
        assert!(
            transactions
                .iter()
                .all(|changes| (1..=1_000).contains(&changes.len()))
        );
        let changes: Vec<_> = transactions.into_iter().flatten().collect();
        let deletes = changes
            .iter()
            .filter(|c| matches!(c, RowChange::Delete(_)))
            .count();
        let moves = changes.iter().filter(|c| {
            matches!(c, RowChange::Update { before, after } if before.customer != after.customer)
        });
        assert!(deletes > 1_000);
        assert!(moves.count() > 100);
    }

    #[test]
    fn the_accounts_count_every_living_row_once() {
        let mut rows = 0_i64;
        for change in Script::new(4, 10_000).flatten() {
            match change {
                RowChange::Insert(_) => rows += 1,
                RowChange::Delete(_) => rows -= 1,
                RowChange::Update { .. } => {}
            }
        }
        let accounts = accounts(4, 10_000);
        assert_eq!(
            accounts.values().map(|account| account.count).sum::<i64>(),
            rows
        );
    }
}
