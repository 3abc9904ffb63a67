//! What a row change does to a customer's account: plain data and arithmetic.

use std::hash::{BuildHasher, Hasher};

use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};

/// The customer of the loader's last row: it ends the job and is in no total.
pub const END_CUSTOMER: &str = "__end__";

/// One row of the orders table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// Primary key.
    pub id: u64,
    /// Who ordered.
    pub customer: String,
    /// Price, two digits after the point.
    pub amount: Decimal,
    /// When, as the database writes it: `YYYY-MM-DD HH:MM:SS`.
    pub placed: String,
    /// 1 when inserted, one more with each update.
    pub version: u32,
}

impl Order {
    /// 64-bit hash of the whole row, the same in every process and build.
    #[must_use]
    pub fn digest(&self) -> u64 {
        let mut hash = Fnv1a::default();
        hash.write(&self.id.to_be_bytes());
        hash.write(&self.version.to_be_bytes());
        hash.write(self.customer.as_bytes());
        // the mantissa at a fixed scale: 1.5 and 1.50 are the same amount
        let mut amount = self.amount;
        amount.rescale(2);
        hash.write(&amount.mantissa().to_be_bytes());
        hash.write(self.placed.as_bytes());
        mix(hash.finish())
    }
}

/// One change of the table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RowChange {
    /// A new row.
    Insert(Order),
    /// A changed row.
    Update {
        /// As it was.
        before: Order,
        /// As it is.
        after: Order,
    },
    /// A removed row, as it was.
    Delete(Order),
}

/// What a row change does to one customer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountChange {
    /// Whose account.
    pub customer: String,
    /// Added to the total.
    pub amount: Decimal,
    /// Added to the number of rows.
    pub count: i64,
    /// Added to the digest, wrapping.
    pub digest: u64,
}

impl RowChange {
    /// The account changes, one for each customer that the row change touches.
    #[must_use]
    pub fn account_changes(&self) -> Vec<AccountChange> {
        match self {
            Self::Insert(row) => vec![plus(row)],
            Self::Delete(row) => vec![minus(row)],
            Self::Update { before, after } if before.customer == after.customer => {
                vec![AccountChange {
                    customer: after.customer.clone(),
                    amount: after.amount - before.amount,
                    count: 0,
                    digest: after.digest().wrapping_sub(before.digest()),
                }]
            }
            Self::Update { before, after } => vec![minus(before), plus(after)],
        }
    }
}

fn plus(row: &Order) -> AccountChange {
    AccountChange {
        customer: row.customer.clone(),
        amount: row.amount,
        count: 1,
        digest: row.digest(),
    }
}

fn minus(row: &Order) -> AccountChange {
    AccountChange {
        customer: row.customer.clone(),
        amount: -row.amount,
        count: -1,
        digest: row.digest().wrapping_neg(),
    }
}

/// The account of a customer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Account {
    /// Sum of the amounts of the customer's rows.
    pub total: Decimal,
    /// Number of the customer's rows.
    pub count: i64,
    /// How many row changes touched the account.
    pub changes: u64,
    /// Wrapping sum of the rows' digests, signed by insert and delete.
    pub digest: u64,
}

impl Account {
    /// Applies one change.
    pub fn apply(&mut self, change: &AccountChange) {
        self.total += change.amount;
        self.count += change.count;
        self.changes += 1;
        self.digest = self.digest.wrapping_add(change.digest);
    }
}

/// The instance of the keyed operator that keeps a customer: the same in every process.
#[must_use]
pub fn customer_key(customer: &str) -> u64 {
    let mut hash = Fnv1a::default();
    hash.write(customer.as_bytes());
    mix(hash.finish())
}

/// FNV-1a, 64 bits: short, and the same on every machine and in every build, which the standard
/// library's hashers do not promise.
#[derive(Debug, Clone, Copy)]
pub struct Fnv1a(u64);

impl Default for Fnv1a {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for Fnv1a {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

impl BuildHasher for Fnv1a {
    type Hasher = Self;

    fn build_hasher(&self) -> Self {
        Self::default()
    }
}

/// Spreads the bits, so that sums of digests differ in all of them.
fn mix(mut value: u64) -> u64 {
    value ^= value >> 30;
    value = value.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value ^= value >> 27;
    value = value.wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(id: u64, customer: &str, cents: i64, version: u32) -> Order {
        Order {
            id,
            customer: customer.to_owned(),
            amount: Decimal::new(cents, 2),
            placed: "2026-01-01 00:00:00".to_owned(),
            version,
        }
    }

    fn fold(changes: &[RowChange]) -> Account {
        let mut account = Account::default();
        for change in changes.iter().flat_map(RowChange::account_changes) {
            account.apply(&change);
        }
        account
    }

    #[test]
    fn inserting_and_deleting_a_row_leaves_only_the_number_of_changes() {
        let row = order(1, "a", 995, 1);
        let account = fold(&[RowChange::Insert(row.clone()), RowChange::Delete(row)]);
        assert_eq!(
            account,
            Account {
                changes: 2,
                ..Account::default()
            }
        );
    }

    #[test]
    fn a_loss_and_a_duplicate_do_not_cancel_in_the_digest() {
        let (first, second) = (order(1, "a", 100, 1), order(2, "a", 100, 1));
        let right = fold(&[RowChange::Insert(first.clone()), RowChange::Insert(second)]);
        let wrong = fold(&[RowChange::Insert(first.clone()), RowChange::Insert(first)]);
        assert_eq!((right.total, right.count), (wrong.total, wrong.count));
        assert_ne!(right.digest, wrong.digest);
    }

    #[test]
    fn an_update_that_moves_a_row_touches_both_customers() {
        let change = RowChange::Update {
            before: order(1, "a", 100, 1),
            after: order(1, "b", 150, 2),
        };
        let changes = change.account_changes();
        assert_eq!(changes.len(), 2);
        assert_eq!((changes[0].customer.as_str(), changes[0].count), ("a", -1));
        assert_eq!((changes[1].customer.as_str(), changes[1].count), ("b", 1));
    }

    #[test]
    fn the_digest_does_not_depend_on_how_an_amount_is_written() {
        let mut other = order(1, "a", 150, 1);
        other.amount = Decimal::new(15, 1);
        assert_eq!(order(1, "a", 150, 1).digest(), other.digest());
    }
}
