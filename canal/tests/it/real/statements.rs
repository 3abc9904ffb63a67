//! Statements and images that no script can stand in for: schema changes in mid-stream, rows of a
//! minimal image, changes that come as text, on the real MariaDB.

use lockkeeper_canal::{ChangeKind, EventType, RowChange, SimpleCanalConnector};
use serde::Deserialize;

use super::{MariaDb, on_the_real_server_with};
use crate::contract::{Subject, next};

/// A schema that is changed statement by statement. Canal's server reads a table's definition when
/// it first meets a row, so a row that is read after a later ALTER is named by that one: each
/// statement waits until the one before has come through.
struct Follower<'s> {
    database: &'s MariaDb,
    schema: &'s str,
    connector: SimpleCanalConnector,
    fences: u32,
}

impl<'s> Follower<'s> {
    async fn new(subject: &'s Subject, database: &'s MariaDb) -> Self {
        let (schema, _) = subject.database.table();
        let mut connector = subject.connected().await;
        let filter = format!(r"{schema}.*\..*").parse().unwrap();
        connector.subscribe(&filter).await.unwrap();
        database.execute(&format!("CREATE TABLE {schema}.fence (id INT PRIMARY KEY)"));
        let mut follower = Self {
            database,
            schema,
            connector,
            fences: 0,
        };
        // What was there before, and what made the schema.
        follower.after("").await;
        follower
    }

    /// What comes of statements in one session.
    async fn after(&mut self, statements: &str) -> Vec<RowChange> {
        let (schema, database) = (self.schema, self.database);
        self.fences += 1;
        let number = self.fences.to_string();
        database.execute(&format!("USE {schema}; {statements}"));
        database.execute(&format!("INSERT INTO {schema}.fence VALUES ({number})"));
        let mut changes = Vec::new();
        loop {
            let message = next(&mut self.connector, 1000).await;
            let mut fenced = false;
            for entry in message.entries() {
                let Some(change) = entry.unwrap().row_change().unwrap() else {
                    continue;
                };
                let entry = change.entry();
                if (entry.schema_name(), entry.table_name()) == (schema, "fence") {
                    let ids = change.raw_rows().filter_map(|row| row.after().get("id"));
                    fenced |= ids.last().and_then(|id| id.text()) == Some(&*number);
                } else if entry.schema_name() == schema || change.sql().contains(schema) {
                    changes.push(change);
                }
            }
            self.connector.ack(message.id()).await.unwrap();
            if fenced {
                return changes;
            }
        }
    }

    /// What comes of each statement.
    async fn after_each(&mut self, statements: &[&str]) -> Vec<RowChange> {
        let mut changes = Vec::new();
        for statement in statements {
            changes.extend(self.after(statement).await);
        }
        changes
    }
}

#[test]
fn columns_are_matched_by_name_before_and_after_an_alter_in_mid_stream() {
    #[derive(Debug, PartialEq, Deserialize)]
    struct Person {
        id: u32,
        #[serde(alias = "full_name")]
        name: String,
        age: Option<u8>,
    }
    on_the_real_server_with("an_alter_in_mid_stream", async |subject, database| {
        let mut follower = Follower::new(subject, database).await;
        let changes = follower
            .after_each(&[
                "CREATE TABLE person (id INT UNSIGNED PRIMARY KEY, name VARCHAR(20), note TEXT)",
                "INSERT INTO person VALUES (1, 'Ada', 'first')",
                "ALTER TABLE person ADD COLUMN age TINYINT UNSIGNED FIRST",
                "INSERT INTO person (id, name, age) VALUES (2, 'Grace', 85)",
                "ALTER TABLE person DROP COLUMN note",
                "UPDATE person SET age = 36 WHERE id = 1",
                "ALTER TABLE person CHANGE COLUMN name full_name VARCHAR(40)",
                "INSERT INTO person VALUES (45, 3, 'Edsger')",
            ])
            .await;
        let people: Vec<_> = changes
            .iter()
            .flat_map(RowChange::rows::<Person>)
            .map(|row| row.unwrap().after.unwrap())
            .map(|person| (person.id, person.name, person.age))
            .collect();
        let person = |id, name: &str, age| (id, name.to_owned(), age);
        assert_eq!(
            people,
            [
                person(1, "Ada", None),
                person(2, "Grace", Some(85)),
                person(1, "Ada", Some(36)),
                person(3, "Edsger", Some(45)),
            ]
        );
    });
}

