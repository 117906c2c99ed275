//! Programs' threads that speak UDP over channels, on hosts of one and of many CPUs.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::sync::atomic::{AtomicBool, Ordering};
use std::collections::BTreeMap;
use std::sync::Arc;

use net::channel::datagram::{self, Head, SendParams};
use net::channel::{Bind, Channel, Client, Command, Event, Question, Setting, Size, Target, channel};
use net::count::Count;
use net::drop::DropReason;
use net::sock::Error;
use net::time::Duration;
use pkt::byte_channel::{Reader, Writer};
use pkt::wake::Sleeper;
use sim::cable;
use sim::host::{Port, Spec};
use sim::plan::Family;
use sim::random::Random;
use sim::world::{HostId, Permit, World};

use crate::common::{BOOT, Shape, seeds};

const PORT: u16 = 5300;
const SIZE: Size = Size { lanes: 16, lane_bytes: 4096 };
/// Datagrams that each socket sends.
const COUNT: u32 = 60;
/// Bytes of the longest.
const LONGEST: usize = 1400;

/// A socket of a program: a lane on each CPU of its host, or on some.
struct Socket {
    lanes: BTreeMap<usize, (Writer, Reader)>,
    /// Datagrams sent, and those received by sender.
    sent: u32,
    heard: BTreeMap<SocketAddr, Vec<u32>>,
    failed: Vec<Error>,
}

/// A program: channels to all CPUs of a host, looked at by hand. It sleeps in between, so that a wake-up that is lost is seen.
struct App {
    clients: Vec<Client>,
    sockets: Vec<Socket>,
    /// Which socket a lane is of.
    of: BTreeMap<(usize, u32), usize>,
    answers: BTreeMap<u32, Result<SocketAddr, Error>>,
    serial: u32,
    /// Echoes.
    echoes: bool,
    /// It reads nothing.
    is_deaf: bool,
    sleeper: Sleeper,
    bell: Arc<AtomicBool>,
    is_asleep: bool,
    random: Random,
}

impl App {
    fn new(world: &mut World, host: HostId) -> Self {
        let bell = Arc::<AtomicBool>::default();
        let rung = Arc::clone(&bell);
        let sleeper = Sleeper::new(Box::new(move || rung.store(true, Ordering::Relaxed)));
        let random = world.random().fork();
        let cpus = world.of(host).cpus.len();
        let open = |cpu| {
            let (mut client, far): (Client, Channel) = channel(SIZE, sleeper.waker()).unwrap();
            client.attach(world.of(host).open(cpu, Box::new(far)).unwrap());
            client
        };
        let clients = (0..cpus).map(open).collect();
        Self {
            clients,
            sockets: Vec::new(),
            of: BTreeMap::new(),
            answers: BTreeMap::new(),
            serial: 0,
            echoes: false,
            is_deaf: false,
            sleeper,
            bell,
            is_asleep: false,
            random,
        }
    }

    /// Binds a socket on these CPUs, and answers the numbers of the answers.
    fn bind(&mut self, cpus: core::ops::Range<usize>, addr: SocketAddr) -> Vec<u32> {
        let mut serials = Vec::new();
        let mut lanes = BTreeMap::new();
        for cpu in cpus {
            let lane = self.clients[cpu].take_lane().unwrap();
            let question = self.question(lane.0.lane());
            self.of.insert((cpu, question.lane), self.sockets.len());
            let place = Bind { addr, zone: 0, only_v6: false, is_shared: false, bind_any: false, device: 0 };
            self.clients[cpu].push(&Command::Bind(question, place));
            let buffer = Setting::ReceiveBuffer(1 << 20);
            self.clients[cpu].push(&Command::Set(Target::Lane(question.lane), buffer));
            lanes.insert(cpu, lane);
            serials.push(question.serial);
        }
        let socket = Socket { lanes, sent: 0, heard: BTreeMap::new(), failed: Vec::new() };
        self.sockets.push(socket);
        self.wake();
        serials
    }

    fn question(&mut self, lane: u32) -> Question {
        self.serial += 1;
        Question { lane, serial: self.serial }
    }

    /// A CPU's lane of a socket speaks with one other end.
    fn speak(&mut self, socket: usize, cpu: usize, remote: SocketAddr) -> u32 {
        let lane = self.sockets[socket].lanes[&cpu].0.lane();
        let question = self.question(lane);
        self.clients[cpu].push(&Command::Speak { question, remote, zone: 0 });
        self.wake();
        question.serial
    }

