//! A counter in the database that only grows: when it runs backwards, the database was set back.

use std::fmt;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::{Client, Cmd, Connection, FromRedisValue, cmd};

/// The counter as one open store sees it.
pub(super) struct Clock {
    client: Client,
    key: String,
    timeout: Duration,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    connection: Option<Connection>,
    highest: u64,
    /// What was found after the database was set back. It stays: the counter grows again.
    fault: Option<String>,
}

impl Clock {
    pub(super) fn new(url: &str, key: String, timeout: Duration) -> io::Result<Self> {
        Ok(Self {
            client: Client::open(url).map_err(io::Error::other)?,
            key,
            timeout,
            seen: Mutex::default(),
        })
    }

    /// Counts a write that is about to come.
    pub(super) fn tick(&self) -> io::Result<()> {
        let mut seen = self.seen();
        seen.check()?;
        let count: u64 = self.ask(&mut seen, cmd("INCR").arg(&self.key))?;
        // Others count too, and none of two counts is the same.
        let least = seen.highest.saturating_add(1);
        seen.saw(count, least)
    }

    /// Looks whether the counter has what it had.
    pub(super) fn look(&self) -> io::Result<()> {
        let mut seen = self.seen();
        seen.check()?;
        let count: Option<u64> = self.ask(&mut seen, cmd("GET").arg(&self.key))?;
        let least = seen.highest;
        seen.saw(count.unwrap_or(0), least)
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(|poisoned| {
            // In the middle of an answer the connection is not to be used again.
            self.seen.clear_poison();
            let mut seen = PoisonError::into_inner(poisoned);
            seen.connection = None;
            seen
        })
    }

    fn ask<T: FromRedisValue>(&self, seen: &mut Seen, command: &Cmd) -> io::Result<T> {
        let mut connection = match seen.connection.take() {
            Some(connection) => connection,
            None => self.connect()?,
        };
        // After an error the connection is given up: a late answer could be taken for the next one.
        let answer = command.query(&mut connection).map_err(io::Error::other)?;
        seen.connection = Some(connection);
        Ok(answer)
    }

    fn connect(&self) -> io::Result<Connection> {
        let opened = self.client.get_connection_with_timeout(self.timeout);
        let connection = opened.map_err(io::Error::other)?;
        let limit = Some(self.timeout);
        connection
            .set_read_timeout(limit)
            .and_then(|()| connection.set_write_timeout(limit))
            .map_err(io::Error::other)?;
        Ok(connection)
    }
}

impl Seen {
    fn check(&self) -> io::Result<()> {
        match &self.fault {
            Some(fault) => Err(io::Error::new(io::ErrorKind::InvalidData, fault.clone())),
            None => Ok(()),
        }
    }

    fn saw(&mut self, count: u64, least: u64) -> io::Result<()> {
        if count < least {
            self.fault = Some(format!(
                "the Redis database was set back: its counter stands at {count} and was at {}; a copy was \
                 restored, a replica promoted or keys were deleted. Decide whether the region may go on \
                 from what is there, then open the store anew",
                self.highest
            ));
            return self.check();
        }
        self.highest = count;
        Ok(())
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the client: its URL may hold a password.
        formatter
            .debug_struct("Clock")
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}
