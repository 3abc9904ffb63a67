//! A leader, a standby, a caller and the coordination servers, each on a host of its own.

use std::collections::BTreeSet;

use super::caller::CALLER;
use super::child::Child;
use super::history::{self, Event};
use super::member::{BIND, MEMBER};
use super::network::{Network, Way};
use super::place::{Driver, Place};
use crate::real::address;
use crate::real::servers::{self, Ensemble, Server};

/// The members, by their hosts. The first one leads at the beginning.
pub(super) const LEADER: usize = 11;
pub(super) const STANDBY: usize = 12;
pub(super) const CALLER_HOST: usize = 13;
/// The first server's host; others follow it.
pub(super) const SERVER: usize = 1;

pub(super) struct Stage {
    // In this order they end: the processes before their hosts.
    leader: Child,
    standby: Child,
    caller: Child,
    pub(super) servers: Vec<Server>,
    pub(super) network: Network,
    test: String,
    history: Vec<Event>,
}

/// What the hosts of a test are to be.
pub(super) struct Setting {
    pub(super) driver: Driver,
    pub(super) servers: usize,
    /// The environment of the members and of the servers' processes.
    pub(super) environment: Vec<(&'static str, String)>,
}

impl Setting {
    pub(super) fn of(driver: Driver) -> Self {
        Setting {
            driver,
            servers: 1,
            environment: Vec::new(),
        }
    }
}

/// Both ways between two hosts.
pub(super) fn between(one: usize, other: usize) -> [Way; 2] {
    [(one, other), (other, one)]
}

impl Stage {
    /// One that serves and is called. `None` after saying that the test is skipped.
    pub(super) fn open(test: &str, setting: &Setting) -> Option<Self> {
        let variable = match setting.driver {
            Driver::Etcd => "LOCKKEEPER_ETCD",
            Driver::ZooKeeper => "LOCKKEEPER_ZOOKEEPER",
        };
        address(variable, test)?;
        let hosts = SERVER..SERVER + setting.servers;
        let mut all: Vec<usize> = hosts.clone().collect();
        all.extend([LEADER, STANDBY, CALLER_HOST]);
        let network = Network::new(test, &all)?;
        let mut servers: Vec<Server> = hosts.map(|host| server(&network, setting, host)).collect();
        servers.iter_mut().for_each(Server::start);
        let addresses: Vec<String> = servers.iter().map(|found| found.address.clone()).collect();
        let place = Place::new(setting.driver, &addresses);
        let start = |part: &str, variable: &'static str, host: usize| {
            let mut environment = setting.environment.clone();
            environment.push((variable, place.to_text()));
            environment.push((BIND, format!("{}:7000", Network::address(host))));
            let part = format!("real::partition::{part}");
            Child::start(&part, &network.namespace(host), &environment)
        };
        let leader = start("member::member", MEMBER, LEADER);
        leader.await_word("serving");
        let standby = start("member::member", MEMBER, STANDBY);
        let caller = start("caller::caller", CALLER, CALLER_HOST);
        let mut stage = Stage {
            leader,
            standby,
            caller,
            servers,
            network,
            test: test.to_owned(),
            history: Vec::new(),
        };
        stage.await_calls(20);
        Some(stage)
    }

    /// Until so many more calls have been answered with a value.
    pub(super) fn await_calls(&mut self, count: usize) {
        self.await_events(count, |event| matches!(event, Event::Done { .. }));
    }

    /// Until so many more calls had another end.
    pub(super) fn await_failures(&mut self, count: usize) {
        self.await_events(count, |event| {
            matches!(event, Event::Refused { .. } | Event::Unknown { .. })
        });
    }

    /// Until so many calls in a row, begun after now, had another end: nobody serves.
    pub(super) fn await_silence(&mut self, count: usize) {
        let mut in_a_row = 0;
        while in_a_row < count {
            match self.next_event() {
                Event::Done { .. } => in_a_row = 0,
                Event::Refused { .. } | Event::Unknown { .. } => in_a_row += 1,
                Event::Writes { .. } | Event::Reads { .. } => {}
            }
        }
    }

    fn await_events(&mut self, count: usize, counts: impl Fn(&Event) -> bool) {
        let mut left = count;
        while left > 0 {
            left -= usize::from(counts(&self.next_event()));
        }
    }

    fn next_event(&mut self) -> Event {
        let told = self.caller.told();
        let event = Event::from_text(&told).unwrap_or_else(|| panic!("the caller tells {told:?}"));
        self.history.push(event.clone());
        event
    }

    /// Until the other one serves.
    pub(super) fn await_standby(&self) {
        self.standby.await_word("serving");
    }

    /// Seconds since 1970 on the leader's wall clock.
    pub(super) fn leaders_wall_clock(&mut self) -> u64 {
        self.leader.order("clock");
        self.leader.await_word("clock").parse().unwrap()
    }

    /// Ends the calls and judges all of them. At least so many epochs have served.
    pub(super) fn judge(mut self, epochs: usize) {
        self.caller.finish();
        loop {
            let told = self.caller.told();
            match Event::from_text(&told) {
                Some(event) => self.history.push(event),
                None => break,
            }
        }
        let count = |wanted: fn(&Event) -> bool| self.history.iter().filter(|&e| wanted(e)).count();
        let done = count(|event| matches!(event, Event::Done { .. }));
        let unknown = count(|event| matches!(event, Event::Unknown { .. }));
        let refused = count(|event| matches!(event, Event::Refused { .. }));
        let served: BTreeSet<u64> = self
            .history
            .iter()
            .filter_map(|event| match event {
                Event::Done { epoch, .. } => Some(*epoch),
                _ => None,
            })
            .collect();
        println!("{done} calls done, {refused} refused, {unknown} unknown; epochs {served:?}");
        assert!(served.len() >= epochs, "only {served:?} have served");
        if let Err(fault) = history::check(&self.history) {
            let lines: Vec<String> = self.history.iter().map(Event::to_text).collect();
            panic!("{}: {fault}\n{}", self.test, lines.join("\n"));
        }
    }
}

fn server(network: &Network, setting: &Setting, host: usize) -> Server {
    let namespace = Some(network.namespace(host));
    let own = Network::address(host);
    match setting.driver {
        Driver::Etcd => servers::etcd(format!("{own}:2379"), namespace, None),
        Driver::ZooKeeper => {
            let mut members = Vec::new();
            if setting.servers > 1 {
                let hosts = SERVER..SERVER + setting.servers;
                members.extend(hosts.map(|host| (host, Network::address(host))));
            }
            let ensemble = Ensemble { own: host, members };
            let environment = setting.environment.clone();
            servers::zookeeper(format!("{own}:2181"), namespace, ensemble, environment)
        }
    }
}
