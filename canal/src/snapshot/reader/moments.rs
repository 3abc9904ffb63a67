//! All tables as of one moment, in one transaction.

use std::sync::Arc;

use super::{HandOut, HandedOut, Next, Reader, Request, Step};
use crate::connector::Backoff;
use crate::snapshot::error::SnapshotError;
use crate::snapshot::moment::Moment;
use crate::snapshot::moments::bound;
use crate::snapshot::settings::SnapshotMode;
use crate::snapshot::sql::{Database, TableColumns};
use crate::snapshot::state::Bound;

/// The transaction, and what is still to be read in it.
pub(super) struct Open {
    database: Database,
    moment: Moment,
    /// The last is read first.
    rest: Vec<(Next, TableColumns)>,
}

impl Reader {
    /// One chunk. Without a transaction, of what is left as of a new moment.
    pub(super) async fn as_of_moment(
        &self,
        mode: SnapshotMode,
        open: &mut Option<Open>,
    ) -> Result<Step, SnapshotError> {
        let open = match open {
            Some(open) => open,
            None => {
                let rest = self.ask(Request::Rest).await;
                if rest.is_empty() {
                    return Ok(Step::Finished);
                }
                open.insert(self.begin(mode, rest).await?)
            }
        };
        let Some((next, columns)) = open.rest.last_mut() else {
            open.database.end_moment().await?;
            return Ok(Step::Finished);
        };
        let names = (next.schema.as_str(), next.name.as_str());
        let limit = self.settings.chunk_rows;
        let chunk = open
            .database
            .chunk(names, columns, next.after.as_ref(), limit);
        let (rows, last) = chunk.await?;
        let to = bound(columns.key(), &rows, last)?;
        let hand_out = Arc::new(HandOut {
            table: next.table,
            to: to.clone(),
            moment: open.moment.clone(),
            at: open.database.read_at(&open.moment),
            rows,
        });
        self.hand_out(hand_out).await;
        match to {
            Bound::Row(key) => next.after = Some(key),
            Bound::End => drop(open.rest.pop()),
        }
        Ok(Step::Read)
    }

    async fn begin(&self, mode: SnapshotMode, rest: Vec<Next>) -> Result<Open, SnapshotError> {
        let mut database = Database::connect(&self.database).await?;
        let by_lock = mode == SnapshotMode::OneMomentByReadLock;
        let moment = database.begin_moment(&self.database, by_lock).await?;
        tracing::info!(
            journal = moment.journal,
            offset = moment.offset,
            tables = rest.len(),
            "tables are read as of one moment"
        );
        let mut tables = Vec::with_capacity(rest.len());
        for next in rest {
            // First of all tables: one that is altered while others are read would be refused.
            database.hold((&next.schema, &next.name)).await?;
            let columns = database.columns(&next.schema, &next.name).await?;
            let key = columns.key().to_vec();
            let index = next.table;
            self.ask(|reply| Request::Table(index, key, reply)).await?;
            tables.push((next, columns));
        }
        tables.reverse();
        Ok(Open {
            database,
            moment,
            rest: tables,
        })
    }

    /// Until the handler has them: the transaction stays open meanwhile.
    async fn hand_out(&self, hand_out: Arc<HandOut>) {
        let (first, longest) = (self.settings.first_back_off, self.settings.longest_back_off);
        let mut waits = Backoff::new(first, longest, None);
        loop {
            let rows = hand_out.clone();
            let reason = match self.ask(|reply| Request::HandOut(rows, reply)).await {
                HandedOut::Done => return,
                HandedOut::Refused(reason) => reason,
            };
            let wait = waits.failed(fastrand::f64()).unwrap_or(longest);
            tracing::warn!(reason, ?wait, "rows were not handled and come again");
            tokio::time::sleep(wait).await;
        }
    }
}
