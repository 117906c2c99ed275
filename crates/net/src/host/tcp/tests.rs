//! A host that speaks with itself, on one CPU and on several.

mod again;
mod bind_any;
mod device;
mod held;
mod opened;
mod page;
mod places;
mod shared;

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use wire::tcp::{Flags, Header, Options};

use super::settings::Settings;
use super::tcb::State;
use super::*;
use crate::base::count::Count;
use crate::base::drop::DropReason;
use crate::base::time::Instant;
use crate::host::sock::Error;
use crate::link::driver::Caps;
use crate::link::tables::Ifnet;
use crate::testkit::build::{frame, tcp};
use crate::testkit::{Bench, addr4, addr6};

/// The host, its listeners, and the addresses.
struct Host {
    bench: Bench,
    addr: SocketAddr,
    listeners: Vec<ListenerId>,
}

/// A connection on its CPU.
type End = (usize, Id);

impl Host {
    fn new(cpus: u16, addr: IpAddr, change: impl Fn(&mut Listen)) -> Self {
        let mut bench = Bench::with(1, cpus, |_| ());
        let addr = (addr, 80).into();
        let listeners = all(&mut bench, addr, change);
        Self { bench, addr, listeners }
    }

    fn cpu(&mut self, at: usize) -> &mut crate::turn::cpu::Cpu {
        &mut self.bench.netisrs[at].cpu
    }

    fn connect(&mut self, from: usize) -> End {
        let remote = self.addr;
        (from, connect(self.cpu(from), &connector(remote)).unwrap())
    }

    fn accept(&mut self) -> Option<End> {
        let listeners = self.listeners.clone();
        listeners
            .into_iter()
            .enumerate()
            .find_map(|(at, listener)| accept(self.cpu(at), listener).ok().map(|accepted| (at, accepted.id)))
    }

    /// Makes an established connection: the active end, and the passive one.
    fn pair(&mut self, from: usize) -> [End; 2] {
        let client = self.connect(from);
        self.bench.run();
        [client, self.accept().unwrap()]
    }

    fn state(&mut self, (at, id): End) -> Option<State> {
        connection(self.cpu(at), id).map(|(_, tcb)| tcb.state())
    }

    /// Sends `bytes` from one end, reads them at the other.
    fn carry(&mut self, from: End, to: End, bytes: &[u8]) -> Vec<u8> {
        let (mut sent, mut read_so_far) = (0, Vec::new());
        while read_so_far.len() < bytes.len() {
            sent += send(self.cpu(from.0), from.1, &bytes[sent..]).unwrap_or(0);
            self.bench.run();
            let mut some = [0; 5000];
            match read(self.cpu(to.0), to.1, &mut some) {
                Ok(count) => read_so_far.extend_from_slice(&some[..count]),
                Err(Error::WouldBlock) => self.bench.advance(Duration::from_millis(10)),
                Err(error) => panic!("{error}"),
            }
        }
        read_so_far
    }
}

fn all(bench: &mut Bench, addr: SocketAddr, change: impl Fn(&mut Listen)) -> Vec<ListenerId> {
    let mut wants = listen_on(addr);
    change(&mut wants);
    bench.netisrs.iter_mut().map(|netisr| listen(&mut netisr.cpu, &wants).unwrap()).collect()
}

fn connector(remote: SocketAddr) -> Connect {
    let (settings, tx_params) = (Settings::default(), IpTxParams::default());
    Connect { remote, local: None, port: None, zone: 0, settings, tx_params }
}

fn families() -> [IpAddr; 2] {
    [addr4(1, 1).into(), addr6(1, 1).into()]
}

pub(super) fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|at| u8::try_from(at % 251).unwrap()).collect()
}

