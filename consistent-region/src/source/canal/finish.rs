//! What a source stages with a cut: its dead letters, and with the last cut the promise to acknowledge
//! everything.
//!
//! A region that goes on acknowledges what its *oldest retained* cut covers. One that ends would leave
//! the batches of its last cuts to the next client of the destination. So the last cut's commit
//! acknowledges all of them; the region can't fall back behind that cut any more, and its token says
//! so.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use lockkeeper_canal::BatchId;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::UnboundedSender;

use super::fetch::Order;
use crate::operator::{Committer, OperatorError, StageOutput};

/// How long the server's answer to the last acknowledgement is waited for.
const LIMIT: Duration = Duration::from_secs(10);

/// What a cut's manifest says for the source.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Token {
    /// The token of the dead letters.
    letters: Option<Vec<u8>>,
    /// The region ends with this cut.
    finish: bool,
}

/// What is to be staged with a cut; `None` for most.
pub(super) fn stage(letters: Option<StageOutput>, finish: bool) -> Option<StageOutput> {
    if letters.is_none() && !finish {
        return None;
    }
    Some(Box::new(move || {
        let letters = letters.map(|stage| stage()).transpose()?;
        let token = Token { letters, finish };
        serde_json::to_vec(&token).map_err(|error| OperatorError::Permanent(error.to_string()))
    }))
}

/// Commits what [`stage`] staged.
pub(super) struct SourceCommitter {
    pub(super) letters: Option<Arc<dyn Committer>>,
    /// The cut that was prepared last is the region's last one.
    pub(super) is_last: bool,
    pub(super) finish: Option<Finish>,
}

/// The last acknowledgement.
pub(super) struct Finish {
    pub(super) orders: UnboundedSender<Order>,
    pub(super) batch: Option<BatchId>,
}

impl Finish {
    /// Acknowledges and waits until the server has taken note. What can't be acknowledged comes to the
    /// next client again: no reason to keep a region from its end.
    fn carry_out(&self) {
        let (done, finished) = channel();
        let order = Order::Finish {
            batch: self.batch,
            done,
        };
        let answer = match self.orders.send(order) {
            Ok(()) => finished.recv_timeout(LIMIT),
            Err(_) => Err(RecvTimeoutError::Disconnected),
        };
        if let Err(error) = answer {
            tracing::warn!(
                %error,
                "the last batches could not be acknowledged: the next client gets them again"
            );
        }
    }
}

impl SourceCommitter {
    fn token(token: &[u8]) -> Result<Token, OperatorError> {
        serde_json::from_slice(token).map_err(|error| {
            OperatorError::Permanent(format!("the token is none of a Canal source: {error}"))
        })
    }
}

impl Committer for SourceCommitter {
    fn commit(&self, seq: u64, token: &[u8]) -> Result<(), OperatorError> {
        let token = Self::token(token)?;
        match (&token.letters, &self.letters) {
            (Some(token), Some(letters)) => letters.commit(seq, token)?,
            (Some(_), None) => {
                return Err(OperatorError::Permanent(format!(
                    "cut {seq} has dead letters, and this program has no folder for them: set \
                     on_bad_row as it was"
                )));
            }
            (None, _) => {}
        }
        if let (true, Some(finish)) = (token.finish, &self.finish) {
            finish.carry_out();
        }
        Ok(())
    }

    fn can_take_back(&self) -> bool {
        !self.is_last
    }

    fn take_back_above(&self, seq: u64) -> Result<(), OperatorError> {
        match &self.letters {
            Some(letters) => letters.take_back_above(seq),
            None => Ok(()),
        }
    }

    fn abort_all_except(&self, retained: &[Vec<u8>]) -> Result<(), OperatorError> {
        let Some(letters) = &self.letters else {
            return Ok(());
        };
        let retained: Vec<Vec<u8>> = retained
            .iter()
            .filter_map(|token| Self::token(token).ok()?.letters)
            .collect();
        letters.abort_all_except(&retained)
    }
}
