//! Properties of the routes of a source, whatever messages come. The fuzz target checks them, and so do the ordinary tests.

use core::net::{Ipv4Addr, Ipv6Addr};
use std::collections::BTreeMap;
use std::sync::Arc;

use net::fib::{FibIndex, Hop, Prefix, To};
use wire::fpm;
use wire::rtnetlink::{Content, messages};

use super::table::{Edit, Held, Table, Told};
use super::target::{RawHop, RawTo};

/// Interfaces of the source, which have the same numbers here.
const INTERFACES: u32 = 8;
const NEW_ROUTE: u16 = 24;
const DEL_ROUTE: u16 = 25;
const NEW_NEXT_HOP: u16 = 104;
const DEL_NEXT_HOP: u16 = 105;

/// Steps, one after the other: a byte that says which, and three of its own. The first byte says whether zebra tells them or the kernel.
///
/// # Panics
/// A property does not hold.
pub fn routes(data: &[u8]) {
    let Some((first, data)) = data.split_first() else { return };
    let mut source = Source::new(*first);
    let mut left = data;
    while let Some(([choice, a, b, c], rest)) = left.split_first_chunk::<4>() {
        left = rest;
        match choice & 7 {
            // What comes from a peer is read by its length; here it is anything.
            0 => {
                let (frame, rest) = left.split_at(left.len().min(usize::from(*a)));
                left = rest;
                if let Ok(Some((inside, _))) = fpm::frame(frame) {
                    source.tell(inside);
                }
                source.tell(frame);
            }
            1 | 2 => source.tell(&route(NEW_ROUTE, *a, *b, *c)),
            3 => source.tell(&route(DEL_ROUTE, *a, *b, *c)),
            4 => source.tell(&next_hop(*a, *b)),
            5 => source.tell(&group(*a, &[(*b, 1), (*c, 1 + *c / 16)])),
            6 => source.tell(&message(DEL_NEXT_HOP, &[&[0; 8][..], &number(1, *a % 16)].concat())),
            _ => source.changes(*a),
        }
        if choice & 0x80 != 0 {
            source.publish();
        }
    }
    source.publish();
    source.table.clear();
    source.publish();
    assert_eq!((source.published.len(), source.table.routes()), (0, Held::default()), "nothing is left");
}

/// A source, and what the stack has of it.
struct Source {
    table: Table,
    told: Told,
    /// Interfaces with smaller numbers are down.
    first_up: u32,
    published: BTreeMap<(FibIndex, Prefix, u8), Arc<[Hop]>>,
}

impl Source {
    fn new(choice: u8) -> Self {
        let told = match choice % 3 {
            0 => Told::ByZebra,
            kind => Told::ByKernel { is_listed: kind == 1 },
        };
        Self { table: Table::default(), told, first_up: 0, published: BTreeMap::new() }
    }

    fn tell(&mut self, bytes: &[u8]) {
        for content in messages(bytes).flatten().filter_map(|message| message.content().ok()) {
            let fib = |table: u32| FibIndex::try_from(table % 3).unwrap_or_default();
            match content {
                Content::NewRoute(route) => self.table.learn(fib(route.table), &route, self.told, 7),
                Content::DelRoute(route) => self.table.unlearn(fib(route.table), &route, self.told, 7),
                Content::NewNextHop(next) => self.table.learn_next_hop(&next),
                Content::DelNextHop(id) => self.table.unlearn_next_hop(id),
                _ => {}
            }
        }
    }

    /// A resynchronisation begins or ends, or interfaces change.
    fn changes(&mut self, choice: u8) {
        let before = self.table.routes();
        match choice % 4 {
            0 => self.table.begin_round(),
            1 => {
                assert_eq!(self.table.sweep(), before.stale);
            }
            2 => assert!(self.table.sweep_but_untold(0) <= before.stale),
            _ => {
                self.first_up = u32::from(choice) / 4 % INTERFACES;
                self.table.interfaces_changed();
            }
        }
        if choice % 4 == 1 || choice % 4 == 2 {
            assert_eq!(self.table.routes().stale, 0);
        }
    }

    /// Gives the stack what has changed: it has then what another stack would be given, and no more.
    fn publish(&mut self) {
        let first_up = self.first_up;
        let lead = |raw: &RawHop| leads(raw, first_up);
        for Edit { fib, to, protocol, hops } in self.table.edits(&lead) {
            if hops.is_empty() {
                self.published.remove(&(fib, to, protocol));
            } else {
                self.published.insert((fib, to, protocol), hops);
            }
        }
        let mut all = BTreeMap::new();
        self.table.all(&lead, |edit| {
            let before = all.insert((edit.fib, edit.to, edit.protocol), edit.hops);
            assert!(before.is_none(), "a prefix twice");
        });
        assert_eq!(self.published, all);
        let held = self.table.routes();
        assert!(held.stale <= held.routes && all.len() <= held.routes, "{held:?}");
    }
}

