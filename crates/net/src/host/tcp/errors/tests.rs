use core::net::IpAddr;

use wire::Protocol;
use wire::tcp::View;

use core::time::Duration;

use super::*;
use crate::host::sock::Error;
use crate::host::tcp::send;
use crate::host::tcp::tests::{begun, standing};
use crate::testkit::build::{frame, ip};
use crate::testkit::{addr4, addr6};

/// Our end, the other one, and the length of the network header.
fn families() -> [(IpAddr, IpAddr, usize); 2] {
    [(addr4(1, 1).into(), addr4(1, 9).into(), 20), (addr6(1, 1).into(), addr6(1, 9).into(), 40)]
}

/// A router's message.
#[derive(Clone, Copy)]
enum Says {
    NoHost,
    NoPort,
    TooBig(u16),
}

/// A router, or the other host, says so to `us` of `packet`.
fn error(us: IpAddr, from: IpAddr, says: Says, packet: &[u8]) -> Vec<u8> {
    let quote = &packet[..packet.len().min(100)];
    let (protocol, header) = match (from, us) {
        (IpAddr::V4(_), IpAddr::V4(_)) => {
            let (code, mtu) = match says {
                Says::NoHost => (1, 0),
                Says::NoPort => (3, 0),
                Says::TooBig(mtu) => (4, mtu),
            };
            (Protocol::ICMP, icmp4::Message::Unreachable { code, mtu }.to_bytes(quote))
        }
        (IpAddr::V6(from), IpAddr::V6(us)) => {
            let message = match says {
                Says::NoHost => icmp6::Message::Unreachable { code: 3 },
                Says::NoPort => icmp6::Message::Unreachable { code: 4 },
                Says::TooBig(mtu) => icmp6::Message::PacketTooBig { mtu: mtu.into() },
            };
            (Protocol::ICMP6, message.to_bytes(from, us, quote))
        }
        _ => panic!("addresses of two families"),
    };
    frame(1, &ip(from, us, protocol, 64, &[&header, quote].concat()))
}

#[test]
fn connect_ends_on_a_reset_and_not_on_a_routers_error() {
    for (us, them, _) in families() {
        let (mut bench, id, syn) = begun(us, them);
        bench.inject(1, error(us, them, Says::NoHost, &syn));
        bench.run();
        assert_eq!(send(bench.cpu(), id, b"x"), Ok(1));
        bench.inject(1, error(us, them, Says::NoPort, &syn));
        bench.run();
        assert_eq!(send(bench.cpu(), id, b"x"), Err(Error::Refused));
    }
}

#[test]
fn connect_fails_with_host_unreachable_after_lasting_errors() {
    for (us, them, _) in families() {
        let (mut bench, id, syn) = begun(us, them);
        bench.inject(1, error(us, them, Says::NoHost, &syn));
        bench.advance(Duration::from_secs(181));
        assert_eq!(send(bench.cpu(), id, b"x"), Err(Error::HostUnreachable));
    }
}

#[test]
fn segments_too_long_for_the_path_are_resent_smaller_and_forged_errors_are_ignored() {
    for (us, them, at) in families() {
        let (mut bench, id, ours) = standing(us, them, |_| ());
        assert_eq!(send(bench.cpu(), id, &[7; 4200]), Ok(4200));
        bench.forget_sent();
        bench.run();
        let sent: Vec<_> = bench.sent(1).iter().map(|frame| frame[14..].to_vec()).collect();
        let lengths = |sent: &[Vec<u8>]| -> Vec<_> {
            sent.iter().map(|packet| View::new(&packet[at..]).unwrap().payload().len()).collect()
        };
        assert_eq!(lengths(&sent), [1400; 3]);
        // A number that is not in flight: a guess.
        let mut forged = sent[0].clone();
        forged[at + 4..at + 8].copy_from_slice(&(ours.seq.wrapping_sub(5)).to_be_bytes());
        bench.inject(1, error(us, addr_of_a_router(us), Says::TooBig(1300), &forged));
        bench.run();
        assert!(bench.sent(1).is_empty());
        bench.inject(1, error(us, addr_of_a_router(us), Says::TooBig(1300), &sent[0]));
        bench.run();
        let again: Vec<_> = bench.sent(1).iter().map(|frame| frame[14..].to_vec()).collect();
        let most = 1300 - at - 20;
        assert_eq!(lengths(&again), [most, most, most, 4200 - 3 * most]);
        assert_eq!(View::new(&again[0][at..]).unwrap().seq(), ours.seq + 1);
    }
}

fn addr_of_a_router(us: IpAddr) -> IpAddr {
    if us.is_ipv4() { addr4(1, 254).into() } else { addr6(1, 254).into() }
}
