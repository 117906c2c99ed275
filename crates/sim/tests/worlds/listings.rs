//! Listings of all connections and sockets, a few at a time, while they come and go.

#![expect(clippy::unwrap_used, reason = "a world that cannot begin has failed")]

use core::net::SocketAddr;
use std::collections::{BTreeSet, HashSet};
use std::sync::mpsc::{Receiver, Sender, channel};

use net::netisr::Netisr;
use net::tcp::settings::Settings;
use net::tcp::tcb::State;
use net::tcp::{self, Connect, Id, IpTxParams, Listed, Listen, ListenerId};
use net::time::Duration;
use net::udp;
use sim::cable;
use sim::host::{Port, Spec};
use sim::mem::Rss;
use sim::plan::Family;
use sim::random::Random;
use sim::world::{HostId, Permit, World};

use crate::common::{BOOT, Shape, on, seeds};

const MS: Duration = Duration::from_millis(1);

/// A connection: its addresses, and whether it is live. The addresses of one that has ended can be reused.
type Key = (SocketAddr, SocketAddr, bool);
/// Keys of TCP and of UDP.
type Keys = [BTreeSet<Key>; 2];

/// Reply of a CPU: a page of each protocol and where the next one begins, and everything present in the same turn.
struct Answer {
    pages: [(Vec<Key>, Option<u128>); 2],
    all: Keys,
    states: Vec<State>,
}

/// Looks at one CPU again and again.
struct Looker {
    host: HostId,
    at: usize,
    to: Sender<Answer>,
    answers: Receiver<Answer>,
    walks: [Walk; 2],
}

/// One look at all that there is of a protocol.
#[derive(Default)]
struct Walk {
    from: u128,
    seen: Vec<Key>,
    /// Entries present at every page.
    stayed: Option<BTreeSet<Key>>,
    /// Entries present at any page.
    ever: BTreeSet<Key>,
}

/// Number of entries seen, so that the test is known to have seen some.
#[derive(Default)]
struct Seen {
    walks: usize,
    stayed: usize,
    passed_by: usize,
    states: HashSet<&'static str>,
}

impl Walk {
    /// Takes a page in, and judges the walk if it was the last one.
    fn take(&mut self, page: (Vec<Key>, Option<u128>), all: &BTreeSet<Key>, seen: &mut Seen) {
        self.seen.extend(page.0);
        self.ever.extend(all);
        self.stayed = Some(self.stayed.take().map_or_else(|| all.clone(), |stayed| &stayed & all));
        match page.1 {
            Some(next) => self.from = next,
            None => core::mem::take(self).judge(seen),
        }
    }

    fn judge(self, seen: &mut Seen) {
        let once: BTreeSet<Key> = self.seen.iter().copied().collect();
        assert_eq!(once.len(), self.seen.len(), "one was met twice");
        let stayed = self.stayed.unwrap_or_default();
        let missed: Vec<_> = stayed.difference(&once).collect();
        assert!(missed.is_empty(), "there all the time, and not met: {missed:?}");
        assert!(once.is_subset(&self.ever), "met, and never there");
        seen.walks += 1;
        seen.stayed += stayed.len();
        seen.passed_by += self.ever.len() - stayed.len();
    }
}

impl Looker {
    fn new(host: HostId, at: usize) -> Self {
        let (to, answers) = channel();
        Self { host, at, to, answers, walks: Default::default() }
    }

    /// Asks for a page of at most `limit`.
    fn ask(&self, world: &mut World, limit: usize) {
        let (to, [tcp, udp]) = (self.to.clone(), [self.walks[0].from, self.walks[1].from]);
        let asked = world.of(self.host).call(self.at, move |netisr| {
            let pages = [page(&connections(netisr, tcp, limit)), sockets(netisr, udp, limit)];
            let (all, states) = all(netisr);
            to.send(Answer { pages, all, states }).unwrap();
        });
        assert!(asked);
    }

    fn hear(&mut self, seen: &mut Seen) {
        for Answer { pages, all, states } in self.answers.try_iter() {
            seen.states.extend(states.into_iter().map(name));
            for ((walk, page), all) in self.walks.iter_mut().zip(pages).zip(&all) {
                walk.take(page, all, seen);
            }
        }
    }
}

fn connections(netisr: &Netisr, from: u128, limit: usize) -> (Vec<Listed>, Option<u128>) {
    netisr.cpu.tcp.as_ref().map_or((Vec::new(), None), |pcbs| {
        let (listed, next) = pcbs.page(from, limit, None);
        assert!(listed.len() <= limit);
        (listed, next)
    })
}