    fn wake(&mut self) {
        self.clients.iter_mut().for_each(|client| client.publish().unwrap());
        self.bell.store(true, Ordering::Relaxed);
    }

    /// Sends a numbered datagram of a length that follows from its number; false if there is no room.
    fn send(&mut self, at: usize, cpu: usize, to: Option<SocketAddr>) -> bool {
        let socket = &mut self.sockets[at];
        let bytes = numbered(socket.sent);
        let head = Head {
            peer: to,
            zone: 0,
            local: None,
            len: u16::try_from(bytes.len()).unwrap(),
            how: SendParams::default(),
        };
        let (tx, _) = socket.lanes.get_mut(&cpu).unwrap();
        if !datagram::put(tx, &head, [&bytes, &[]]).unwrap() {
            // Without notification here: it is tried again.
            let _ = tx.waits_for(datagram::room(bytes.len())).unwrap();
            return false;
        }
        socket.sent += 1;
        if tx.publish() {
            let look = Command::Look(tx.lane());
            self.clients[cpu].push(&look);
        }
        self.clients[cpu].publish().unwrap();
        true
    }

    /// Does what there is to do, unless it sleeps.
    fn step(&mut self) {
        if self.is_asleep && !self.bell.swap(false, Ordering::Relaxed) {
            return;
        }
        if core::mem::take(&mut self.is_asleep) {
            self.sleeper.woken();
        }
        for cpu in 0..self.clients.len() {
            while let Some(event) = self.clients[cpu].next_event().unwrap() {
                self.hear(cpu, event);
            }
        }
        let all_read = self.is_deaf || self.read();
        self.clients.iter_mut().for_each(|client| client.publish().unwrap());
        if all_read {
            self.sleeper.prepare_sleep();
            self.is_asleep = self.clients.iter_mut().all(Client::is_idle);
            if !self.is_asleep {
                self.sleeper.cancel();
            }
        }
    }

    fn hear(&mut self, cpu: usize, event: Event) {
        match event {
            Event::Answer(question, answer) => drop(self.answers.insert(question.serial, answer)),
            Event::Failed(lane, failure) => {
                let at = self.of[&(cpu, lane)];
                self.sockets[at].failed.push(failure.error);
            }
            Event::Free(lane) => self.clients[cpu].free_lane(lane),
            _ => {}
        }
    }

    /// Reads some of what has come; true if it waits for more on all lanes.
    fn read(&mut self) -> bool {
        let Self { sockets, clients, random, echoes, .. } = self;
        let mut waits = true;
        for socket in sockets {
            let Socket { lanes, heard, .. } = socket;
            for (cpu, (tx, rx)) in lanes {
                for _ in 0..1 + random.below(6) {
                    let mut back = None;
                    let number = datagram::take(rx, |head, pieces| {
                        let (from, bytes) = (head.peer.unwrap(), pieces.concat());
                        back = Some((from, bytes.clone()));
                        (true, (from, number(&bytes)))
                    });
                    let Some((from, number)) = number.unwrap() else { break };
                    heard.entry(from).or_default().push(number);
                    if let (true, Some((peer, bytes))) = (*echoes, back) {
                        let head = Head {
                            peer: Some(peer),
                            zone: 0,
                            local: None,
                            len: bytes.len().try_into().unwrap(),
                            how: SendParams::default(),
                        };
                        // What there is no room for is lost, as datagrams are.
                        let _ = datagram::put(tx, &head, [&bytes, &[]]).unwrap();
                        if tx.publish() {
                            clients[*cpu].push(&Command::Look(tx.lane()));
                        }
                    }
                }
                if rx.release().unwrap() {
                    clients[*cpu].push(&Command::Look(tx.lane()));
                }
                waits &= rx.waits().unwrap();
            }
        }
        waits
    }
}

/// Its bytes say which it is.
fn numbered(number: u32) -> Vec<u8> {
    let len = 4 + number as usize * 131 % (LONGEST - 4);
    number.to_be_bytes().into_iter().cycle().take(len).collect()
}

fn number(bytes: &[u8]) -> u32 {
    let number = u32::from_be_bytes(*bytes.first_chunk().unwrap());
    assert!(bytes == numbered(number), "other bytes than were sent");
    number
}