#[test]
fn bytes_go_both_ways_and_both_ends_end_on_the_cpu_where_they_began() {
    for (cpus, addr) in [1, 2, 3, 8].into_iter().flat_map(|cpus| families().map(|addr| (cpus, addr))) {
        let mut host = Host::new(cpus, addr, |_| ());
        let from = usize::from(cpus) - 1;
        let [client, server] = host.pair(from);
        assert_eq!((client.0, server.0), (from, from), "the port was chosen so");
        let sent = bytes(200_000);
        assert!(host.carry(client, server, &sent) == sent);
        assert!(host.carry(server, client, &sent) == sent);
        close(host.cpu(client.0), client.1).unwrap();
        host.bench.run();
        assert_eq!(read(host.cpu(server.0), server.1, &mut [0; 10]), Ok(0), "the end");
        close(host.cpu(server.0), server.1).unwrap();
        host.bench.run();
        assert_eq!((host.state(client), host.state(server)), (None, None));
        // What is under way dies out, and then the ends are free.
        let waits = |host: &mut Host| host.cpu(from).tcp.as_ref().unwrap().deadline() != Instant::NEVER;
        assert!(waits(&mut host));
        host.bench.advance(Duration::from_secs(61));
        assert!(!waits(&mut host));
        assert_eq!(host.bench.drops(), []);
    }
}

#[test]
fn unexpected_connections_are_refused() {
    for addr in families() {
        let mut host = Host::new(1, addr, |listen| listen.addr.set_port(81));
        let client = host.connect(0);
        host.bench.run();
        assert_eq!(send(host.cpu(0), client.1, b"x"), Err(Error::Refused));
        assert_eq!(read(host.cpu(0), client.1, &mut [0; 1]), Err(Error::Refused));
        assert_eq!(
            ready(host.cpu(0), client.1),
            Ready { readable: true, writable: true, urgent: false, ended: true }
        );
        close(host.cpu(0), client.1).unwrap();
        host.bench.run();
        assert_eq!(close(host.cpu(0), client.1), Err(Error::NotFound));
    }
}

#[test]
fn an_aborted_connection_is_reset() {
    for addr in families() {
        let mut host = Host::new(1, addr, |_| ());
        let [client, server] = host.pair(0);
        abort(host.cpu(0), client.1).unwrap();
        host.bench.run();
        assert_eq!(read(host.cpu(0), server.1, &mut [0; 1]), Err(Error::Reset));
        assert_eq!(host.state(client), None);
    }
}

#[test]
fn no_more_stand_than_may_wait_to_be_accepted_and_the_others_follow_later() {
    for addr in families() {
        let mut host = Host::new(1, addr, |listen| listen.backlog = 2);
        for _ in 0..4 {
            host.connect(0);
        }
        host.bench.run();
        assert_eq!(host.bench.counted(Count::TcpAccepts), 2);
        assert!(host.bench.counted(Count::TcpQueueFull) >= 2);
        assert!(host.accept().is_some() && host.accept().is_some() && host.accept().is_none());
        // The answer to their SYNs is sent again, and this time their acknowledgment counts.
        host.bench.advance(Duration::from_secs(2));
        assert!(host.accept().is_some() && host.accept().is_some() && host.accept().is_none());
    }
}

#[test]
fn a_port_has_one_listener_unless_all_share_it() {
    for addr in families() {
        let mut host = Host::new(1, addr, |listen| listen.is_shared = true);
        let shared = Listen { is_shared: true, ..listen_on(host.addr) };
        let another = listen(host.cpu(0), &shared).unwrap();
        let alone = listen_on(host.addr);
        assert_eq!(listen(host.cpu(0), &alone), Err(Error::AddrInUse));
        for _ in 0..64 {
            host.connect(0);
            host.bench.run();
        }
        let first = host.listeners[0];
        let count = |host: &mut Host, id| core::iter::from_fn(|| accept(host.cpu(0), id).ok()).count();
        let (at_first, at_other) = (count(&mut host, first), count(&mut host, another));
        assert!(
            at_first == 8 && at_other == 8,
            "{at_first} and {at_other}: both get some, as many as may wait"
        );
    }
}

