//! A program that says what it likes on its channels.

use core::net::{IpAddr, Ipv6Addr, SocketAddr};

use net::channel::{
    Bind, Client, Command, Connect, Join, Link, Listen, Question, Sender, Setting, Size, Target, channel,
};
use net::count::Count;
use net::msg::Notifier;
use net::time::Duration;
use pkt::byte_channel::{Forger, Reader, Writer};
use pkt::wake::Sleeper;

use super::Bytes;
use crate::host::Spec;
use crate::world::{HostId, World};

const STEP: Duration = Duration::from_micros(300);
/// Whatever it has begun has ended by then.
const DIE_OUT: Duration = Duration::from_secs(16 * 60);
const LANES: u32 = 8;
const SIZE: Size = Size { lanes: LANES, lane_bytes: 256 };
/// Where it listens, and what it connects to: itself.
const PORT: u16 = 7;

/// Does on a channel what `data` says: commands in any order with any number in them, bytes on lanes that were given back,
/// positions that cannot be, garbage. The netisr either does what it was told or closes the channel; when all is over it
/// holds nothing. Answers whether it had to close it.
pub fn channels(data: &[u8]) -> bool {
    let mut bytes = Bytes { rest: data };
    let mut liar = Liar::new();
    while !bytes.is_empty() {
        liar.act(&mut bytes);
        liar.world.run_for(STEP);
    }
    liar.end()
}

struct Liar {
    world: World,
    host: HostId,
    says: Says,
    lanes: Vec<(Writer, Reader)>,
    forgers: Vec<Forger>,
}

/// The remains of the program's end.
enum Says {
    Commands(Client),
    Garbage(Writer, Notifier),
    Nothing,
}

impl Liar {
    fn new() -> Self {
        let mut world = World::new("liar", 1);
        let host = world.host(Spec::host("host"));
        let sleeper = Sleeper::new(Box::new(|| ()));
        #[expect(clippy::expect_used, reason = "a world without memory cannot be")]
        let (mut client, far) = channel(SIZE, sleeper.waker()).expect("memory for lanes");
        if let Ok(notifier) = world.of(host).open(0, Box::new(far)) {
            client.attach(notifier);
        }
        Self { world, host, says: Says::Commands(client), lanes: Vec::new(), forgers: Vec::new() }
    }

    fn act(&mut self, bytes: &mut Bytes<'_>) {
        match bytes.byte() % 16 {
            0..=7 => self.command(bytes),
            8 | 9 => self.take(),
            10 => drop(self.lane(bytes)),
            11 => self.write(bytes),
            12 => self.forge(bytes),
            13 => self.garbage(bytes),
            14 => self.world.run_for(Duration::from_millis(bytes.half().into())),
            _ => self.hear(),
        }
    }

    /// A lane that is begun as it should be.
    fn take(&mut self) {
        if let Says::Commands(client) = &mut self.says {
            self.lanes.extend(client.take_lane());
        }
    }

    fn lane(&mut self, bytes: &mut Bytes<'_>) -> Option<(Writer, Reader)> {
        let at = usize::from(bytes.byte()).checked_rem(self.lanes.len())?;
        Some(self.lanes.swap_remove(at))
    }

    fn write(&mut self, bytes: &mut Bytes<'_>) {
        let Some((mut tx, mut rx)) = self.lane(bytes) else { return };
        // What it finds of the other end's, it does not care for.
        let _ = (tx.write(&vec![7; bytes.byte().into()]), tx.publish(), rx.read(&mut [0; 99]), rx.release());
        if bytes.byte().is_multiple_of(4) {
            let _ = tx.finish(bytes.word());
        }
        self.lanes.push((tx, rx));
    }

    fn forge(&mut self, bytes: &mut Bytes<'_>) {
        let Some((tx, rx)) = self.lane(bytes) else { return };
        let forger = if bytes.byte().is_multiple_of(2) { tx.forge() } else { rx.forge() };
        forger.say((bytes.word() as usize) << (bytes.byte() % 40));
        self.forgers.push(forger);
    }

    fn command(&mut self, bytes: &mut Bytes<'_>) {
        let command = command(bytes);
        if let Says::Commands(client) = &mut self.says {
            client.push(&command);
            let _ = client.publish();
        }
    }

    /// From now on there are no commands.
    fn garbage(&mut self, bytes: &mut Bytes<'_>) {
        self.says = match core::mem::replace(&mut self.says, Says::Nothing) {
            Says::Commands(client) => {
                client.dissolve().map_or(Says::Nothing, |(tx, notifier)| Says::Garbage(tx, notifier))
            }
            other => other,
        };
        if let Says::Garbage(tx, notifier) = &mut self.says {
            let record: Vec<u8> = (0..bytes.byte() % 80).map(|_| bytes.byte()).collect();
            let _ = (tx.write(&record), tx.publish());
            notifier.knock();
        }
    }

    fn hear(&mut self) {
        if let Says::Commands(client) = &mut self.says {
            while let Ok(Some(_)) = client.next_event() {}
        }
    }