#[test]
fn a_minimal_row_image_leaves_out_columns_and_says_which_changed() {
    #[derive(Debug, PartialEq, Deserialize)]
    struct Account {
        id: u32,
        owner: Option<String>,
        cents: Option<i64>,
    }
    on_the_real_server_with("a_minimal_row_image", async |subject, database| {
        let script = "
            CREATE TABLE account (id INT UNSIGNED PRIMARY KEY, owner VARCHAR(20), cents BIGINT);
            SET SESSION binlog_row_image = MINIMAL;
            INSERT INTO account (id, cents) VALUES (1, 100);
            UPDATE account SET cents = 250 WHERE id = 1;
            DELETE FROM account WHERE id = 1";
        let mut follower = Follower::new(subject, database).await;
        let changes = follower.after(script).await;
        let rows: Vec<_> = changes
            .iter()
            .filter(|change| change.kind() == ChangeKind::Rows)
            .map(|change| {
                let row = change.rows::<Account>().next().unwrap();
                (change.event_type(), row, change.raw_rows().next().unwrap())
            })
            .collect();
        let kinds: Vec<_> = rows.iter().map(|(kind, ..)| *kind).collect();
        assert_eq!(
            kinds,
            [EventType::Insert, EventType::Update, EventType::Delete]
        );
        let (_, insert, _) = &rows[0];
        let account = |cents| Account {
            id: 1,
            owner: None,
            cents,
        };
        assert_eq!(insert.as_ref().unwrap().after, Some(account(Some(100))));
        // The image after an update has what was set, and not the key: a typed error for a type
        // that must have one, and the image before has it.
        let (_, update, raw) = &rows[1];
        let error = update.as_ref().unwrap_err();
        assert!(error.to_string().contains("id"), "{error}");
        assert_eq!(raw.before().get("id").unwrap().text(), Some("1"));
        assert!(raw.before().get("cents").is_none() && raw.after().get("owner").is_none());
        assert_eq!(raw.after().get("cents").unwrap().text(), Some("250"));
        let (_, delete, _) = &rows[2];
        assert_eq!(delete.as_ref().unwrap().before, Some(account(None)));
    });
}

#[test]
fn schema_changes_truncate_and_rename_are_classified() {
    on_the_real_server_with("schema_changes_are", async |subject, database| {
        let (schema, _) = subject.database.table();
        let mut follower = Follower::new(subject, database).await;
        let changes = follower
            .after_each(&[
                "CREATE TABLE a (id INT PRIMARY KEY, v INT)",
                "INSERT INTO a VALUES (1, 1)",
                "CREATE INDEX by_v ON a (v)",
                "TRUNCATE TABLE a",
                "DROP INDEX by_v ON a",
                "RENAME TABLE a TO b",
                "ALTER TABLE b ADD COLUMN w INT COMMENT 'ß'",
                "DROP TABLE b",
                &format!("CREATE DATABASE {schema}_other"),
                &format!("DROP DATABASE {schema}_other"),
            ])
            .await;
        let mut seen: Vec<_> = changes
            .iter()
            .map(|change| (change.event_type(), change.kind(), change.len()))
            // The schema's own beginning, should it be told twice.
            .skip_while(|(event_type, ..)| *event_type == EventType::Query)
            .collect();
        // A server sometimes delivers a statement several times in a row.
        seen.dedup();
        let schema_change = |event_type| (event_type, ChangeKind::SchemaChange, 0);
        assert_eq!(
            seen,
            [
                schema_change(EventType::Create),
                (EventType::Insert, ChangeKind::Rows, 1),
                schema_change(EventType::CreateIndex),
                schema_change(EventType::Truncate),
                schema_change(EventType::DropIndex),
                schema_change(EventType::Rename),
                schema_change(EventType::Alter),
                schema_change(EventType::Erase),
                // CREATE and DROP DATABASE.
                schema_change(EventType::Query),
            ]
        );
        let alter = changes.iter().find(|c| c.event_type() == EventType::Alter);
        assert!(
            alter.unwrap().sql().contains("COMMENT 'ß'"),
            "{:?}",
            alter.map(RowChange::sql)
        );
        assert_eq!(alter.unwrap().ddl_schema_name(), schema);
    });
}

#[test]
fn changes_in_statement_format_come_as_text_and_never_as_rows() {
    on_the_real_server_with("statement_format", async |subject, database| {
        let script = "
            CREATE TABLE a (id INT PRIMARY KEY);
            SET SESSION binlog_format = STATEMENT;
            INSERT INTO a VALUES (1), (2);
            UPDATE a SET id = 3 WHERE id = 2;
            DELETE FROM a WHERE id = 1";
        let mut follower = Follower::new(subject, database).await;
        let changes = follower.after(script).await;
        let statements: Vec<_> = changes
            .iter()
            .filter(|change| change.kind() == ChangeKind::Statement)
            .map(|change| (change.event_type(), change.sql().split(' ').next().unwrap()))
            .collect();
        let verbs: Vec<_> = statements.iter().map(|(_, verb)| *verb).collect();
        assert_eq!(verbs, ["INSERT", "UPDATE", "DELETE"], "{changes:?}");
        assert!(
            changes.iter().all(RowChange::is_empty),
            "no rows: {changes:?}"
        );
    });
}