#[test]
fn a_closed_listener_leaves_its_accept_queue_to_its_group_or_resets_it() {
    for addr in families() {
        let mut host = Host::new(1, addr, |listen| listen.is_shared = true);
        let first = host.listeners[0];
        let mut clients = Vec::new();
        for _ in 0..6 {
            clients.push(host.connect(0));
            host.bench.run();
        }
        let shared = Listen { is_shared: true, backlog: 4, ..listen_on(host.addr) };
        let heir = listen(host.cpu(0), &shared).unwrap();
        unlisten(host.cpu(0), first);
        host.bench.run();
        host.listeners = vec![heir];
        let accepted = core::iter::from_fn(|| host.accept()).count();
        assert_eq!(accepted, 4);
        let ended = clients.iter().filter(|(_, id)| ready(host.cpu(0), *id).ended).count();
        assert_eq!(ended, 2);
    }
}

#[test]
fn a_connection_that_dies_in_an_inherited_accept_queue_does_not_block_it() {
    for addr in families() {
        let mut host = Host::new(1, addr, |listen| listen.is_shared = true);
        let first = host.listeners[0];
        let gone = host.connect(0);
        host.bench.run();
        let stays = host.connect(0);
        host.bench.run();
        let shared = Listen { is_shared: true, ..listen_on(host.addr) };
        let heir = listen(host.cpu(0), &shared).unwrap();
        unlisten(host.cpu(0), first);
        host.listeners = vec![heir];
        abort(host.cpu(0), gone.1).unwrap();
        host.bench.run();
        let (_, accepted) = host.accept().unwrap();
        let local = connection(host.cpu(0), stays.1).unwrap().0.local();
        assert_eq!(connection(host.cpu(0), accepted).unwrap().0.remote(), local);
    }
}

#[test]
fn a_listener_on_all_addresses_has_what_none_of_its_own_address_wants() {
    for addr in families() {
        let any: IpAddr = if addr.is_ipv4() { [0; 4].into() } else { [0_u16; 8].into() };
        let mut host = Host::new(1, addr, |listen| listen.addr.set_ip(any));
        host.pair(0);
        let own = listen_on(host.addr);
        let own = listen(host.cpu(0), &own).unwrap();
        host.connect(0);
        host.bench.run();
        assert!(host.accept().is_none() && accept(host.cpu(0), own).is_ok());
    }
}

#[test]
fn there_are_not_more_listeners_than_may_be() {
    let mut host = Host::new(1, addr4(1, 1).into(), |_| ());
    let mut many = listen_on(host.addr);
    for port in 1000..1000 + u16::try_from(LISTENERS_MAX - 1).unwrap() {
        many.addr.set_port(port);
        listen(host.cpu(0), &many).unwrap();
    }
    many.addr.set_port(999);
    assert_eq!(listen(host.cpu(0), &many), Err(Error::TooMany));
    let first = host.listeners[0];
    unlisten(host.cpu(0), first);
    assert!(listen(host.cpu(0), &many).is_ok());
}

#[test]
fn when_there_are_as_many_as_may_be_newcomers_are_refused_and_waits_are_cut() {
    for addr in families() {
        let mut host = Host::new(1, addr, |_| ());
        let pairs = [host.pair(0), host.pair(0)];
        host.cpu(0).tcp.as_mut().unwrap().room = (4, 1);
        let wanted = connector(host.addr);
        assert_eq!(connect(host.cpu(0), &wanted), Err(Error::TooMany));
        for (_, id) in pairs.into_iter().flatten() {
            close(host.cpu(0), id).unwrap();
            host.bench.run();
        }
        assert_eq!(host.bench.counted(Count::TcpWaitsCut), 1);
        assert!(connect(host.cpu(0), &wanted).is_ok());
    }
}

#[test]
fn of_many_whose_time_has_come_some_are_looked_at_in_the_next_turn() {
    let mut host = Host::new(1, addr4(1, 1).into(), |_| ());
    for at in 0..300 {
        host.bench.inject(1, syn(addr4(1, 9).into(), addr4(1, 1).into(), at));
        host.bench.run();
    }
    host.bench.now = host.bench.now + Duration::from_secs(2);
    let now = host.bench.now;
    host.cpu(0).now = now;
    assert_eq!([expire(host.cpu(0)), expire(host.cpu(0)), expire(host.cpu(0))], [256, 44, 0]);
}

