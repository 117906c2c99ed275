//! Listeners and connections of one interface.

use super::*;
use crate::host::tcp::pcbs::HALVES_MAX;
use crate::link::tables::IfIndex;

/// Our address on a link, and that of a host there.
fn on(i: IfIndex, is_v4: bool) -> (IpAddr, IpAddr) {
    match is_v4 {
        true => (addr4(i, 1).into(), addr4(i, 9).into()),
        false => (addr6(i, 1).into(), addr6(i, 9).into()),
    }
}

fn listener(bench: &mut Bench, is_v4: bool, device: IfIndex) -> Result<ListenerId, Error> {
    let any: IpAddr = if is_v4 { [0; 4].into() } else { [0_u16; 8].into() };
    let mut wanted = listen_on((any, 80).into());
    wanted.settings.device = device;
    listen(bench.cpu(), &wanted)
}

/// The header of the last segment that was sent on a link.
fn answer(bench: &mut Bench, i: IfIndex, is_v4: bool) -> Option<Header> {
    let frame = bench.sent(i).pop()?;
    Header::parse(&frame[if is_v4 { 34 } else { 54 }..]).ok()
}

/// A host on the link shakes hands from a port.
fn handshake(bench: &mut Bench, i: IfIndex, (us, them): (IpAddr, IpAddr), port: u16) -> Header {
    bench.inject(i, frame(i, &syn_packet(them, us, port)));
    bench.run();
    let answer = answer(bench, i, us.is_ipv4()).unwrap();
    let ack = Header {
        src_port: port,
        dst_port: 80,
        seq: answer.ack,
        ack: answer.seq.wrapping_add(1),
        flags: Flags::ACK,
        window: 1000,
        urgent: 0,
        options: Options::NONE,
    };
    if answer.flags == Flags::SYN | Flags::ACK {
        bench.inject(i, frame(i, &tcp(them, us, &ack, &[])));
        bench.run();
    }
    answer
}

fn syn_packet(from: IpAddr, to: IpAddr, src_port: u16) -> Vec<u8> {
    let (flags, options) = (Flags::SYN, Options::NONE);
    let header = Header { src_port, dst_port: 80, seq: 1, ack: 0, flags, window: 1000, urgent: 0, options };
    tcp(from, to, &header, &[])
}

#[test]
fn a_listener_of_an_interface_takes_connections_that_come_by_it_alone() {
    for is_v4 in [true, false] {
        let mut bench = Bench::new(2);
        assert_eq!(listener(&mut bench, is_v4, 9), Err(Error::NoInterface));
        let first = listener(&mut bench, is_v4, 1).unwrap();
        // By the other link it is a closed port, whatever address of ours is meant.
        let strays = [on(2, is_v4), (on(1, is_v4).0, on(2, is_v4).1)];
        for ends in strays {
            assert!(handshake(&mut bench, 2, ends, 5000).flags.rst());
        }
        let second = listener(&mut bench, is_v4, 2).unwrap();
        assert_eq!(listener(&mut bench, is_v4, 2), Err(Error::AddrInUse));
        for (i, id, other) in [(1, first, second), (2, second, first)] {
            handshake(&mut bench, i, on(i, is_v4), 5001);
            let accepted = accept(bench.cpu(), id).unwrap();
            assert_eq!(accept(bench.cpu(), other), Err(Error::WouldBlock));
            assert_eq!(accepted.ends.zone, i, "it is bound as its listener");
            send(bench.cpu(), accepted.id, b"hello").unwrap();
            bench.run();
            assert!(answer(&mut bench, i, is_v4).is_some_and(|header| header.flags.psh()));
            // What it is sent by the other link is not its own.
            let (us, them) = on(i, is_v4);
            let flags = Flags::ACK;
            let bytes = Header {
                src_port: 5001,
                dst_port: 80,
                seq: 2,
                ack: 1,
                flags,
                window: 1000,
                urgent: 0,
                options: Options::NONE,
            };
            bench.inject(3 - i, frame(3 - i, &tcp(them, us, &bytes, b"stray")));
            bench.run();
            assert_eq!(read(bench.cpu(), accepted.id, &mut [0; 9]), Err(Error::WouldBlock));
        }
    }
}

#[test]
fn a_listener_of_an_interface_answers_a_flood_with_cookies_that_are_taken() {
    for is_v4 in [true, false] {
        let mut bench = Bench::new(2);
        let id = listener(&mut bench, is_v4, 1).unwrap();
        let ends = on(1, is_v4);
        for at in 0..HALVES_MAX {
            let port = u16::try_from(at + 10_000).unwrap();
            bench.inject(1, frame(1, &syn_packet(ends.1, ends.0, port)));
            if at % 64 == 0 {
                bench.run();
                bench.forget_sent();
            }
        }
        bench.run();
        bench.forget_sent();
        handshake(&mut bench, 1, ends, 5000);
        assert_eq!(bench.counted(Count::TcpCookiesTaken), 1);
        assert_eq!(accept(bench.cpu(), id).unwrap().ends.zone, 1);
    }
}

#[test]
fn a_connection_of_an_interface_leaves_by_it_or_not_at_all() {
    for is_v4 in [true, false] {
        let mut bench = Bench::new(2);
        let (us, them) = on(1, is_v4);
        let mut wanted = connector((them, 80).into());
        wanted.settings.device = 2;
        assert_eq!(connect(bench.cpu(), &wanted), Err(Error::NetworkUnreachable));
        wanted.settings.device = 9;
        assert_eq!(connect(bench.cpu(), &wanted), Err(Error::NoInterface));
        wanted.settings.device = 1;
        let id = connect(bench.cpu(), &wanted).unwrap();
        bench.run();
        let syn = answer(&mut bench, 1, is_v4).unwrap();
        let flags = Flags::SYN | Flags::ACK;
        let reply = Header {
            src_port: 80,
            dst_port: syn.src_port,
            seq: 1,
            ack: syn.seq.wrapping_add(1),
            flags,
            window: 1000,
            urgent: 0,
            options: Options::NONE,
        };
        // Another one between the same ends cannot be told from it.
        let again = Connect { port: Some(syn.src_port), ..connector((them, 80).into()) };
        assert_eq!(connect(bench.cpu(), &again), Err(Error::AddrInUse));
        bench.inject(1, frame(1, &tcp(them, us, &reply, &[])));
        bench.run();
        assert_eq!(connection(bench.cpu(), id).map(|(_, tcb)| tcb.state()), Some(State::Established));
    }
}
