//! Each chunk of its own moment, between two watermarks.

use super::{Again, Outcome, Reader, Request, Step};
use crate::snapshot::error::SnapshotError;
use crate::snapshot::merge::{Chunk, Settled};
use crate::snapshot::sql::Database;

impl Reader {
    /// One chunk between its watermarks.
    pub(super) async fn watermarked(
        &self,
        open: &mut Option<Database>,
    ) -> Result<Step, SnapshotError> {
        let Some(next) = self.ask(Request::Next).await else {
            return Ok(Step::Finished);
        };
        let database = match open {
            Some(database) => database,
            None => {
                let mut database = Database::connect(&self.database).await?;
                database.make_watermarks(&self.watermarks).await?;
                open.insert(database)
            }
        };
        let (schema, name) = (next.schema.as_str(), next.name.as_str());
        let again = |reason: &str| {
            Step::Again(Again {
                table: format!("{schema}.{name}"),
                reason: reason.to_owned(),
            })
        };
        let key = database.columns(schema, name).await?.key().to_vec();
        let mark = format!("{:032x}", fastrand::u128(..));
        let (low, high) = (format!("low {mark}"), format!("high {mark}"));
        let chunk = Chunk {
            table: next.table,
            key: key.clone(),
            low: low.clone(),
            high: high.clone(),
        };
        self.ask(|reply| Request::Begin(chunk, reply)).await?;
        database.write(&self.watermarks, &low).await?;
        // A table that is altered from here on is noticed between the watermarks.
        let columns = database.columns(schema, name).await?;
        if *columns.key() != key {
            return Ok(again("its primary key was changed meanwhile"));
        }
        let limit = self.settings.chunk_rows;
        let rows = database
            .rows((schema, name), &columns, next.after.as_ref(), limit)
            .await?;
        self.ask(|reply| Request::Loaded(rows, reply)).await;
        database.write(&self.watermarks, &high).await?;
        Ok(match self.ask(Request::Settle).await {
            Outcome::Settled(Settled::Done { .. }) => Step::Read,
            Outcome::Settled(Settled::Again { reason }) => again(reason),
            Outcome::Lost => Step::Lost,
        })
    }
}