fn page((listed, next): &(Vec<Listed>, Option<u128>)) -> (Vec<Key>, Option<u128>) {
    let key = |listed: &Listed| (listed.ends.local(), listed.ends.remote(), listed.state != State::Closed);
    (listed.iter().map(key).collect(), *next)
}

fn sockets(netisr: &Netisr, from: u128, limit: usize) -> (Vec<Key>, Option<u128>) {
    let Some(sockets) = &netisr.cpu.udp else { return (Vec::new(), None) };
    let (listed, next) = sockets.page(u32::try_from(from).unwrap(), limit);
    assert!(listed.len() <= limit);
    let key = |listed: &udp::Listed| {
        (listed.addr, listed.ends.map_or(listed.addr, |ends| ends.remote()), listed.ends.is_some())
    };
    (listed.iter().map(key).collect(), next.map(u128::from))
}

/// All that there is on a CPU, which must be as much as it says.
fn all(netisr: &Netisr) -> (Keys, Vec<State>) {
    let (mut keys, mut states) = (Keys::default(), Vec::new());
    let mut from = Some(0);
    while let Some(at) = from {
        let listed = connections(netisr, at, tcp::PER_PAGE);
        states.extend(listed.0.iter().map(|listed| listed.state));
        let (listed, next) = page(&listed);
        keys[0].extend(listed);
        from = next;
    }
    assert_eq!(keys[0].len(), netisr.cpu.tcp.as_ref().map_or(0, |pcbs| pcbs.len()));
    let mut from = Some(0);
    while let Some(at) = from {
        let (listed, next) = sockets(netisr, at, usize::MAX);
        keys[1].extend(listed);
        from = next;
    }
    (keys, states)
}

fn name(state: State) -> &'static str {
    match state {
        State::SynReceived => "half open",
        State::TimeWait => "waits",
        State::Closed => "ended and held",
        State::SynSent => "begins",
        _ => "stands",
    }
}

/// Two hosts, and on each of their CPUs a program.
struct Churn {
    world: World,
    hosts: [HostId; 2],
    random: Random,
    listeners: Vec<ListenerId>,
    /// Connections held by programs: of each host on each CPU.
    held: [Vec<Vec<Id>>; 2],
    sockets: [Vec<Vec<udp::Id>>; 2],
    /// Ports that a client has had: another connection from one of them could not be told from the first.
    had: HashSet<(SocketAddr, SocketAddr)>,
}

impl Churn {
    fn new(seed: u64, cpus: u16) -> Self {
        let mut world = World::new("dumps", seed);
        world.allow(Permit::Loss);
        world.allow(Permit::Disorder);
        let cable = world.cable(cable::Spec { delay: 5 * MS, loss: 100_000, ..cable::Spec::default() });
        let shape = Shape { cpus, rings: cpus.into(), rss: Rss::Right };
        let hosts = [1, 2].map(|host| {
            let port = Port::new(cable, 1, host).rings(shape.rings, shape.rss);
            world.host(Spec::host(&format!("host{host}")).cpus(cpus).buffers(4096).port(port))
        });
        world.run_for(BOOT);
        let wants = Listen {
            addr: ([0_u16; 8], 80).into(),
            zone: 0,
            only_v6: false,
            backlog: 8,
            is_shared: false,
            settings: Settings::default(),
            tx_params: IpTxParams::default(),
        };
        let server = world.of(hosts[1]).cpus.iter_mut();
        let listeners = server.map(|cpu| tcp::listen(&mut cpu.netisr.cpu, &wants).unwrap()).collect();
        let nothing = || [(); 2].map(|()| vec![Vec::new(); cpus.into()]);
        let sockets = [(); 2].map(|()| vec![Vec::new(); cpus.into()]);
        let random = Random::new(seed ^ 0xd0);
        let mut churn =
            Self { world, hosts, random, listeners, held: nothing(), sockets, had: HashSet::new() };
        for _ in 0..10 {
            churn.connect(0);
        }
        // There is time to find the neighbour, if its answers are lost.
        churn.world.run_for(Duration::from_secs(5));
        churn
    }

    /// Runs the programs for a millisecond.
    fn step(&mut self) {
        for at in 0..self.listeners.len() {
            for _ in 0..self.random.below(3) {
                self.connect(at);
            }
            if self.random.chance(600_000) {
                let listener = self.listeners[at];
                let accepted = on(&mut self.world, self.hosts[1], at, |cpu| tcp::accept(cpu, listener));
                self.held[1][at].extend(accepted.ok().map(|accepted| accepted.id));
            }
            for host in 0..2 {
                self.let_go(host, at);
                self.use_sockets(host, at);
            }
        }
    }

