//! Speaks as FRR's zebra does to a forwarding plane.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::io::Write;
use std::net::TcpStream;

use dev::netns::Netns;
use ipnet::IpNet;

use crate::wait::until;

/// A connection to where routes are told.
pub(super) struct Feeder(TcpStream);

/// Networks, numbered: `/24` and `/48`.
#[derive(Clone, Copy)]
pub(super) struct Nets {
    pub(super) v4: u32,
    pub(super) v6: u32,
}

impl Feeder {
    pub(super) fn connect(netns: &Netns) -> Self {
        let connect = || TcpStream::connect(("127.0.0.1", 2620)).ok();
        Self(until("routes may be told", || netns.run(connect).unwrap()))
    }

    pub(super) fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).unwrap();
    }
}

impl Nets {
    /// The last IPv4 network, an address in it.
    pub(super) fn last(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(net4(self.v4 - 1).to_bits() | 1)
    }

    fn each(self) -> impl Iterator<Item = IpNet> {
        let v4 = (0..self.v4).map(|n| IpNet::new_assert(net4(n).into(), 24));
        let v6 = (0..self.v6).map(|n| {
            let bits = 0x2400 << 112 | u128::from(n) << 80;
            IpNet::new_assert(Ipv6Addr::from_bits(bits).into(), 48)
        });
        v4.chain(v6)
    }

    /// All of them, over these gateways; with groups as zebra makes them, a group before one of its members.
    pub(super) fn announced(self, v4: IpAddr, v6: IpAddr, has_groups: bool) -> Vec<u8> {
        let mut bytes = Vec::new();
        if has_groups {
            for (at, via) in [(10, v4), (20, v6)] {
                bytes.extend(frame(&[&group(at, at + 1)]));
                bytes.extend(frame(&[&next_hop(at + 1, via)]));
            }
        }
        for net in self.each() {
            let (id, via) = if net.addr().is_ipv4() { (10, v4) } else { (20u32, v6) };
            let leads = if has_groups { attr(30, &id.to_ne_bytes()) } else { attr(5, &octets(via)) };
            bytes.extend(frame(&[&message(24, &body(net, &leads))]));
        }
        bytes
    }

    /// Ends all of them.
    pub(super) fn withdrawn(self) -> Vec<u8> {
        self.each().flat_map(|net| frame(&[&message(25, &body(net, &[]))])).collect()
    }
}

/// A network that is spread over the address space, as those of the Internet are.
fn net4(n: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(0x1400_0000 + (n << 8))
}

/// A route.
pub(super) fn route(net: IpNet, via: IpAddr) -> Vec<u8> {
    frame(&[&message(24, &body(net, &attr(5, &octets(via))))])
}

/// A route that is deleted and made anew in one frame.
pub(super) fn replaced(net: IpNet, via: IpAddr) -> Vec<u8> {
    frame(&[&message(25, &body(net, &[])), &message(24, &body(net, &attr(5, &octets(via))))])
}

fn frame(messages: &[&[u8]]) -> Vec<u8> {
    let messages = messages.concat();
    let len = u16::try_from(messages.len() + 4).unwrap();
    [&[1, 1], &len.to_be_bytes()[..], &messages].concat()
}

fn message(kind: u16, body: &[u8]) -> Vec<u8> {
    let len = u32::try_from(16 + body.len()).unwrap();
    [&len.to_ne_bytes()[..], &kind.to_ne_bytes(), &[0; 10], body].concat()
}

/// `struct rtmsg` and attributes: a route of BGP in the main table.
fn body(net: IpNet, leads: &[u8]) -> Vec<u8> {
    let mut body = vec![family(net.addr()), net.prefix_len(), 0, 0, 254, 186, 0, 1, 0, 0, 0, 0];
    body.extend(attr(1, &octets(net.addr())));
    body.extend(attr(6, &20u32.to_ne_bytes()));
    body.extend(leads);
    body
}

fn next_hop(id: u32, via: IpAddr) -> Vec<u8> {
    let fixed = [family(via), 0, 11, 0, 0, 0, 0, 0];
    message(104, &[&fixed[..], &attr(1, &id.to_ne_bytes()), &attr(6, &octets(via))].concat())
}

fn group(id: u32, member: u32) -> Vec<u8> {
    let member = [member.to_ne_bytes(), [0; 4]].concat();
    message(104, &[&[0, 0, 11, 0, 0, 0, 0, 0][..], &attr(1, &id.to_ne_bytes()), &attr(2, &member)].concat())
}

fn attr(kind: u16, value: &[u8]) -> Vec<u8> {
    let len = u16::try_from(value.len() + 4).unwrap();
    [&len.to_ne_bytes()[..], &kind.to_ne_bytes(), value].concat()
}

fn octets(addr: IpAddr) -> Vec<u8> {
    match addr {
        IpAddr::V4(addr) => addr.octets().to_vec(),
        IpAddr::V6(addr) => addr.octets().to_vec(),
    }
}

const fn family(addr: IpAddr) -> u8 {
    if addr.is_ipv4() { 2 } else { 10 }
}