    fn end(mut self) -> bool {
        let broken = self.world.of(self.host).count(Count::ChannelsBroken) > 0;
        if let Says::Garbage(tx, notifier) = core::mem::replace(&mut self.says, Says::Nothing) {
            // Its end notifies.
            drop(tx);
            notifier.knock();
        }
        (self.lanes, self.forgers) = (Vec::new(), Vec::new());
        self.world.run_for(DIE_OUT);
        for cpu in &self.world.of(self.host).cpus {
            let pcbs = cpu.netisr.cpu.tcp.as_ref();
            assert_eq!(pcbs.map_or(0, |pcbs| pcbs.len()), 0, "connections");
            assert_eq!(pcbs.map_or(0, |pcbs| pcbs.page_of_listeners(0, 9).0.len()), 0, "listeners");
            let sockets = cpu.netisr.cpu.udp.as_ref();
            assert_eq!(sockets.map_or(0, |sockets| sockets.page(0, 9).0.len()), 0, "sockets");
        }
        self.world.finish();
        broken
    }
}

/// A command with any numbers in it.
fn command(bytes: &mut Bytes<'_>) -> Command {
    let number = |bytes: &mut Bytes<'_>| match bytes.byte() {
        255 => bytes.word(),
        low => u32::from(low) % (LANES + 1),
    };
    let addr = |bytes: &mut Bytes<'_>| -> SocketAddr {
        let ip = match bytes.byte() % 8 {
            0 => Ipv6Addr::from(u128::from(bytes.word()) << 96).into(),
            1 => IpAddr::from(bytes.word().to_be_bytes()),
            2..=4 => IpAddr::from([127, 0, 0, 1]),
            _ => IpAddr::from(Ipv6Addr::LOCALHOST),
        };
        (ip, PORT).into()
    };
    let question = |bytes: &mut Bytes<'_>| Question { lane: number(bytes), serial: bytes.word() };
    match bytes.byte() % 26 {
        0..=5 => {
            let (lane, remote) = (number(bytes), addr(bytes));
            Command::Connect(Connect { lane, remote, local: None, port: None, zone: 0 })
        }
        6 | 7 => {
            let (listener, addr) = (number(bytes), (Ipv6Addr::UNSPECIFIED, PORT).into());
            let (only_v6, is_shared) = (bytes.byte() == 0, bytes.byte().is_multiple_of(2));
            let backlog = bytes.byte().into();
            Command::Listen(Listen { listener, addr, zone: 0, only_v6, is_shared, backlog: Some(backlog) })
        }
        8..=11 => Command::Offer { listener: number(bytes), lane: number(bytes) },
        12 | 13 => Command::Unlisten(number(bytes)),
        14..=17 => Command::Look(number(bytes)),
        18..=21 => Command::Close { lane: number(bytes), aborts: bytes.byte().is_multiple_of(2) },
        24 => {
            let (question, addr) = (question(bytes), (Ipv6Addr::UNSPECIFIED, PORT).into());
            let (only_v6, is_shared) = (bytes.byte() == 0, bytes.byte().is_multiple_of(2));
            Command::Bind(
                question,
                Bind { addr, zone: 0, only_v6, is_shared, bind_any: is_shared, device: 0 },
            )
        }
        25 => match bytes.byte() % 4 {
            0 => Command::Speak { question: question(bytes), remote: addr(bytes), zone: 0 },
            1 => Command::Vacate(question(bytes)),
            2 => Command::GroupsBy(question(bytes), link(bytes)),
            _ => {
                let (question, group) = (question(bytes), Ipv6Addr::from(u128::from(bytes.word()) << 96));
                let joins = bytes.byte().is_multiple_of(2);
                let of = match bytes.byte() % 4 {
                    0 => Sender::Only(Ipv6Addr::LOCALHOST.into()),
                    1 => Sender::AllBut(Ipv6Addr::LOCALHOST.into()),
                    _ => Sender::Any,
                };
                Command::Join(question, Join { group: group.into(), on: link(bytes), joins, of })
            }
        },
        _ => {
            let target = if bytes.byte().is_multiple_of(2) { Target::Lane } else { Target::Listener };
            Command::Set(target(number(bytes)), setting(bytes))
        }
    }
}

fn link(bytes: &mut Bytes<'_>) -> Link {
    Link { addr: Ipv6Addr::UNSPECIFIED.into(), ifindex: bytes.byte().into() }
}

fn setting(bytes: &mut Bytes<'_>) -> Setting {
    let (which, value) = (bytes.byte() % 19, bytes.word());
    match which {
        0 => Setting::NoDelay(value.is_multiple_of(2)),
        1 => Setting::KeepAlive(value.is_multiple_of(2)),
        2 => Setting::KeepIdle(value),
        3 => Setting::KeepInterval(value),
        4 => Setting::KeepCount(value),
        5 => Setting::UserTimeout(value),
        6 => Setting::SendBuffer(value),
        7 => Setting::ReceiveBuffer(value),
        8 => Setting::MaxSegment(value),
        9 => Setting::Hops(value),
        10 => Setting::TellsUserTimeout(value.is_multiple_of(2)),
        11 => Setting::ToldUserTimeout(value),
        12 => Setting::YieldsUserTimeout(value.is_multiple_of(2)),
        13 => Setting::NewReno(value.is_multiple_of(2)),
        14 => Setting::Cork(value.is_multiple_of(2)),
        15 => Setting::QuickAck(value.is_multiple_of(2)),
        16 => Setting::FastOpen(value.is_multiple_of(2)),
        17 => Setting::Device(value % 4),
        _ => Setting::Class(value),
    }
}