struct Scene {
    world: World,
    hosts: [HostId; 2],
    apps: [Option<App>; 2],
}

impl Scene {
    fn new(seed: u64, shape: Shape, spec: cable::Spec) -> Self {
        let mut world = World::new("datagrams", seed);
        world.allow(Permit::Loss);
        world.allow(Permit::Disorder);
        let cable = world.cable(spec);
        let hosts = [1, 2].map(|host| {
            let port = Port::new(cable, 1, host).rings(shape.rings, shape.rss);
            world.host(Spec::host(&format!("host{host}")).cpus(shape.cpus).buffers(4096).port(port))
        });
        world.run_for(BOOT);
        let apps = hosts.map(|host| Some(App::new(&mut world, host)));
        Self { world, hosts, apps }
    }

    fn app(&mut self, at: usize) -> &mut App {
        self.apps[at].as_mut().unwrap()
    }

    fn run(&mut self, limit: Duration, mut is_so: impl FnMut(&mut Self) -> bool) -> bool {
        let until = self.world.now() + limit;
        while self.world.now() < until {
            self.apps.iter_mut().flatten().for_each(App::step);
            if is_so(self) {
                return true;
            }
            let slice = self.world.random().between(1, 300_000) as u64;
            self.world.run_for(Duration::from_nanos(slice));
        }
        false
    }

    /// Returns the replies to these requests.
    fn answers(&mut self, app: usize, serials: &[u32]) -> Vec<Result<SocketAddr, Error>> {
        let all = |scene: &mut Self| serials.iter().all(|serial| scene.app(app).answers.contains_key(serial));
        assert!(self.run(Duration::from_secs(1), all), "each question has an answer");
        serials.iter().map(|serial| self.app(app).answers[serial]).collect()
    }

    /// A server on all CPUs of the second host.
    fn serve(&mut self, family: Family) -> SocketAddr {
        let at: SocketAddr = (family.addr(1, 2), PORT).into();
        let cpus = self.app(1).clients.len();
        let serials = self.app(1).bind(0..cpus, at);
        assert!(self.answers(1, &serials).into_iter().all(|answer| answer == Ok(at)));
        at
    }

    /// Programs leave, and nothing is left of them.
    fn end(mut self) {
        self.apps = [None, None];
        self.world.run_for(Duration::from_secs(20));
        for host in self.hosts {
            for cpu in &self.world.of(host).cpus {
                let left = cpu.netisr.cpu.udp.as_ref().map_or(0, |sockets| sockets.page(0, 99).0.len());
                assert_eq!(left, 0, "sockets");
            }
            assert_eq!(self.world.of(host).count(Count::ChannelsBroken), 0);
        }
        self.world.finish();
    }
}

fn anywhere(family: Family) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::UNSPECIFIED.into(),
        Family::V6 => Ipv6Addr::UNSPECIFIED.into(),
    }
}

fn ordered(numbers: &[u32]) -> bool {
    numbers.is_sorted_by(|one, other| one < other)
}

#[test]
fn datagrams_over_channels_are_whole_and_those_of_a_pair_in_order() {
    let lossy = cable::Spec { delay: Duration::from_millis(1), loss: 20_000, ..cable::Spec::default() };
    for seed in seeds(1) {
        for (shape, family) in Shape::doubling().into_iter().zip(Family::BOTH.into_iter().cycle()) {
            let mut scene = Scene::new(seed, shape, lossy);
            let at = scene.serve(family);
            scene.app(1).echoes = true;
            let cpus = scene.app(0).clients.len();
            let any = (anywhere(family), 0).into();
            for _ in 0..3 {
                let first = scene.app(0).bind(0..1, any);
                let port = scene.answers(0, &first)[0].unwrap().port();
                assert!(port > 0);
            }
            for n in 0..COUNT {
                for socket in 0..3 {
                    while !scene.app(0).send(socket, 0, Some(at)) {
                        scene.run(Duration::from_micros(100), |_| false);
                    }
                }
                // Behind the first ones there is time to find the neighbour, if its answers are lost.
                let pause = if n == 0 { Duration::from_secs(5) } else { Duration::from_micros(500) };
                scene.run(pause, |_| false);
            }
            scene.run(Duration::from_secs(5), |_| false);
            let server = core::mem::take(&mut scene.app(1).sockets[0].heard);
            assert_eq!(server.len(), 3, "on {cpus} CPUs");
            assert!(server.values().all(|numbers| ordered(numbers)), "{server:?}");
            assert!(server.values().all(|numbers| numbers.len() > COUNT as usize / 3), "{server:?}");
            for socket in &scene.app(0).sockets {
                assert!(socket.heard.values().all(|numbers| ordered(numbers)), "echoes, too");
            }
            scene.end();
        }
    }
}

