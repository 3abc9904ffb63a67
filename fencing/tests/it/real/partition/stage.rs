//! A leader, a standby, a caller and the coordination servers, each on a host of its own.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use lockkeeper_fencing::clock::{Clock, SystemClock};

use super::caller::{CALLER, NUMBER};
use super::child::Child;
use super::history::{self, Event, Timed};
use super::member::{BIND, MEMBER};
use super::network::{Network, Way};
use super::place::{Driver, Place};
use crate::real::address;
use crate::real::servers::{self, Ensemble, Server};

/// The members, by their hosts. The first one leads at the beginning, and whenever
/// [`Stage::let_the_first_lead`] returns.
pub(super) const LEADER: usize = 11;
pub(super) const STANDBY: usize = 12;
/// The first caller's host; others follow it.
pub(super) const CALLER_HOST: usize = 13;
/// The first server's host; others follow it.
pub(super) const SERVER: usize = 1;

/// An upper bound against hanging, not a measure: callers tell of failures for as long as nobody serves.
const LIMIT: Duration = Duration::from_secs(120);

pub(super) struct Stage {
    // In this order they end: the processes before their hosts.
    leader: Child,
    standby: Child,
    /// The newest epoch under which the leader has served.
    leaders_epoch: u64,
    callers: Vec<Child>,
    pub(super) servers: Vec<Server>,
    pub(super) network: Network,
    test: String,
    history: Vec<Timed>,
}

/// What the hosts of a test are to be.
pub(super) struct Setting {
    pub(super) driver: Driver,
    pub(super) servers: usize,
    pub(super) callers: usize,
    pub(super) session: Duration,
    /// The environment of the members and of the servers' processes.
    pub(super) environment: Vec<(&'static str, String)>,
}

impl Setting {
    pub(super) fn of(driver: Driver) -> Self {
        Setting {
            driver,
            servers: 1,
            callers: 1,
            session: Duration::from_secs(2),
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
        all.extend([LEADER, STANDBY]);
        all.extend(CALLER_HOST..CALLER_HOST + setting.callers);
        let network = Network::new(test, &all)?;
        let mut servers: Vec<Server> = hosts.map(|host| server(&network, setting, host)).collect();
        servers.iter_mut().for_each(Server::start);
        let addresses: Vec<String> = servers.iter().map(|found| found.address.clone()).collect();
        let place = Place::new(setting.driver, &addresses, setting.session);
        let start = |part: &str, variable: &'static str, host: usize| {
            let mut environment = setting.environment.clone();
            environment.push((variable, place.to_text()));
            environment.push((NUMBER, host.saturating_sub(CALLER_HOST).to_string()));
            environment.push((BIND, format!("{}:7000", Network::address(host))));
            let part = format!("real::partition::{part}");
            Child::start(&part, &network.namespace(host), &environment)
        };
        let leader = start("member::member", MEMBER, LEADER);
        let leaders_epoch = leader.await_word("serving").parse().unwrap();
        let standby = start("member::member", MEMBER, STANDBY);
        let callers = CALLER_HOST..CALLER_HOST + setting.callers;
        let callers = callers.map(|host| start("caller::caller", CALLER, host));
        let mut stage = Stage {
            leader,
            standby,
            leaders_epoch,
            callers: callers.collect(),
            servers,
            network,
            test: test.to_owned(),
            history: Vec::new(),
        };
        for caller in 0..setting.callers {
            stage.await_calls_of(caller, 20);
        }
        Some(stage)
    }

    /// Until so many more calls of the first caller have been answered with a value.
    pub(super) fn await_calls(&mut self, count: usize) {
        self.await_calls_of(0, count);
    }

    pub(super) fn await_calls_of(&mut self, caller: usize, count: usize) {
        self.await_events(caller, count, |event| matches!(event, Event::Done { .. }));
    }

    /// Until so many more calls had another end.
    pub(super) fn await_failures(&mut self, count: usize) {
        self.await_events(0, count, |event| {
            matches!(event, Event::Refused { .. } | Event::Unknown { .. })
        });
    }

    /// Until so many calls in a row had another end: nobody serves.
    pub(super) fn await_silence(&mut self, count: usize) {
        let mut begun = Begun::from_now();
        let mut in_a_row = 0;
        while in_a_row < count {
            match begun.ended(&self.next_event(0)) {
                Some(Event::Done { .. }) => in_a_row = 0,
                Some(_) => in_a_row += 1,
                None => {}
            }
            self.assert_is_in_time(begun.since, "calls are still answered");
        }
    }

