//! The bounds of a channel, on a CPU that is turned by hand.

use core::net::{IpAddr, Ipv4Addr};

use pkt::byte_channel::{Reader, Writer};
use pkt::wake::Sleeper;

use super::datagram::SendParams;
use super::*;
use crate::base::count::Count;
use crate::host::app::NOTIFIERS_MAX;
use crate::host::sock::Error;
use crate::host::udp;
use crate::ip::ip_tx::IpTxParams;
use crate::testkit::{Bench, addr4, addr6};

const SIZE: Size = Size { lanes: 2048, lane_bytes: 64 };

/// Opens a channel to the CPU of a bench; notifications are left to the test, which turns it.
fn open(bench: &mut Bench) -> Result<Client, Error> {
    let waker = Sleeper::new(Box::new(|| ())).waker();
    let (mut client, far) = channel(SIZE, waker).unwrap();
    let (_, flag) = bench.netisrs[0].open(Box::new(far))?;
    client.attach(crate::turn::msg::Notifier::new(flag, Sleeper::new(Box::new(|| ())).waker()));
    Ok(client)
}

fn listen(listener: u32, port: u16) -> Command {
    let addr = (IpAddr::V4(Ipv4Addr::UNSPECIFIED), port).into();
    Command::Listen(Listen { listener, addr, zone: 0, only_v6: false, is_shared: false, backlog: Some(9) })
}

fn say(client: &mut Client, command: &Command) {
    client.push(command);
    client.publish().unwrap();
}

#[test]
fn as_many_programs_of_a_cpu_have_doors_as_may_and_one_that_leaves_makes_room() {
    let mut bench = Bench::new(1);
    let mut clients: Vec<_> = (0..NOTIFIERS_MAX).map(|_| open(&mut bench).unwrap()).collect();
    assert!(matches!(open(&mut bench), Err(Error::TooMany)));
    clients.pop();
    bench.run();
    clients.push(open(&mut bench).unwrap());
    bench.run();
    assert!(clients.iter().all(|client| !client.is_over()));
}

#[test]
fn a_program_that_leaves_with_more_lanes_than_there_are_events_makes_room_each_time() {
    let mut bench = Bench::new(1);
    let lanes = RECORDS + RECORDS / 2;
    for round in 1..=NOTIFIERS_MAX + 6 {
        let mut client = open(&mut bench).unwrap();
        (0..9).for_each(|n| client.push(&listen(n, 80 + u16::try_from(n).unwrap())));
        let held: Vec<_> = (0..lanes).map(|_| client.take_lane().unwrap()).collect();
        for (tx, _) in &held {
            client.push(&Command::Set(Target::Lane(tx.lane()), Setting::NoDelay(true)));
        }
        while bench.counted(Count::ChannelCommands) < (round * (lanes + 9)) as u64 {
            client.publish().unwrap();
            bench.run();
        }
        drop((held, client));
        bench.run();
    }
    let clients: Vec<_> = (0..NOTIFIERS_MAX).map(|_| open(&mut bench).unwrap()).collect();
    assert!(matches!(open(&mut bench), Err(Error::TooMany)), "all {} doors were free", clients.len());
    assert_eq!(bench.counted(Count::ChannelsBroken), 0);
}

#[test]
fn more_commands_than_are_obeyed_in_a_turn_wait_for_the_next_and_none_is_lost() {
    let mut bench = Bench::new(1);
    let mut client = open(&mut bench).unwrap();
    let count = RECORDS + COMMANDS_MAX;
    let lane = client.take_lane().unwrap();
    let set = Command::Set(Target::Lane(lane.0.lane()), Setting::NoDelay(true));
    (0..count).for_each(|_| client.push(&set));
    client.publish().unwrap();
    let obeyed = |bench: &Bench| bench.counted(Count::ChannelCommands);
    let mut turns = Vec::new();
    while obeyed(&bench) < count as u64 {
        let before = obeyed(&bench);
        let now = bench.cpu().now;
        bench.netisrs[0].turn(now);
        turns.push(obeyed(&bench) - before);
        client.publish().unwrap();
    }
    // Some at the knock, and some that were left by the turn before.
    assert!(turns.iter().all(|obeyed| *obeyed <= 2 * COMMANDS_MAX as u64), "{turns:?}");
    assert!(turns.len() > 2);
}