#[test]
fn a_lane_that_speaks_with_one_is_where_its_answers_come_and_is_told_what_did_not_arrive() {
    for seed in seeds(2) {
        for (shape, family) in Shape::doubling().into_iter().zip(Family::BOTH.into_iter().cycle()) {
            let mut scene = Scene::new(seed, shape, cable::Spec::default());
            let at = scene.serve(family);
            scene.app(1).echoes = true;
            let cpus = scene.app(0).clients.len();
            let bound = scene.app(0).bind(0..cpus, (anywhere(family), 4711).into());
            assert!(scene.answers(0, &bound).into_iter().all(|answer| answer.is_ok()));
            let asked: Vec<u32> = (0..cpus).map(|cpu| scene.app(0).speak(0, cpu, at)).collect();
            let answers = scene.answers(0, &asked);
            let owner = answers.iter().position(Result::is_ok).unwrap();
            let named = |answer: &Result<_, Error>| match answer {
                Ok(_) => true,
                Err(why) => matches!(why, Error::Elsewhere(cpu) if cpu.index() == owner),
            };
            assert!(answers.iter().all(named), "{answers:?}");
            assert_eq!(answers[owner], Ok((family.addr(1, 1), 4711).into()));
            for _ in 0..20 {
                assert!(scene.app(0).send(0, owner, None));
                scene.run(Duration::from_millis(1), |_| false);
            }
            let all =
                |scene: &mut Scene| scene.app(0).sockets[0].heard.get(&at).is_some_and(|all| all.len() == 20);
            assert!(scene.run(Duration::from_secs(2), all));
            // The program is gone.
            scene.apps[1] = None;
            scene.run(Duration::from_millis(50), |_| false);
            assert!(scene.app(0).send(0, owner, None));
            let told = |scene: &mut Scene| scene.app(0).sockets[0].failed == [Error::Refused];
            assert!(scene.run(Duration::from_secs(2), told));
            scene.end();
        }
    }
}

#[test]
fn a_program_that_does_not_read_loses_what_there_is_no_room_for_and_the_netisr_rests() {
    for (shape, family) in Shape::doubling().into_iter().zip(Family::BOTH.into_iter().cycle()) {
        let mut scene = Scene::new(1, shape, cable::Spec::default());
        let at = scene.serve(family);
        for cpu in 0..scene.app(1).clients.len() {
            let lane = scene.app(1).sockets[0].lanes[&cpu].0.lane();
            scene.app(1).clients[cpu].push(&Command::Set(Target::Lane(lane), Setting::ReceiveBuffer(8192)));
        }
        scene.app(1).wake();
        scene.app(1).is_deaf = true;
        let bound = scene.app(0).bind(0..1, (anywhere(family), 0).into());
        scene.answers(0, &bound);
        for _ in 0..200 {
            while !scene.app(0).send(0, 0, Some(at)) {
                scene.run(Duration::from_micros(100), |_| false);
            }
            scene.run(Duration::from_micros(200), |_| false);
        }
        scene.run(Duration::from_secs(1), |_| false);
        let host = scene.hosts[1];
        assert!(scene.world.of(host).dropped(DropReason::UdpQueueFull) > 50);
        let before = scene.world.of(host).count(Count::BusyTurns);
        scene.run(Duration::from_secs(1), |_| false);
        let turns = scene.world.of(host).count(Count::BusyTurns) - before;
        assert!(turns < 200 * u64::from(shape.cpus), "nobody runs in a circle: {turns}");
        scene.app(1).is_deaf = false;
        scene.app(1).wake();
        scene.run(Duration::from_secs(1), |_| false);
        let heard: Vec<_> = scene.app(1).sockets[0].heard.values().flatten().copied().collect();
        assert!(ordered(&heard) && heard.len() > 5 && heard[0] < 20, "the first have waited: {heard:?}");
        scene.end();
    }
}
