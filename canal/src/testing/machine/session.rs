//! The requests of an authenticated connection.

use bytes::Bytes;
use prost::Message;

use super::{Action, Busy, ConnectionId, Fault, Refusal, Request, ServerMachine};
use crate::protocol::generated::packet::{
    ClientAck, ClientRollback, Get, Packet, PacketType, Sub, Unsub,
};
use crate::testing::destination::{Destination, GetRequest, Locked};
use crate::testing::reply;

/// What a request came to, as far as it is known at once.
enum Served {
    Silent,
    Success,
    /// It waits for the destination's lock.
    Queued,
}

/// Who asks, from the fields that all requests have.
struct Asking<'r> {
    destination: &'r str,
    client_id: &'r str,
}

impl ServerMachine {
    pub(super) fn request(&mut self, id: ConnectionId, frame: Bytes, actions: &mut Vec<Action>) {
        let Ok(packet) = Packet::decode(frame) else {
            return self.broken(id, actions);
        };
        let kind = PacketType::try_from(packet.r#type);
        let Some(fault) = self.fault_at(id, request_of(kind), actions) else {
            return;
        };
        if kind == Ok(PacketType::Heartbeat) {
            self.counts.heartbeats += 1;
        }
        let served = match kind {
            Ok(PacketType::Subscription) => self.subscribe(packet.body),
            Ok(PacketType::Unsubscription) => self.unsubscribe(packet.body),
            Ok(PacketType::Get) => self.get(id, packet.body),
            Ok(PacketType::ClientAck) => self.ack(packet.body),
            Ok(PacketType::ClientRollback) => self.rollback(id, packet.body),
            Ok(other) => Err(Refusal::UnsupportedType(java_name(other))),
            Err(_) => Err(Refusal::UnsupportedType("UNRECOGNIZED")),
        };
        match served {
            Ok(Served::Queued) => self.wait_for_lock(id, fault),
            Ok(Served::Silent) => self.silent(id, fault, actions),
            Ok(Served::Success) => self.answer(id, reply::success(), fault, actions),
            Err(refusal) => self.refuse(id, &refusal, fault, actions),
        }
    }

    fn wait_for_lock(&mut self, id: ConnectionId, fault: Option<Fault>) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.busy = Busy::Locked(fault);
        }
    }

    fn subscribe(&mut self, body: Bytes) -> Result<Served, Refusal> {
        let request: Sub = read(body)?;
        let (destination, client) = self.asked(&Asking {
            destination: &request.destination,
            client_id: &request.client_id,
        })?;
        count(destination, |destination| {
            destination.subscribe(client, &request.filter)
        })?;
        Ok(Served::Success)
    }

    fn unsubscribe(&mut self, body: Bytes) -> Result<Served, Refusal> {
        let request: Unsub = read(body)?;
        let (destination, client) = self.asked(&Asking {
            destination: &request.destination,
            client_id: &request.client_id,
        })?;
        count(destination, |destination| destination.unsubscribe(client))?;
        Ok(Served::Success)
    }

    fn get(&mut self, id: ConnectionId, body: Bytes) -> Result<Served, Refusal> {
        let request: Get = read(body)?;
        let (destination, client) = self.asked(&Asking {
            destination: &request.destination,
            client_id: &request.client_id,
        })?;
        count(destination, |destination| {
            destination.check_subscribed(client)?;
            let request = GetRequest::of(&request);
            destination.enqueue(
                id,
                Locked::Get {
                    client,
                    request,
                    since: None,
                },
            );
            Ok(Served::Queued)
        })
    }

    fn ack(&mut self, body: Bytes) -> Result<Served, Refusal> {
        let request: ClientAck = read(body)?;
        let (destination, client) = self.asked(&Asking {
            destination: &request.destination,
            client_id: &request.client_id,
        })?;
        count(destination, |destination| {
            destination.ack(client, request.batch_id)
        })?;
        Ok(Served::Silent)
    }

    fn rollback(&mut self, id: ConnectionId, body: Bytes) -> Result<Served, Refusal> {
        let request: ClientRollback = read(body)?;
        let (destination, client) = self.asked(&Asking {
            destination: &request.destination,
            client_id: &request.client_id,
        })?;
        count(destination, |destination| {
            destination.check_running()?;
            if !destination.is_subscribed(client) {
                return Ok(Served::Silent);
            }
            let batch = (request.batch_id != 0).then_some(request.batch_id);
            destination.enqueue(id, Locked::Rollback { client, batch });
            Ok(Served::Queued)
        })
    }

    /// The destination and the client id of a request.
    fn asked(&mut self, asking: &Asking<'_>) -> Result<(&mut Destination, i16), Refusal> {
        if asking.destination.is_empty() || asking.client_id.is_empty() {
            return Err(Refusal::DestinationOrClientIdMissing);
        }
        let client = asking
            .client_id
            .parse()
            .map_err(|_| Refusal::NotANumber(asking.client_id.to_owned()))?;
        let destination = self
            .destination(asking.destination)
            .ok_or_else(|| Refusal::ShouldStartFirst(asking.destination.to_owned()))?;
        Ok((destination, client))
    }
}

fn request_of(kind: Result<PacketType, prost::UnknownEnumValue>) -> Option<Request> {
    match kind {
        Ok(PacketType::Subscription) => Some(Request::Subscribe),
        Ok(PacketType::Unsubscription) => Some(Request::Unsubscribe),
        Ok(PacketType::Get) => Some(Request::Get),
        Ok(PacketType::ClientAck) => Some(Request::Ack),
        Ok(PacketType::ClientRollback) => Some(Request::Rollback),
        _ => None,
    }
}

/// The type's name as the real server's text has it.
fn java_name(kind: PacketType) -> &'static str {
    match kind {
        PacketType::CompatibleProto2 => "PACKAGETYPECOMPATIBLEPROTO2",
        PacketType::Handshake => "HANDSHAKE",
        PacketType::ClientAuthentication => "CLIENTAUTHENTICATION",
        PacketType::Ack => "ACK",
        PacketType::Subscription => "SUBSCRIPTION",
        PacketType::Unsubscription => "UNSUBSCRIPTION",
        PacketType::Get => "GET",
        PacketType::Messages => "MESSAGES",
        PacketType::ClientAck => "CLIENTACK",
        PacketType::Shutdown => "SHUTDOWN",
        PacketType::Dump => "DUMP",
        PacketType::Heartbeat => "HEARTBEAT",
        PacketType::ClientRollback => "CLIENTROLLBACK",
    }
}

fn read<M: Message + Default>(body: Bytes) -> Result<M, Refusal> {
    M::decode(body).map_err(|error| Refusal::Unparsable(error.to_string()))
}

/// Serves a request and counts it at its destination if it is refused.
fn count<T>(
    destination: &mut Destination,
    serve: impl FnOnce(&mut Destination) -> Result<T, Refusal>,
) -> Result<T, Refusal> {
    let served = serve(destination);
    if served.is_err() {
        destination.count_refusal();
    }
    served
}