#[test]
fn listeners_and_offers_beyond_their_bounds_close_the_channel_and_nobody_else() {
    for (wrong, is_wrong) in [(LISTENERS_MAX - 1, false), (LISTENERS_MAX, true)] {
        let mut bench = Bench::new(1);
        let (mut client, mut other) = (open(&mut bench).unwrap(), open(&mut bench).unwrap());
        say(&mut client, &listen(wrong, 80));
        say(&mut other, &listen(0, 81));
        bench.run();
        assert_eq!((client.is_over(), other.is_over()), (is_wrong, false));
        assert_eq!(bench.counted(Count::ChannelsBroken), is_wrong.into());
    }
    for (offers, is_wrong) in [(OFFERS_MAX, false), (OFFERS_MAX + 1, true)] {
        let mut bench = Bench::new(1);
        let mut client = open(&mut bench).unwrap();
        say(&mut client, &listen(0, 80));
        let lanes: Vec<_> = (0..offers).map(|_| client.take_lane().unwrap()).collect();
        for (tx, _) in &lanes {
            say(&mut client, &Command::Offer { listener: 0, lane: tx.lane() });
            bench.run();
        }
        assert_eq!(client.is_over(), is_wrong);
    }
}

#[test]
fn a_place_takes_connections_once_it_is_opened_and_its_settings_can_change() {
    let mut bench = Bench::new(1);
    let mut client = open(&mut bench).unwrap();
    let addr = (IpAddr::V4(Ipv4Addr::UNSPECIFIED), 80).into();
    let place = Listen { listener: 3, addr, zone: 0, only_v6: false, is_shared: false, backlog: None };
    say(&mut client, &Command::Listen(place));
    bench.run();
    let listed = |bench: &mut Bench| bench.cpu().tcp.as_ref().unwrap().page_of_listeners(0, 9).0;
    assert!(listed(&mut bench).is_empty());
    let listening = Ok(Some(Event::Listening(3, Ok(addr))));
    assert_eq!(client.next_event(), listening);
    for backlog in [7, 5] {
        say(&mut client, &Command::Set(Target::Listener(3), Setting::NoDelay(true)));
        say(&mut client, &Command::Open { listener: 3, backlog });
        bench.run();
        let backlogs: Vec<usize> = listed(&mut bench).iter().map(|listener| listener.backlog).collect();
        assert_eq!(backlogs, [backlog as usize]);
        assert_eq!(client.next_event(), listening, "it is told when it is so");
    }
    // One that is not there needs nothing.
    say(&mut client, &Command::Open { listener: 4, backlog: 1 });
    bench.run();
    assert!(!client.is_over());
}

#[test]
fn a_lane_that_is_not_there_or_not_begun_closes_the_channel() {
    for lane in [SIZE.lanes, u32::MAX, 5] {
        let mut bench = Bench::new(1);
        let mut client = open(&mut bench).unwrap();
        let remote = (addr4(1, 9), 80).into();
        say(&mut client, &Command::Connect(Connect { lane, remote, local: None, port: None, zone: 0 }));
        bench.run();
        assert!(client.is_over(), "lane {lane}");
    }
}

#[test]
fn lanes_beyond_those_of_a_channel_are_refused_where_they_are_asked_for() {
    let mut bench = Bench::new(1);
    let mut client = open(&mut bench).unwrap();
    let mut lanes: Vec<_> = (0..SIZE.lanes).map(|_| client.take_lane().unwrap()).collect();
    assert!(client.take_lane().is_none());
    let (tx, rx) = lanes.pop().unwrap();
    let lane = tx.lane();
    drop((tx, rx));
    say(&mut client, &Command::Close { lane, aborts: false });
    bench.run();
    assert_eq!(client.next_event(), Ok(Some(Event::Free(lane))));
    client.free_lane(lane);
    assert!(client.take_lane().is_some_and(|(tx, _)| tx.lane() == lane));
}

/// A lane of datagrams at a port of this host.
fn bind(bench: &mut Bench, client: &mut Client, ip: IpAddr) -> (Writer, Reader) {
    let lane = client.take_lane().unwrap();
    let question = Question { lane: lane.0.lane(), serial: 0 };
    let addr = (ip, 5300).into();
    say(
        client,
        &Command::Bind(
            question,
            Bind { addr, zone: 0, only_v6: false, is_shared: false, bind_any: false, device: 0 },
        ),
    );
    bench.run();
    assert_eq!(client.next_event(), Ok(Some(Event::Answer(question, Ok(addr)))));
    lane
}

