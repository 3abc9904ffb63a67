//! What a Canal server and this client do together: written once, run against every server. A
//! server is given as a [`Subject`]: an address, a destination of its own, a way to make rows.

mod actor;
mod batches;
mod requests;
mod rows;
mod theft;

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use lockkeeper_canal::{
    BinlogPosition, CanalConnectorBuilder, ClientIdentity, EventType, Filter, Message,
    SimpleCanalConnector,
};
use rust_decimal::Decimal;
use serde::Deserialize;

pub(crate) use actor::*;
pub(crate) use batches::*;
pub(crate) use requests::*;
pub(crate) use rows::*;
pub(crate) use theft::*;

/// A guard against a hang, not a measure.
const HANG: Duration = Duration::from_secs(60);

/// Makes rows in one table with the columns `id`, `customer`, `amount` and `placed`.
pub(crate) trait Database {
    /// The table, as `(schema, table)`.
    fn table(&self) -> (&str, &str);

    /// One transaction, one statement that inserts these ids with [`Order::of`]'s values.
    fn insert(&self, ids: RangeInclusive<u64>);

    /// One transaction, one statement that adds 1 to the amounts of these ids.
    fn update(&self, ids: RangeInclusive<u64>);

    /// One transaction, one statement that deletes these ids.
    fn delete(&self, ids: RangeInclusive<u64>);

    /// ALTER TABLE that adds a nullable column.
    fn add_column(&self, name: &str);

    /// Says how far the binlog goes; blocks meanwhile.
    fn binlog(&self) -> Box<dyn Fn() -> BinlogPosition + Send + Sync>;
}

/// A server to be tested.
pub(crate) struct Subject {
    pub(crate) address: String,
    pub(crate) destination: String,
    pub(crate) user: String,
    pub(crate) password: String,
    pub(crate) database: Box<dyn Database>,
}

/// A row of the table.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Order {
    pub(crate) id: u64,
    pub(crate) customer: String,
    pub(crate) amount: Decimal,
    pub(crate) placed: String,
}

impl Order {
    /// The row that is inserted under `id`.
    pub(crate) fn of(id: u64) -> Self {
        Self {
            id,
            customer: format!("customer {} 🚀", id % 7),
            amount: Decimal::new(i64::try_from(id).unwrap() * 100 + 25, 2),
            placed: "2024-02-29 12:34:56".to_owned(),
        }
    }
}

/// Names contracts: `contracts!(macro_name: a, b)` makes a macro that makes a test of each,
/// `macro_name!(run)` with `fn run(name: &str, contract: impl AsyncFnOnce(&Subject))`.
macro_rules! contracts {
    ($every:ident: $($name:ident),* $(,)?) => {
        macro_rules! $every {
            ($run:path) => {
                $(
                    #[test]
                    fn $name() {
                        $run(stringify!($name), async |subject| $crate::contract::$name(subject).await);
                    }
                )*
            };
        }
        pub(crate) use $every;
    };
}

// What holds on every server.
contracts! { every_contract:
    rows_come_once_and_in_order,
    a_row_has_its_values_its_images_and_its_place,
    unacknowledged_batches_come_again_after_a_reconnect,
    a_rollback_gives_back_every_outstanding_batch,
    an_ack_covers_all_batches_up_to_its_own,
    an_ack_of_another_epoch_is_refused_here,
    entries_that_come_again_have_equal_fingerprints,
    a_second_client_that_takes_a_batch_is_noticed_and_nothing_is_lost,
    a_second_client_that_rolls_back_is_noticed_and_nothing_is_lost,
    a_wrong_password_is_a_typed_error,
    an_unknown_destination_is_a_typed_error,
    a_get_without_a_subscription_is_refused,
    unsubscribe_then_subscribe_goes_on,
    an_empty_destination_answers_at_once,
    silence_beyond_the_servers_limit_closes_and_keep_alive_does_not,
    dropping_a_fetch_loses_nothing,
    get_acknowledges_what_it_gives,
    a_new_client_id_begins_with_the_oldest_entry,
    the_actor_delivers_each_row_soon_and_acknowledges_it,
    the_actor_pushes_whole_transactions_however_batches_are_cut,
    the_actor_reports_a_server_that_stalls_while_the_binlog_grows,
}

// What holds where the server can read the database's schema changes.
contracts! { every_contract_of_schema_changes:
    a_schema_change_is_no_row,
}

impl Subject {
    fn builder(&self) -> CanalConnectorBuilder {
        self.builder_for(ClientIdentity::new(&self.destination))
    }

    fn builder_for(&self, identity: ClientIdentity) -> CanalConnectorBuilder {
        CanalConnectorBuilder::new(identity)
            .address(&self.address)
            .credentials(&self.user, &*self.password)
    }

    pub(crate) fn filter(&self) -> Filter {
        let (schema, table) = self.database.table();
        Filter::table(schema, table)
    }

    pub(crate) async fn connected(&self) -> SimpleCanalConnector {
        let mut connector = self.builder().build().unwrap();
        connector.connect().await.unwrap();
        connector
    }

    async fn subscribed(&self) -> SimpleCanalConnector {
        let mut connector = self.connected().await;
        connector.subscribe(&self.filter()).await.unwrap();
        connector
    }
}

/// What has come of the table: id, kind and count.
#[derive(Debug, Default)]
struct Seen {
    inserted: Vec<u64>,
}

fn inserted(subject: &Subject, message: &Message) -> Vec<u64> {
    let mut ids = Vec::new();
    for entry in message.entries() {
        let entry = entry.unwrap();
        if (entry.schema_name(), entry.table_name()) != subject.database.table() {
            continue;
        }
        let Some(change) = entry.row_change().unwrap() else {
            continue;
        };
        if change.event_type() != EventType::Insert {
            continue;
        }
        ids.extend(
            change
                .rows::<Order>()
                .map(|row| row.unwrap().after.unwrap().id),
        );
    }
    ids
}

/// The next batch; waits for one.
pub(crate) async fn next(connector: &mut SimpleCanalConnector, fetch_size: u32) -> Message {
    let until = Instant::now() + HANG;
    loop {
        if let Some(message) = connector.get_without_ack(fetch_size, None).await.unwrap() {
            return message;
        }
        assert!(Instant::now() < until, "no batch came");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Batches until `id` has been inserted.
async fn until_inserted(
    subject: &Subject,
    connector: &mut SimpleCanalConnector,
    fetch_size: u32,
    id: u64,
) -> (Vec<Message>, Seen) {
    let (mut messages, mut seen) = (Vec::new(), Seen::default());
    while !seen.inserted.contains(&id) {
        let message = next(connector, fetch_size).await;
        seen.inserted.extend(inserted(subject, &message));
        messages.push(message);
    }
    (messages, seen)
}

fn ids(range: RangeInclusive<u64>) -> Vec<u64> {
    range.collect()
}
