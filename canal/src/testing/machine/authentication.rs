//! The first request of a connection, whatever its type, is an authentication.

use bytes::Bytes;
use prost::Message;

use super::{Action, ConnectionId, Moment, Request, ServerMachine};
use crate::protocol::generated::packet::{ClientAuth, Packet};
use crate::protocol::password;
use crate::testing::reply;

impl ServerMachine {
    pub(super) fn authenticate(
        &mut self,
        id: ConnectionId,
        seeds: &[u8],
        frame: Bytes,
        now: Moment,
        actions: &mut Vec<Action>,
    ) {
        let request = Packet::decode(frame).and_then(|packet| ClientAuth::decode(packet.body));
        let Ok(request) = request else {
            return self.broken(id, actions);
        };
        let Some(fault) = self.fault_at(id, Some(Request::Authenticate), actions) else {
            return;
        };
        let accepted = match self.check_password(&request, seeds) {
            Ok(accepted) => accepted,
            Err(NotHexadecimal) => return self.broken(id, actions),
        };
        let refusal = format!("auth failed for user:{}", request.username);
        if !accepted && !self.settings.version.lets_everyone_in() {
            return self.error(id, 400, &refusal, fault, actions);
        }
        if self.subscribe_at_once(&request).is_err() {
            return self.broken(id, actions);
        }
        if let Some(connection) = self.connections.get_mut(&id) {
            let read = request.net_read_timeout.unwrap_or(0);
            let write = request.net_write_timeout.unwrap_or(0);
            connection.serve(read, write, now.instant);
            if accepted {
                self.answer(id, reply::success(), fault, actions);
            } else {
                // the missing `break` of 1.1.4 to 1.1.7
                connection.unsent.push_back(reply::success());
                self.error(id, 400, &refusal, fault, actions);
            }
        }
    }

    fn check_password(&self, request: &ClientAuth, seeds: &[u8]) -> Result<bool, NotHexadecimal> {
        if !self.settings.version.has_passwords() {
            return Ok(true);
        }
        let user = self.settings.user.is_empty() || self.settings.user == request.username;
        if self.settings.password.is_empty() {
            return Ok(user);
        }
        if !user || request.password.is_empty() {
            return Ok(false);
        }
        if request.password.len() != 40 || !request.password.iter().all(u8::is_ascii_hexdigit) {
            return Err(NotHexadecimal);
        }
        let expected = password::token(self.settings.password.as_bytes(), seeds);
        Ok(request.password.eq_ignore_ascii_case(expected.as_bytes()))
    }

    /// An authentication that names destination and client id subscribes too.
    fn subscribe_at_once(&mut self, request: &ClientAuth) -> Result<(), CannotSubscribe> {
        if request.destination.is_empty() || request.client_id.is_empty() {
            return Ok(());
        }
        let client = request.client_id.parse().map_err(|_| CannotSubscribe)?;
        self.destination(&request.destination)
            .ok_or(CannotSubscribe)?
            .subscribe(client, &request.filter)
            .map_err(|_| CannotSubscribe)
    }
}

/// The password is not hexadecimal text of 20 bytes; the real server closes without an answer.
struct NotHexadecimal;

/// The real server closes without an answer then.
struct CannotSubscribe;