fn leads(raw: &RawHop, first_up: u32) -> Option<To> {
    let ifindex = u16::try_from(raw.ifindex).ok().filter(|_| raw.ifindex >= first_up)?;
    match raw.to {
        RawTo::Via(via) => Some(To::Gateway { ifindex, via }),
        RawTo::Link => Some(To::OnLink { ifindex }),
        RawTo::Blackhole => Some(To::Blackhole),
        RawTo::Reject => Some(To::Reject),
        _ => None,
    }
}

fn attr(kind: u16, value: &[u8]) -> Vec<u8> {
    let len = u16::try_from(value.len() + 4).unwrap_or_default();
    let mut bytes = [&len.to_ne_bytes()[..], &kind.to_ne_bytes(), value].concat();
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn number(kind: u16, number: u8) -> Vec<u8> {
    attr(kind, &u32::from(number).to_ne_bytes())
}

fn message(kind: u16, body: &[u8]) -> Vec<u8> {
    let len = u32::try_from(16 + body.len()).unwrap_or_default();
    [&len.to_ne_bytes()[..], &kind.to_ne_bytes(), &[0; 10], body].concat()
}

fn gateway(is_v4: bool, n: u8) -> Vec<u8> {
    let (v4, v6) = (Ipv4Addr::new(10, 0, 0, n), Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, n.into()));
    if is_v4 { attr(5, &v4.octets()) } else { attr(5, &v6.octets()) }
}

/// A route of few: `to` says the network and its table, `leads` where, `kind` its protocol and metric.
fn route(message_kind: u16, to: u8, leads: u8, kind: u8) -> Vec<u8> {
    let is_v4 = to & 1 == 0;
    let (family, len) = if is_v4 { (2, 24) } else { (10, 48) };
    let (v4, v6) =
        (Ipv4Addr::new(20, to / 16, 0, 0), Ipv6Addr::new(0x2400, 0, (to / 16).into(), 0, 0, 0, 0, 0));
    let protocol = [186, 188, 12, 3][usize::from(kind % 4)];
    let action = if leads == 0xff { 6 } else { 1 };
    let mut body = vec![family, len, 0, 0, to / 2 % 4, protocol, 0, action, 0, 0, 0, 0];
    body.extend(if is_v4 { attr(1, &v4.octets()) } else { attr(1, &v6.octets()) });
    body.extend(number(6, kind / 4 % 4));
    match leads % 4 {
        0 => body.extend(number(30, leads / 4 % 16)),
        1 => body.extend([gateway(is_v4, leads / 4), number(4, leads / 4 % 8)].concat()),
        2 => body.extend(several(is_v4, &[leads / 4 % 8, leads / 32])),
        // Nothing, as in a message that ends a route.
        _ => {}
    }
    message(message_kind, &body)
}

fn several(is_v4: bool, hops: &[u8]) -> Vec<u8> {
    let hop = |n: &u8| {
        let via = gateway(is_v4, *n);
        let len = u16::try_from(8 + via.len()).unwrap_or_default();
        [&len.to_ne_bytes()[..], &[0, *n], &u32::from(*n).to_ne_bytes(), &via].concat()
    };
    attr(9, &hops.iter().flat_map(hop).collect::<Vec<u8>>())
}

fn next_hop(id: u8, n: u8) -> Vec<u8> {
    let fixed = [if n & 1 == 0 { 2 } else { 10 }, 0, 11, 0, 0, 0, 0, 0];
    let attrs = [number(1, id % 16), gateway(n & 1 == 0, n), number(5, n % 8)].concat();
    message(NEW_NEXT_HOP, &[&fixed[..], &attrs].concat())
}

/// A group, which may have itself as a member, and members that were never told.
fn group(id: u8, members: &[(u8, u8)]) -> Vec<u8> {
    let member =
        |(id, weight): &(u8, u8)| [&u32::from(id % 16).to_ne_bytes()[..], &[weight - 1, 0, 0, 0]].concat();
    let members: Vec<u8> = members.iter().flat_map(member).collect();
    message(NEW_NEXT_HOP, &[&[0; 8][..], &number(1, id % 16), &attr(2, &members)].concat())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_stack_has_what_a_source_says_whatever_it_says(steps in proptest::collection::vec(any::<u8>(), 0..400)) {
            super::routes(&steps);
        }
    }
}