#[test]
fn what_is_more_than_goes_at_once_goes_in_the_turns_that_follow() {
    let large = 1 << 20;
    let settings =
        Settings { receive_buffer: large, send_buffer: large, initial_segments: 1000, ..Settings::default() };
    for addr in families() {
        let mut host = Host::new(1, addr, |listen| listen.settings = settings);
        let wanted = Connect { settings, ..connector(host.addr) };
        let client = (0, connect(host.cpu(0), &wanted).unwrap());
        host.bench.run();
        let server = host.accept().unwrap();
        // Behind it the client knows how much the server takes.
        assert_eq!(host.carry(client, server, b"x"), b"x");
        let much = bytes(400_000);
        assert_eq!(send(host.cpu(0), client.1, &much), Ok(much.len()));
        let (now, before) = (host.bench.now, host.bench.counted(Count::TcpBursts));
        let turn = host.bench.netisrs[0].turn(now);
        let (_, tcb) = connection(host.cpu(0), client.1).unwrap();
        let sent = tcb.info().unacknowledged;
        assert!((100_000..200_000).contains(&sent), "{sent} are sent");
        assert!(turn.deadline <= now, "the rest waits for something");
        assert_eq!(host.bench.counted(Count::TcpBursts) - before, 1);
        assert_eq!(host.carry(server, client, b"y"), b"y");
        let mut read_so_far = vec![0; much.len()];
        assert_eq!(read(host.cpu(0), server.1, &mut read_so_far), Ok(much.len()));
        assert!(read_so_far == much);
    }
}

#[test]
fn a_server_is_asked_for_a_cookie_and_left_alone_for_a_while_if_it_gives_none() {
    for addr in families() {
        let mut host = Host::new(1, addr, |_| ());
        let settings = Settings { fast_open: true, ..Settings::default() };
        let wanted = Connect { settings, ..connector(host.addr) };
        let begins = |host: &mut Host| {
            connect(host.cpu(0), &wanted).unwrap();
            host.bench.run();
            let paths = &mut host.cpu(0).tcp.as_mut().unwrap().paths;
            paths.cookie(wanted.remote.ip(), Instant::START)
        };
        assert_eq!(begins(&mut host), None, "this server gives none");
        forget_paths(host.cpu(0));
        let paths = &mut host.cpu(0).tcp.as_mut().unwrap().paths;
        assert_eq!(
            paths.cookie(wanted.remote.ip(), Instant::START).map(|(cookie, _)| cookie),
            Some(wire::tcp::Cookie::REQUEST)
        );
    }
}

#[test]
fn an_ipv6_listener_takes_ipv4_too_unless_it_says_no() {
    for only_v6 in [false, true] {
        let mut host = Host::new(1, [0_u16; 8].into(), |listen| listen.only_v6 = only_v6);
        host.addr = (addr4(1, 1), 80).into();
        host.connect(0);
        host.bench.run();
        assert_eq!(host.accept().is_none(), only_v6);
    }
}

#[test]
fn a_flood_of_syns_is_answered_with_cookies_and_others_still_get_in() {
    for (from, to) in
        [(IpAddr::from(addr4(1, 9)), IpAddr::from(addr4(1, 1))), (addr6(1, 9).into(), addr6(1, 1).into())]
    {
        let mut host = Host::new(1, to, |_| ());
        let flood = HALVES_MAX + 100;
        for at in 0..flood {
            host.bench.inject(1, syn(from, to, u16::try_from(at % 60_000).unwrap()));
            host.bench.run();
            host.bench.forget_sent();
        }
        assert_eq!(host.bench.counted(Count::TcpCookiesSent), 100);
        let [client, server] = host.pair(0);
        assert_eq!(host.bench.counted(Count::TcpCookiesTaken), 1);
        let sent = bytes(50_000);
        assert!(host.carry(client, server, &sent) == sent);
        host.bench.advance(Duration::from_secs(60));
        assert_eq!(host.bench.counted(Count::TcpHalvesTimedOut), HALVES_MAX as u64);
        assert_eq!(host.bench.dropped(DropReason::NoPort), 0);
    }
}

