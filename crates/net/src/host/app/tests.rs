//! Programs that speak with each other on one host.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::sync::mpsc::{Receiver, Sender, channel};

use super::*;
use crate::host::tcp::settings::Settings;
use crate::host::tcp::{Connect, IpTxParams, Listen};
use crate::testkit::{Bench, addr4, addr6};

/// An event of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AppEvent {
    Accepted,
    Readable,
    Writable,
    Closed(Option<Error>),
    Datagrams,
    Called,
    Time,
}

type Begin = Box<dyn FnMut(&mut AppContext<'_>) -> Result<(), Error> + Send>;

/// Tells the test what it is told, and does what the test wants it to do then.
struct Spy<T> {
    tell: Sender<(AppEvent, u32)>,
    begin: Begin,
    then: T,
}

impl<T: FnMut(&mut AppContext<'_>, AppEvent, Option<tcp::Id>) + Send> Spy<T> {
    fn told(&mut self, cx: &mut AppContext<'_>, told: AppEvent, key: u32, conn: Option<tcp::Id>) {
        self.tell.send((told, key)).unwrap();
        (self.then)(cx, told, conn);
    }
}

impl<T: FnMut(&mut AppContext<'_>, AppEvent, Option<tcp::Id>) + Send> App for Spy<T> {
    fn begin(&mut self, cx: &mut AppContext<'_>) -> Result<(), Error> {
        (self.begin)(cx)
    }

    fn accepted(&mut self, cx: &mut AppContext<'_>, listener: u32, accepted: Accepted) -> u32 {
        self.told(cx, AppEvent::Accepted, listener, Some(accepted.id));
        listener + 1
    }

    fn readable(&mut self, cx: &mut AppContext<'_>, conn: Handle<tcp::Id>) {
        self.told(cx, AppEvent::Readable, conn.key, Some(conn.id));
    }

    fn writable(&mut self, cx: &mut AppContext<'_>, conn: Handle<tcp::Id>) {
        self.told(cx, AppEvent::Writable, conn.key, Some(conn.id));
    }

    fn closed(&mut self, cx: &mut AppContext<'_>, conn: Handle<tcp::Id>, why: Option<Error>) {
        self.told(cx, AppEvent::Closed(why), conn.key, Some(conn.id));
    }

    fn datagrams(&mut self, cx: &mut AppContext<'_>, socket: Handle<udp::Id>) {
        self.told(cx, AppEvent::Datagrams, socket.key, None);
    }

    fn called(&mut self, cx: &mut AppContext<'_>) {
        self.told(cx, AppEvent::Called, 0, None);
    }

    fn time(&mut self, cx: &mut AppContext<'_>) {
        self.told(cx, AppEvent::Time, 0, None);
    }
}

/// A host of one CPU with a program that listens, as `10`.
struct Host {
    bench: Bench,
    program: AppId,
    heard: Receiver<(AppEvent, u32)>,
    addr: SocketAddr,
}

const PORT: u16 = 80;

fn families() -> [IpAddr; 2] {
    [addr4(1, 1).into(), addr6(1, 1).into()]
}

fn listener(addr: SocketAddr, is_shared: bool) -> Listen {
    let (settings, tx_params) = (Settings::default(), IpTxParams::default());
    Listen { addr, zone: 0, only_v6: false, backlog: 100, is_shared, settings, tx_params }
}

fn begin<T>(
    bench: &mut Bench,
    begin: impl FnMut(&mut AppContext<'_>) -> Result<(), Error> + Send + 'static,
    then: T,
) -> (Result<AppId, Error>, Receiver<(AppEvent, u32)>)
where
    T: FnMut(&mut AppContext<'_>, AppEvent, Option<tcp::Id>) + Send + 'static,
{
    let (tell, heard) = channel();
    (bench.netisrs[0].begin(Box::new(Spy { tell, begin: Box::new(begin), then })), heard)
}

impl Host {
    fn new(
        addr: IpAddr,
        then: impl FnMut(&mut AppContext<'_>, AppEvent, Option<tcp::Id>) + Send + 'static,
    ) -> Self {
        let mut bench = Bench::new(1);
        let addr = SocketAddr::from((addr, PORT));
        let listens = move |cx: &mut AppContext<'_>| cx.listen(&listener(addr, false), 10).map(|_| ());
        let (program, heard) = begin(&mut bench, listens, then);
        Self { bench, program: program.unwrap(), heard, addr }
    }

    fn connect(&mut self) -> tcp::Id {
        let wanted = to(self.addr);
        tcp::connect(self.bench.cpu(), &wanted).unwrap()
    }

    fn told(&self) -> Vec<(AppEvent, u32)> {
        self.heard.try_iter().collect()
    }

    fn left(&mut self) -> usize {
        self.bench.cpu().tcp.as_ref().map_or(0, |pcbs| pcbs.len())
    }
}

fn to(remote: SocketAddr) -> Connect {
    let (settings, tx_params) =
        (Settings { msl: Duration::from_millis(10), ..Settings::default() }, IpTxParams::default());
    Connect { remote, local: None, port: None, zone: 0, settings, tx_params }
}

#[test]
fn what_came_before_the_end_of_a_connection_is_read_before_the_program_is_told_of_the_end() {
    for addr in families() {
        let mut held = None;
        // It sends no more once something has come, and reads only when it is called.
        let mut host = Host::new(addr, move |cx, told, conn| match told {
            AppEvent::Accepted => held = conn,
            AppEvent::Readable => assert_eq!(tcp::shutdown(cx.cpu, held.unwrap()), Ok(())),
            AppEvent::Called => assert_eq!(tcp::read(cx.cpu, held.unwrap(), &mut [0; 3]), Ok(3)),
            _ => {}
        });
        let conn = host.connect();
        host.bench.run();
        // Its end was acknowledged, and ours: the connection is over.
        assert_eq!(tcp::send(host.bench.cpu(), conn, b"all of it"), Ok(9));
        assert_eq!(tcp::close(host.bench.cpu(), conn), Ok(()));
        host.bench.run();
        host.bench.advance(Duration::from_millis(100));
        let readable = (AppEvent::Readable, 11);
        assert_eq!(
            host.told(),
            [(AppEvent::Accepted, 10), readable, readable],
            "with each segment that came"
        );
        for _ in 0..2 {
            host.bench.netisrs[0].call(host.program);
            host.bench.run();
            assert_eq!(host.told(), [(AppEvent::Called, 0)]);
        }
        host.bench.netisrs[0].call(host.program);
        host.bench.run();
        let closed = (AppEvent::Closed(None), 11);
        assert_eq!(
            host.told(),
            [(AppEvent::Called, 0), readable, closed],
            "nothing more to read, and the end"
        );
        assert_eq!(host.left(), 0);
    }
}

#[test]
fn a_program_is_told_once_of_what_a_turn_brought_and_under_its_own_name() {
    for addr in families() {
        let mut host = Host::new(addr, |cx, told, conn| {
            if let (AppEvent::Readable, Some(conn)) = (told, conn) {
                let mut bytes = [0; 3];
                let count = tcp::read(cx.cpu, conn, &mut bytes).unwrap();
                assert_eq!(tcp::send(cx.cpu, conn, &bytes[..count]), Ok(count));
            }
        });
        let conn = host.connect();
        host.bench.run();
        assert_eq!(host.told(), [(AppEvent::Accepted, 10)]);
        for part in [b"a", b"b", b"c"] {
            assert_eq!(tcp::send(host.bench.cpu(), conn, part), Ok(1));
        }
        host.bench.run();
        assert_eq!(host.told(), [(AppEvent::Readable, 11)]);
        let mut bytes = [0; 10];
        assert_eq!(tcp::read(host.bench.cpu(), conn, &mut bytes), Ok(3));
        tcp::abort(host.bench.cpu(), conn).unwrap();
        host.bench.run();
        assert_eq!(host.told(), [(AppEvent::Closed(Some(Error::Reset)), 11)]);
        assert_eq!(host.left(), 0, "what has ended is not held");
    }
}

#[test]
fn what_is_not_read_is_told_again_when_more_comes_and_the_end_is_told_once() {
    for addr in families() {
        let mut host = Host::new(addr, |_, _, _| {});
        let conn = host.connect();
        host.bench.run();
        host.told();
        for _ in 0..3 {
            tcp::send(host.bench.cpu(), conn, b"more").unwrap();
            host.bench.advance(Duration::from_millis(50));
            assert_eq!(host.told(), [(AppEvent::Readable, 11)]);
        }
        let mut host = Host::new(addr, |cx, told, conn| {
            // It reads as far as it was told, and not to the end.
            if let (AppEvent::Readable, Some(conn)) = (told, conn) {
                tcp::read(cx.cpu, conn, &mut [0; 4]).unwrap();
            }
        });
        let conn = host.connect();
        tcp::send(host.bench.cpu(), conn, b"last").unwrap();
        host.bench.run();
        host.told();
        tcp::send(host.bench.cpu(), conn, b"last").unwrap();
        tcp::shutdown(host.bench.cpu(), conn).unwrap();
        host.bench.run();
        let told = host.told();
        assert_eq!(
            told.last(),
            Some(&(AppEvent::Readable, 11)),
            "the end is told although all was read before"
        );
        host.bench.advance(Duration::from_secs(1));
        assert_eq!(host.told(), [], "once");
    }
}

#[test]
fn a_full_send_buffer_is_writable_again_when_a_third_is_free() {
    for addr in families() {
        let mut bench = Bench::new(1);
        let server = SocketAddr::from((addr, PORT));
        let waits = tcp::listen(bench.cpu(), &listener(server, false)).unwrap();
        let settings = Settings { tunes_send: false, tunes_receive: false, ..Settings::default() };
        let wanted = Connect { settings, ..to(server) };
        let mut sent = 0;
        let (_, heard) = begin(
            &mut bench,
            move |cx| cx.connect(&wanted, 7).map(|_| ()),
            move |cx, told, conn| {
                if let (AppEvent::Writable, Some(conn)) = (told, conn) {
                    while let Ok(count) = tcp::send(cx.cpu, conn, &[b'x'; 5000]) {
                        sent += count;
                        assert!(sent < 1_000_000, "a buffer is bounded");
                    }
                }
            },
        );
        bench.run();
        assert_eq!(heard.try_iter().collect::<Vec<_>>()[0], (AppEvent::Writable, 7), "it stands");
        bench.advance(Duration::from_secs(1));
        heard.try_iter().count();
        let accepted = tcp::accept(bench.cpu(), waits).unwrap();
        let mut bytes = vec![0; 5000];
        let mut read = 0;
        while read < 200_000 {
            read += tcp::read(bench.cpu(), accepted.id, &mut bytes).unwrap();
            bench.advance(Duration::from_millis(100));
        }
        let calls = heard.try_iter().count();
        assert!((5..30).contains(&calls), "{calls} calls for {read} bytes");
    }
}

#[test]
fn a_refused_connection_is_told_with_its_reason() {
    for addr in families() {
        let mut bench = Bench::new(1);
        let wanted = to(SocketAddr::from((addr, PORT)));
        let (_, heard) = begin(&mut bench, move |cx| cx.connect(&wanted, 7).map(|_| ()), |_, _, _| {});
        bench.run();
        assert_eq!(heard.try_iter().collect::<Vec<_>>(), [(AppEvent::Closed(Some(Error::Refused)), 7)]);
        assert_eq!(bench.cpu().tcp.as_ref().map(|pcbs| pcbs.len()), Some(0));
    }
}

#[test]
fn an_application_with_work_left_is_called_in_the_next_turn_after_the_others() {
    for addr in families() {
        let mut host = Host::new(addr, |cx, told, conn| {
            if let (AppEvent::Readable, Some(conn)) = (told, conn)
                && tcp::read(cx.cpu, conn, &mut [0; 1]).is_ok()
            {
                cx.again(conn);
            }
        });
        let conn = host.connect();
        host.bench.run();
        host.told();
        tcp::send(host.bench.cpu(), conn, b"1234567").unwrap();
        let turns = host.bench.counted(Count::Turns);
        host.bench.run();
        assert_eq!(host.told().len(), 8, "one for each byte, and one that found nothing");
        assert!(host.bench.counted(Count::Turns) - turns >= 8, "each in another turn");
    }
}

#[test]
fn more_events_than_may_be_told_in_a_turn_wait_for_the_next() {
    for addr in families() {
        let mut host = Host::new(addr, |_, _, _| {});
        let mut conns = Vec::new();
        for _ in 0..6 {
            conns.extend((0..60).map(|_| host.connect()));
            host.bench.advance(Duration::from_millis(10));
        }
        assert_eq!(host.told().len(), 360, "all were accepted, {ACCEPTS_MAX} at a time");
        for conn in &conns {
            tcp::send(host.bench.cpu(), *conn, b"x").unwrap();
            // The bench has no room for so many packets in one turn.
            if conns.iter().position(|other| other == conn).is_some_and(|at| at % 50 == 49) {
                host.bench.advance(Duration::from_millis(1));
            }
        }
        host.bench.advance(Duration::from_millis(10));
        assert_eq!(host.told().len(), 360);
        assert_eq!(host.bench.counted(Count::ProgramsCut), 0);
        // All of them end at the same time, with the host's own turn.
        let cpu = host.bench.cpu();
        let ids: Vec<_> = tcp::watch::held_by(cpu, host.program, 0, 1000).0;
        assert_eq!(ids.len(), 360);
        ids.iter().for_each(|id| tcp::watch::look_again(cpu, *id));
        let now = host.bench.now;
        host.bench.netisrs[0].turn(now);
        assert_eq!(host.told().len(), EVENTS_MAX);
        assert_eq!(host.bench.counted(Count::ProgramsCut), 1);
        assert!(host.bench.netisrs[0].turn(now).worked > 0);
        assert_eq!(host.told().len(), 360 - EVENTS_MAX);
    }
}

#[test]
fn what_a_chunk_brings_is_answered_before_the_next_chunk_comes_in() {
    const CONNS: usize = CHUNK + 40;
    for addr in families() {
        let (tell, taken_in) = channel();
        let mut host = Host::new(addr, move |cx, told, conn| {
            if let (AppEvent::Readable, Some(conn)) = (told, conn) {
                tell.send(cx.cpu.counters.get(Count::TcpIn)).unwrap();
                let mut byte = [0];
                tcp::read(cx.cpu, conn, &mut byte).unwrap();
                assert_eq!(tcp::send(cx.cpu, conn, &byte), Ok(1));
            }
        });
        let mut conns = Vec::new();
        for _ in 0..2 {
            conns.extend((0..CONNS / 2).map(|_| host.connect()));
            host.bench.advance(Duration::from_millis(10));
        }
        conns.iter().for_each(|conn| assert_eq!(tcp::send(host.bench.cpu(), *conn, b"x"), Ok(1)));
        let now = host.bench.now;
        // With this turn they are sent, with the next they come in.
        host.bench.netisrs[0].turn(now);
        let (came, went) = (host.bench.counted(Count::TcpIn), host.bench.counted(Count::TcpOut));
        host.bench.netisrs[0].turn(now);
        let (first, all) = (came + CHUNK as u64, came + CONNS as u64);
        let seen: Vec<_> = taken_in.try_iter().collect();
        assert_eq!(seen, [vec![first; CHUNK], vec![all; CONNS - CHUNK]].concat());
        let answers = host.bench.counted(Count::TcpOut) - went;
        assert_eq!(answers, CONNS as u64, "each acknowledgment rides on an answer");
        assert_eq!(host.bench.counted(Count::ProgramsCut), 0);
    }
}

#[test]
fn a_program_is_called_at_the_time_it_has_asked_for_and_the_turn_says_so() {
    let mut bench = Bench::new(1);
    let period = Duration::from_millis(30);
    let begins = move |cx: &mut AppContext<'_>| {
        cx.wake_at(cx.now() + period);
        Ok(())
    };
    let mut left = 3;
    let (_, heard) = begin(&mut bench, begins, move |cx, _, _| {
        left -= 1;
        if left > 0 {
            cx.wake_at(cx.now() + period);
        } else {
            cx.leave();
        }
    });
    bench.advance(period - Duration::from_micros(10));
    assert_eq!(heard.try_iter().count(), 0);
    bench.advance(Duration::from_micros(20));
    assert_eq!(heard.try_iter().count(), 1);
    bench.advance(Duration::from_secs(1));
    assert_eq!(heard.try_iter().count(), 2);
    assert!(heard.recv().is_err(), "a program that has left is dropped");
}

#[test]
fn an_application_can_be_called_from_outside_while_it_runs() {
    let mut bench = Bench::new(1);
    let (name, told_name) = channel();
    let begins = move |cx: &mut AppContext<'_>| {
        name.send(cx.program()).unwrap();
        Ok(())
    };
    let (program, heard) = begin(&mut bench, begins, |_, _, _| {});
    let program = program.unwrap();
    assert_eq!(told_name.recv(), Ok(program));
    bench.netisrs[0].call(program);
    bench.netisrs[0].end(program);
    bench.netisrs[0].call(program);
    bench.run();
    assert_eq!(heard.try_iter().collect::<Vec<_>>(), [(AppEvent::Called, 0)]);
}

#[test]
fn what_a_program_holds_is_closed_when_it_leaves_and_others_keep_theirs() {
    for addr in families() {
        let mut host = Host::new(addr, |_, _, _| {});
        let conns: Vec<_> = (0..20).map(|_| host.connect()).collect();
        host.bench.run();
        let bound = udp::Bind {
            addr: host.addr,
            zone: 0,
            only_v6: false,
            is_shared: false,
            settings: udp::Settings::default(),
        };
        let mut socket = None;
        let (sender, made) = channel();
        let (other, heard) = begin(
            &mut host.bench,
            move |cx| {
                let socket = udp::bind(cx.cpu, &bound)?;
                cx.hold(socket, 3);
                sender.send(socket).unwrap();
                Ok(())
            },
            |_, _, _| {},
        );
        socket.replace(made.recv().unwrap());
        let program = host.program;
        host.bench.netisrs[0].end(program);
        host.bench.run();
        for conn in conns {
            assert_eq!(
                tcp::read(host.bench.cpu(), conn, &mut [0; 8]),
                Ok(0),
                "the stream has ended in order"
            );
            tcp::close(host.bench.cpu(), conn).unwrap();
        }
        let socket = socket.unwrap();
        assert!(udp::local(host.bench.cpu(), socket).is_some());
        udp::send_to(host.bench.cpu(), socket, host.addr, b"to myself").unwrap();
        host.bench.run();
        assert_eq!(heard.try_iter().collect::<Vec<_>>(), [(AppEvent::Datagrams, 3)]);
        host.bench.netisrs[0].end(other.unwrap());
        host.bench.run();
        assert_eq!(udp::local(host.bench.cpu(), socket), None);
        host.bench.advance(Duration::from_secs(130));
        assert_eq!(host.left(), 0);
        assert!(host.heard.recv().is_ok() && host.heard.iter().count() > 0, "it is gone, and so is its end");
        let again = host.addr;
        assert!(tcp::listen(host.bench.cpu(), &listener(again, false)).is_ok(), "the port is free");
    }
}

#[test]
fn a_program_that_cannot_begin_leaves_nothing_behind() {
    let mut bench = Bench::new(1);
    let addr = SocketAddr::from((addr4(1, 1), PORT));
    let (begun, _) = begin(
        &mut bench,
        move |cx| {
            cx.listen(&listener(addr, false), 0)?;
            cx.listen(&listener(addr, false), 1).map(|_| ())
        },
        |_, _, _| {},
    );
    assert_eq!(begun.unwrap_err(), Error::AddrInUse);
    bench.run();
    assert!(tcp::listen(bench.cpu(), &listener(addr, false)).is_ok());
}

#[test]
fn as_many_programs_as_there_may_be_and_no_more() {
    let mut bench = Bench::new(1);
    let nothing = |bench: &mut Bench| begin(bench, |_| Ok(()), |_, _, _| {}).0;
    let ids: Vec<_> = (0..PROGRAMS_MAX).map(|_| nothing(&mut bench).unwrap()).collect();
    assert_eq!(nothing(&mut bench), Err(Error::TooMany));
    bench.netisrs[0].end(ids[7]);
    bench.run();
    assert!(nothing(&mut bench).is_ok_and(|id| id != ids[7]), "the place, under another name");
}

#[test]
fn connections_of_a_program_that_leaves_go_to_another_that_shares_the_port() {
    for addr in families() {
        let mut bench = Bench::new(1);
        let addr = SocketAddr::from((addr, PORT));
        // Listens, and never accepts: no turn between the connections' coming and its end.
        let first = tcp::listen(bench.cpu(), &listener(addr, true)).unwrap();
        let wanted = to(addr);
        for _ in 0..5 {
            tcp::connect(bench.cpu(), &wanted).unwrap();
        }
        bench.run();
        let (_, heard) =
            begin(&mut bench, move |cx| cx.listen(&listener(addr, true), 10).map(|_| ()), |_, _, _| {});
        tcp::unlisten(bench.cpu(), first);
        bench.run();
        assert_eq!(heard.try_iter().collect::<Vec<_>>(), [(AppEvent::Accepted, 10); 5]);
    }
}
