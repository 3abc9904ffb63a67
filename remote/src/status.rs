//! What a console shows of a service's connections.

use lockkeeper_core::status::{
    Level, Plot, StatusKind, StatusSnapshot, StatusSource, StatusTable, StatusValue, Unit,
};

use crate::link::{LinkHandle, Role};
use crate::shared::Shared;

/// Sessions that are shown one by one.
const SESSIONS: usize = 200;

impl StatusSource for Shared {
    fn name(&self) -> String {
        format!("connections of {}", self.authority)
    }

    fn snapshot(&self) -> StatusSnapshot {
        let links = self.peers.all();
        let refusals = self.refusals.seen();
        let sum = |of: fn(&LinkHandle) -> u64| links.iter().map(|link| of(link)).sum::<u64>();
        let calls = |of: fn(&LinkHandle) -> usize| links.iter().map(|link| of(link)).sum::<usize>();
        let mut connections = StatusTable::new("connections", COLUMNS);
        let columns = [
            ("endpoint", Unit::None),
            ("at", Unit::None),
            ("gateway", Unit::None),
            ("messages of credit", Unit::None),
            ("bytes of credit", Unit::Bytes),
            ("asks of room", Unit::None),
        ];
        let mut sessions = StatusTable::new("sessions at peers", columns);
        for link in &links {
            connections = connections.with_row(connection(link));
            for asked in link.sessions().into_iter().take(SESSIONS) {
                let (messages, bytes) = asked.credit_left();
                sessions = sessions.with_row([
                    StatusValue::from(asked.endpoint.to_string()),
                    name(link).into(),
                    asked.gateway.name.into(),
                    u64::try_from(messages).unwrap_or(0).into(),
                    u64::try_from(bytes).unwrap_or(0).into(),
                    asked.asks.left().into(),
                ]);
            }
        }
        sessions.rows.truncate(SESSIONS);
        let (level, state) = match links.len() {
            0 => (Level::Neutral, "no connection".to_owned()),
            1 => (Level::Good, "1 connection".to_owned()),
            more => (Level::Good, format!("{more} connections")),
        };
        let mut snapshot = StatusSnapshot::new(StatusKind::Connections)
            .with_state(state, level)
            .with("bound", self.bound.to_string())
            .with("connections", links.len())
            .with_plot(
                "sent",
                sum(|link| link.traffic().bytes().0),
                Unit::Bytes,
                Plot::Rate,
            )
            .with_plot(
                "received",
                sum(|link| link.traffic().bytes().1),
                Unit::Bytes,
                Plot::Rate,
            )
            .with("calls in flight to peers", calls(|link| link.in_flight().0))
            .with(
                "calls in flight from peers",
                calls(|link| link.in_flight().1),
            );
        for (reason, count) in refusals.counts {
            snapshot = snapshot.with(format!("refused: {reason}"), count);
        }
        if let Some(last) = refusals.last {
            snapshot = snapshot.with("last refusal", last);
        }
        snapshot.with_table(connections).with_table(sessions)
    }
}

const COLUMNS: [(&str, Unit); 9] = [
    ("peer", Unit::None),
    ("state", Unit::None),
    ("dialled by", Unit::None),
    ("last ping took", Unit::Seconds),
    ("sent", Unit::Bytes),
    ("received", Unit::Bytes),
    ("calls to it", Unit::None),
    ("calls from it", Unit::None),
    ("version", Unit::None),
];

fn connection(link: &LinkHandle) -> [StatusValue; 9] {
    let peer = link.peer();
    let is_usable = link.is_usable();
    let (sent, received) = link.traffic().bytes();
    let (to_peer, from_peer) = link.in_flight();
    let dialled = match peer.role {
        Role::Dialler => "this process",
        Role::Acceptor => "the peer",
    };
    let round_trip = link.traffic().round_trip();
    [
        name(link).into(),
        if is_usable { "in use" } else { "being left" }.into(),
        dialled.into(),
        // A connection that is never silent is never pinged.
        round_trip.map_or_else(|| "not pinged".into(), |time| time.as_secs_f64().into()),
        sent.into(),
        received.into(),
        to_peer.into(),
        from_peer.into(),
        peer.application.as_str().into(),
    ]
}

/// Where the peer can be dialled, or else its socket.
fn name(link: &LinkHandle) -> String {
    let peer = link.peer();
    let listening = peer.listening.as_ref();
    listening.map_or_else(|| peer.socket.to_string(), ToString::to_string)
}