#[test]
fn a_client_that_reads_no_responses_is_not_read_and_none_is_lost() {
    let mut bench = Bench::new(1);
    let mut client = open(&mut bench).unwrap();
    let (tx, _rx) = bind(&mut bench, &mut client, addr4(1, 1).into());
    let group = Ipv4Addr::new(239, 1, 1, 1).into();
    let on = Link { addr: Ipv4Addr::UNSPECIFIED.into(), ifindex: 0 };
    let count = u32::try_from(ANSWERS_MAX + 3 * RECORDS).unwrap();
    for serial in 0..count {
        let question = Question { lane: tx.lane(), serial };
        client.push(&Command::Join(
            question,
            Join { group, on, joins: serial.is_multiple_of(2), of: Sender::Any },
        ));
    }
    for _ in 0..100 {
        client.publish().unwrap();
        bench.run();
    }
    let obeyed = usize::try_from(bench.counted(Count::ChannelCommands)).unwrap();
    assert!((ANSWERS_MAX..=1 + ANSWERS_MAX + RECORDS).contains(&obeyed), "{obeyed}");
    let mut answers = 0;
    while answers < count {
        while let Some(event) = client.next_event().unwrap() {
            let Event::Answer(question, Ok(_)) = event else { panic!("{event:?}") };
            assert_eq!(question.serial, answers);
            answers += 1;
        }
        client.publish().unwrap();
        bench.run();
    }
}

#[test]
fn a_datagram_that_is_longer_than_a_lane_is_dropped_and_counted_and_the_next_one_comes() {
    for ip in [addr4(1, 1).into(), addr6(1, 1).into()] {
        let mut bench = Bench::new(1);
        let mut client = open(&mut bench).unwrap();
        let (_tx, mut rx) = bind(&mut bench, &mut client, ip);
        let (addr, settings) = ((ip, 0).into(), udp::Settings::default());
        let place = udp::Bind { addr, zone: 0, only_v6: false, is_shared: false, settings };
        let other = udp::bind(bench.cpu(), &place).unwrap();
        for len in [SIZE.lane_bytes - datagram::HEAD + 1, SIZE.lane_bytes - datagram::HEAD] {
            let to: core::net::SocketAddr = (ip, 5300).into();
            udp::send_to(bench.cpu(), other, to, &vec![7; len]).unwrap();
        }
        bench.run();
        assert_eq!(bench.counted(Count::ChannelDatagramsTooLong), 1);
        let len = datagram::take(&mut rx, |head, _| (true, usize::from(head.len)));
        assert_eq!(len, Ok(Some(SIZE.lane_bytes - datagram::HEAD)));
    }
}

#[test]
fn more_datagrams_than_are_moved_in_a_turn_wait_for_the_next() {
    let mut bench = Bench::new(1);
    let waker = Sleeper::new(Box::new(|| ())).waker();
    let (mut client, far) = channel(Size { lanes: 4, lane_bytes: 65_536 }, waker).unwrap();
    let (_, flag) = bench.netisrs[0].open(Box::new(far)).unwrap();
    client.attach(crate::turn::msg::Notifier::new(flag, Sleeper::new(Box::new(|| ())).waker()));
    let ip = addr4(1, 1).into();
    let (mut tx, _rx) = bind(&mut bench, &mut client, ip);
    let head = datagram::Head {
        peer: Some((ip, 9).into()),
        zone: 0,
        local: None,
        len: 1,
        how: SendParams::default(),
    };
    let count = 5 * socket::DATAGRAMS_AT_ONCE as u64;
    (0..count).for_each(|_| assert_eq!(datagram::put(&mut tx, &head, [b"x", &[]]), Ok(true)));
    let _ = tx.publish();
    say(&mut client, &Command::Look(tx.lane()));
    let mut sent = vec![bench.counted(Count::UdpOut)];
    while sent[sent.len() - 1] < count {
        let now = bench.cpu().now;
        bench.netisrs[0].turn(now);
        sent.push(bench.counted(Count::UdpOut));
    }
    let most = 2 * socket::DATAGRAMS_AT_ONCE as u64;
    assert!(sent.windows(2).all(|turns| turns[1] - turns[0] <= most) && sent.len() > 3, "{sent:?}");
}

#[test]
fn each_datagram_goes_as_was_said_when_it_was_written_and_says_how_it_came() {
    for ip in [addr4(1, 1).into(), addr6(1, 1).into()] {
        let mut bench = Bench::new(1);
        let mut client = open(&mut bench).unwrap();
        let (mut tx, mut rx) = bind(&mut bench, &mut client, ip);
        let looks = [(7, 1), (9, 0xff)].map(|(hops, class)| IpTxParams { hops, class, fib: 0 });
        for tx_params in looks {
            let how = SendParams { tx_params, ..SendParams::default() };
            let head = datagram::Head { peer: Some((ip, 5300).into()), zone: 0, local: None, len: 1, how };
            assert_eq!(datagram::put(&mut tx, &head, [b"x", &[]]), Ok(true));
        }
        let _ = tx.publish();
        say(&mut client, &Command::Look(tx.lane()));
        bench.run();
        let come = looks.map(|_| {
            let come = datagram::take(&mut rx, |head, _| (true, head.how.tx_params)).unwrap();
            // There is room for one at a time.
            let _ = rx.release();
            say(&mut client, &Command::Look(tx.lane()));
            bench.run();
            come
        });
        assert_eq!(come, looks.map(Some));
    }
}