    fn await_events(&mut self, caller: usize, count: usize, counts: impl Fn(&Event) -> bool) {
        let mut begun = Begun::from_now();
        let mut left = count;
        while left > 0 {
            let next = self.next_event(caller);
            left -= usize::from(begun.ended(&next).is_some_and(&counts));
            self.assert_is_in_time(begun.since, "too few calls ended as they should");
        }
    }

    fn assert_is_in_time(&self, since: Instant, what: &str) {
        let last = &self.history[self.history.len().saturating_sub(20)..];
        assert!(
            since.elapsed() < LIMIT,
            "{}: {what} within {LIMIT:?}; the last events: {last:#?}",
            self.test
        );
    }

    fn next_event(&mut self, caller: usize) -> Timed {
        let told = self.callers[caller].told();
        let timed = Timed::from_text(&told).unwrap_or_else(|| panic!("a caller tells {told:?}"));
        self.history.push(timed.clone());
        timed
    }

    /// A session may end on a busy machine before a test begins what it is for: then the standby leads.
    pub(super) fn let_the_first_lead(&mut self) {
        let newest = |member: &Child| Some(member.newest_word("serving")?.parse::<u64>().unwrap());
        self.leaders_epoch = newest(&self.leader).unwrap_or(self.leaders_epoch);
        if newest(&self.standby).is_some_and(|epoch| epoch > self.leaders_epoch) {
            let away = between(STANDBY, SERVER);
            self.network.cut(&away);
            self.leaders_epoch = self.leader.await_word("serving").parse().unwrap();
            self.network.mend(&away);
        }
    }

    /// Until the other one serves, after the first one.
    pub(super) fn await_standby(&self) {
        let serving = || self.standby.await_word("serving").parse::<u64>().unwrap();
        while serving() < self.leaders_epoch {}
    }

    /// Seconds since 1970 on the leader's wall clock.
    pub(super) fn leaders_wall_clock(&mut self) -> u64 {
        self.leader.order("clock");
        self.leader.await_word("clock").parse().unwrap()
    }

    /// Ends the calls and judges all of them. At least so many epochs have served.
    pub(super) fn judge(self, epochs: usize) {
        let test = self.test.clone();
        let history = self.finish(epochs);
        if let Err(fault) = history::check(&history) {
            panic!("{test}: {fault}\n{history:#?}");
        }
    }

    /// Ends the calls: all of them, in the order in which they happened.
    pub(super) fn finish(mut self, epochs: usize) -> Vec<Event> {
        for caller in &mut self.callers {
            caller.finish();
            while let Some(timed) = Timed::from_text(&caller.told()) {
                self.history.push(timed);
            }
        }
        self.history.sort_by_key(|timed| timed.nanoseconds);
        let history: Vec<Event> = self.history.drain(..).map(|timed| timed.event).collect();
        let count = |wanted: fn(&Event) -> bool| history.iter().filter(|&e| wanted(e)).count();
        let done = count(|event| matches!(event, Event::Done { .. }));
        let unknown = count(|event| matches!(event, Event::Unknown { .. }));
        let refused = count(|event| matches!(event, Event::Refused { .. }));
        let served = history.iter().filter_map(|event| match event {
            Event::Done { epoch, .. } => Some(*epoch),
            _ => None,
        });
        let served: BTreeSet<u64> = served.collect();
        println!("{done} calls done, {refused} refused, {unknown} unknown; epochs {served:?}");
        assert!(served.len() >= epochs, "only {served:?} have served");
        history
    }
}

/// The calls that were begun after a moment: what is told may have happened a while ago.
struct Begun {
    since: Instant,
    from: u128,
    calls: BTreeSet<u64>,
}

impl Begun {
    fn from_now() -> Self {
        Begun {
            since: Instant::now(),
            from: SystemClock.now().elapsed().as_nanos(),
            calls: BTreeSet::new(),
        }
    }

    /// How one of them has ended, if this is it.
    fn ended<'a>(&mut self, timed: &'a Timed) -> Option<&'a Event> {
        let event = &timed.event;
        match event {
            Event::Writes { call, .. } | Event::Reads { call, .. } => {
                if timed.nanoseconds > self.from {
                    self.calls.insert(*call);
                }
                None
            }
            ended => self.calls.contains(&ended.call()).then_some(ended),
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
