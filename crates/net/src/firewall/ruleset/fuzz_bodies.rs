//! Rules and packets made of any bytes: what is compiled finds the same as the rules spelled out one by one.
#![expect(clippy::missing_panics_doc, reason = "to panic when something does not hold is what they are for")]

mod choices;
mod packets;
mod entries;
mod words;

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use ipfw::command::SetCommand;
use ipfw::rule::{Action, Hook, Rule};
use pkt::{Arena, Flags, Pkt, Pool};
use wire::ether::Mac;

use super::reference::{self, Plain, World};
use super::{Rules, Ruleset, Seen};
use crate::fib::{Prefix, Route, To};
use crate::firewall::pkt_info::PktInfo;
use crate::link::driver::Caps;
use crate::link::tables::{Config, IfAddr, Ifnet, Rxcsum, Tables};

use choices::Dice;

/// Packets that each list of rules is asked about.
const PACKETS: usize = 96;

/// All rules that a packet matches are found, in their order, from wherever one begins. Answers how many packets were
/// asked about.
pub fn compiled_equals_plain(data: &[u8]) -> usize {
    let mut dice = Dice::new(data);
    let tables = &*TABLES;
    let mut rules = Rules::new(Action::Deny);
    let most = if dice.one_in(4) { 200 } else { 24 };
    let count = 1 + dice.below(most);
    let style = words::Style::of(&mut dice);
    for _ in 0..count {
        let rule = words::rule(&mut dice, style);
        assert!(rules.add(rule).is_ok());
    }
    let disable = u32::from(dice.byte() & dice.byte());
    assert!(rules.set(&SetCommand::Switch { disable, enable: 0 }).is_ok());
    let Some((lookups, lists)) = entries::lookups(&mut dice, tables) else { return 0 };
    let ruleset = rules.compile(tables, &lookups);
    let world = World { tables, lists: &lists };
    let list: Vec<Rule> = rules.entries().iter().map(|entry| entry.rule.clone()).collect();
    let Ok(mut pools) = Arena::carve(1, 4, false) else { return 0 };
    let Some(pool) = pools.first_mut() else { return 0 };
    let check = |_| check(&mut dice, pool, &world, &ruleset, &list, disable);
    (0..PACKETS).map(check).filter(|asked| *asked).count()
}

fn check(
    dice: &mut Dice<'_>,
    pool: &mut Pool,
    world: &World<'_>,
    ruleset: &Ruleset,
    list: &[Rule],
    disabled: u32,
) -> bool {
    let bytes = packets::packet(dice);
    let hook = dice.of(&Hook::ALL);
    let (recv, xmit, tag) = (dice.small(4), dice.small(4), dice.small(3));
    // A bridge has the frame as it is.
    let frame = if hook.is_layer2() { 1 } else { dice.of(&[0, 1, 1, 2]) };
    let addrs = [packets::mac(dice), packets::mac(dice)];
    let kind = if hook == Hook::Frame { dice.of(&[1, 0x806, 0x88f0]) } else { 0 };
    let Some(mut pkt) = load(pool, &addrs, frame == 2, kind, &bytes) else { return false };
    pkt.moved = frame == 0;
    let info = PktInfo::at_hook(&pkt, hook, recv, xmit);
    let mut plain = match hook {
        Hook::Frame => Some(Plain::of_frame(kind, addrs, recv, tag)),
        _ => Plain::read(&bytes, hook, recv, xmit, tag),
    };
    plain.iter_mut().for_each(|plain| plain.frame = (frame != 0).then_some(addrs));
    assert_eq!(info.is_err(), plain.is_none(), "{info:?} of {bytes:x?}");
    let (Ok(mut info), Some(plain)) = (info, plain) else {
        pool.give(pkt);
        return false;
    };
    info.tag = tag;
    let from = dice.below(list.len() + 1);
    let found = all(ruleset, &info, &pkt, world.tables, from);
    let is_meant = |rule: &Rule| disabled >> rule.set & 1 == 0 && reference::matches(rule, &plain, world);
    let meant: Vec<_> = (from..list.len()).filter(|at| is_meant(&list[*at])).collect();
    assert_eq!(found, meant, "{plain:#?} of {list:#?}");
    pool.give(pkt);
    true
}

/// All rules from one on that a packet matches.
fn all(ruleset: &Ruleset, info: &PktInfo, pkt: &Pkt, tables: &Tables, from: usize) -> Vec<usize> {
    let next = |from| ruleset.first(info, pkt, tables, from, &mut Seen::default());
    core::iter::successors(next(from), |at| next(at + 1)).collect()
}

/// A packet as input leaves it: behind the header of its frame, and perhaps behind a tag.
fn load(pool: &mut Pool, addrs: &[[u8; 6]; 2], is_tagged: bool, kind: u16, bytes: &[u8]) -> Option<Pkt> {
    let mut pkt = pool.take()?;
    pkt.buffer_mut().fill(0xa5);
    let tag = &[0; 4][..if is_tagged { 4 } else { 0 }];
    let frame = [addrs.as_flattened(), tag, &kind.to_be_bytes(), bytes].concat();
    pkt.append(frame.len()).ok()?.copy_from_slice(&frame);
    pkt.trim_front(frame.len() - bytes.len());
    if is_tagged {
        pkt.flags.set(Flags::VLAN);
    }
    Some(pkt)
}

/// Three interfaces, 10.0.i.1/24 and 2001:db8:i::1/64 and link-local, and a default route by the first.
static TABLES: LazyLock<Tables> = LazyLock::new(|| {
    let ifnet = |i: u8| Ifnet {
        kind: crate::link::logical::Kind::Device,
        index: i.into(),
        name: format!("{}{i}", if i < 3 { "em" } else { "igb" }),
        mac: Mac([2, 0, 0, 0, 0, i]),
        mtu: 1500,
        up: true,
        addrs: vec![
            IfAddr { addr: IpAddr::V4(Ipv4Addr::new(10, 0, i, 1)), prefix_len: 24 },
            IfAddr { addr: Ipv6Addr::new(0x2001, 0xdb8, i.into(), 0, 0, 0, 0, 1).into(), prefix_len: 64 },
            IfAddr { addr: Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, i.into()).into(), prefix_len: 64 },
        ],
        rxcsum: Rxcsum::Verify,
        caps: Caps::default(),
        monitor: false,
        queue: crate::out::ifq::QueueSpec::default(),
        autoconf: None,
        rtadv: None,
        fdb: crate::link::fdb::Settings::default(),
        port: None,
        groups: Vec::new(),
        learned: std::sync::Arc::default(),
        metric: 0,
        published: std::sync::Arc::default(),
        twin: crate::link::tables::Twin::None,
        fib: 0,
    };
    let default = |addr: IpAddr, via: IpAddr| {
        Prefix::new(addr, 0).map(|to| Route::new(to, To::Gateway { ifindex: 1, via }))
    };
    let routes = [
        default(Ipv4Addr::UNSPECIFIED.into(), Ipv4Addr::new(10, 0, 1, 254).into()),
        default(Ipv6Addr::UNSPECIFIED.into(), Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 254).into()),
    ];
    Tables::new(Config {
        generation: 1,
        ifs: (1..=3).map(ifnet).collect(),
        routes: routes.into_iter().flatten().collect(),
        forwarding: true,
        ..Config::default()
    })
});