    fn connect(&mut self, at: usize) {
        let family = self.random.pick(&Family::BOTH).unwrap();
        let (settings, tx_params) = (Settings::default(), IpTxParams::default());
        let remote = (family.addr(1, 2), 80).into();
        let wanted = Connect { remote, local: None, port: None, zone: 0, settings, tx_params };
        let Self { world, hosts, had, held, .. } = self;
        held[0][at].extend(on(world, hosts[0], at, |cpu| {
            let id = tcp::connect(cpu, &wanted).ok()?;
            let (ends, _) = tcp::connection(cpu, id)?;
            let is_new = had.insert((ends.local(), ends.remote()));
            if !is_new {
                tcp::abort(cpu, id).unwrap();
            }
            is_new.then_some(id)
        }));
    }

    /// A program closes one of its connections, or resets it, or says that it sends no more; or it does nothing, also if
    /// the connection has long ended.
    fn let_go(&mut self, host: usize, at: usize) {
        let Self { world, hosts, held, random, .. } = self;
        let held = &mut held[host][at];
        let (which, what) = (random.below(held.len()), random.below(4));
        if held.len() < 20 || what == 0 {
            return;
        }
        let id = held[which];
        on(world, hosts[host], at, |cpu| match what {
            1 => tcp::close(cpu, id),
            2 => tcp::abort(cpu, id),
            _ => tcp::shutdown(cpu, id),
        })
        .unwrap();
        if what < 3 {
            held.swap_remove(which);
        }
    }

    /// A program binds a socket, or connects one, or closes one.
    fn use_sockets(&mut self, host: usize, at: usize) {
        let Self { world, hosts, sockets, random, .. } = self;
        let mine = &mut sockets[host][at];
        let family = random.pick(&Family::BOTH).unwrap();
        let number = u8::try_from(host + 1).unwrap();
        let (local, remote) = (family.addr(1, number), (family.addr(1, 3 - number), 53).into());
        let (is_full, which, what) = (mine.len() >= 30, random.below(mine.len()), random.below(2));
        let settings = udp::Settings::default();
        mine.extend(on(world, hosts[host], at, |cpu| match (is_full, what) {
            (true, _) => None,
            (_, 0) => {
                let addr = (local, 0).into();
                udp::bind(cpu, &udp::Bind { addr, zone: 0, only_v6: false, is_shared: false, settings }).ok()
            }
            _ => {
                let wanted = udp::Connect { remote, local: None, port: None, zone: 0, settings };
                udp::connect(cpu, &wanted).ok()
            }
        }));
        if is_full {
            let id = mine.swap_remove(which);
            on(world, hosts[host], at, |cpu| udp::close(cpu, id)).unwrap();
        }
    }

    fn end(mut self) {
        for (host, held) in self.hosts.into_iter().zip(self.held) {
            for (at, ids) in held.into_iter().enumerate() {
                ids.into_iter()
                    .for_each(|id| on(&mut self.world, host, at, |cpu| tcp::abort(cpu, id)).unwrap());
            }
        }
        for (at, listener) in self.listeners.into_iter().enumerate() {
            on(&mut self.world, self.hosts[1], at, |cpu| tcp::unlisten(cpu, listener));
        }
        self.world.run_for(Duration::from_secs(130));
        self.world.finish();
    }
}

#[test]
fn a_paged_listing_shows_lasting_entries_once_and_none_twice_while_others_come_and_go() {
    for seed in seeds(2) {
        for cpus in [1, 2, 4, 8] {
            let mut churn = Churn::new(seed, cpus);
            let mut lookers: Vec<Looker> = Vec::new();
            for host in churn.hosts {
                lookers.extend((0..cpus.into()).map(|at| Looker::new(host, at)));
            }
            let mut seen = Seen::default();
            for _ in 0..300 {
                churn.step();
                for looker in &lookers {
                    looker.ask(&mut churn.world, 1 + churn.random.below(9));
                }
                churn.world.run_for(MS);
                lookers.iter_mut().for_each(|looker| looker.hear(&mut seen));
            }
            let states = ["half open", "waits", "ended and held", "begins", "stands"];
            assert!(states.iter().all(|state| seen.states.contains(state)), "{:?}", seen.states);
            assert!(seen.walks > 20 * usize::from(cpus), "{} walks", seen.walks);
            assert!(seen.stayed > 10 * seen.walks, "{} of {} walks stayed", seen.stayed, seen.walks);
            assert!(seen.passed_by > 5 * seen.walks, "{} passed by {} walks", seen.passed_by, seen.walks);
            churn.end();
        }
    }
}
