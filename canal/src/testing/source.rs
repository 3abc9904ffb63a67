//! Where scripted transactions come from.

use super::transaction::{InvalidTransaction, Transaction};

/// A script that is asked for the next transaction whenever the server's store has room.
///
/// It is called on whatever thread makes room, with the server's lock held: it must be quick and must
/// not call the server's handle. `None` ends the script; it is not asked again.
///
/// ```
/// use lockkeeper_canal::testing::{RowSource, Table, Transaction};
///
/// struct Numbers {
///     next: u64,
///     table: Table,
/// }
///
/// impl RowSource for Numbers {
///     fn next_transaction(&mut self) -> Option<Transaction> {
///         self.next += 1;
///         (self.next <= 1_000).then(|| Transaction::new(self.next).insert(&self.table, [self.next]))
///     }
/// }
/// ```
pub trait RowSource: Send {
    /// The next transaction, or `None` at the end of the script.
    fn next_transaction(&mut self) -> Option<Transaction>;
}

/// Why a source is not asked any more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// It gave a row that does not fit its table.
    #[error(transparent)]
    Invalid(#[from] InvalidTransaction),
    /// It panicked; the panic's message went to the panic hook.
    #[error("the RowSource has panicked")]
    Panicked,
}

/// Any iterator over transactions is a script.
impl<I> RowSource for I
where
    I: Iterator<Item = Transaction> + Send,
{
    fn next_transaction(&mut self) -> Option<Transaction> {
        self.next()
    }
}