fn listen_on(addr: SocketAddr) -> Listen {
    let (settings, tx_params) = (Settings::default(), IpTxParams::default());
    Listen { addr, zone: 0, only_v6: false, backlog: 8, is_shared: false, settings, tx_params }
}

fn syn(from: IpAddr, to: IpAddr, src_port: u16) -> Vec<u8> {
    let (flags, options) = (Flags::SYN, Options::NONE);
    let header = Header { src_port, dst_port: 80, seq: 1, ack: 0, flags, window: 1000, urgent: 0, options };
    frame(1, &tcp(from, to, &header, &[]))
}

/// A connection of `us` with a host on the wire, begun; and the packet that begins it.
pub(super) fn begun(us: IpAddr, them: IpAddr) -> (Bench, Id, Vec<u8>) {
    begun_with(us, them, |_| ())
}

fn begun_with(us: IpAddr, them: IpAddr, change: impl FnOnce(&mut Ifnet)) -> (Bench, Id, Vec<u8>) {
    let mut bench = Bench::with(1, 1, |config| change(&mut config.ifs[0]));
    let wanted = Connect { local: Some(us), ..connector((them, 80).into()) };
    let id = connect(bench.cpu(), &wanted).unwrap();
    bench.run();
    let syn = bench.sent(1).pop().unwrap()[14..].to_vec();
    (bench, id, syn)
}

/// Makes an answered one; returns our SYN's header, too. The peer takes segments of 1400 bytes, and 60,000 bytes.
pub(super) fn standing(us: IpAddr, them: IpAddr, change: impl FnOnce(&mut Ifnet)) -> (Bench, Id, Header) {
    let (mut bench, id, syn) = begun_with(us, them, change);
    let ours = Header::parse(&syn[if us.is_ipv4() { 20 } else { 40 }..]).unwrap();
    let answer = Header {
        src_port: 80,
        dst_port: ours.src_port,
        seq: 1000,
        ack: ours.seq + 1,
        flags: Flags::SYN | Flags::ACK,
        window: 60_000,
        urgent: 0,
        options: Options { mss: Some(1400), ..Options::NONE },
    };
    bench.inject(1, frame(1, &tcp(them, us, &answer, &[])));
    bench.run();
    bench.forget_sent();
    (bench, id, ours)
}

#[test]
fn a_device_that_cuts_gets_super_packets_of_whole_segments() {
    for (us, them) in
        [(IpAddr::from(addr4(1, 1)), IpAddr::from(addr4(1, 9))), (addr6(1, 1).into(), addr6(1, 9).into())]
    {
        for cuts in [true, false] {
            let caps = Caps { tso: cuts, tx_csum: true, buffers_max: 40, ..Caps::default() };
            let (mut bench, id, _) = standing(us, them, |ifnet| ifnet.caps = caps);
            assert_eq!(send(bench.cpu(), id, &bytes(10 * 1400)), Ok(14_000));
            bench.run();
            let at = if us.is_ipv4() { 54 } else { 74 };
            let sent = bench.sent_frames(1);
            let payload: Vec<u8> = sent.iter().flat_map(|frame| &frame.bytes[at..]).copied().collect();
            assert!(payload == bytes(10 * 1400));
            let shapes: Vec<_> = sent.iter().map(|frame| (frame.bytes.len() - at, frame.gso_size)).collect();
            let expected = if cuts { vec![(14_000, 1400)] } else { vec![(1400, 0); 10] };
            assert_eq!(shapes, expected);
            let (_, tcb) = connection(bench.cpu(), id).unwrap();
            assert_eq!(tcb.info().tally.data_segments_out, 10);
        }
    }
}
