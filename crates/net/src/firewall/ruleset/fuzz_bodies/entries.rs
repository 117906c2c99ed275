//! Tables with entries that packets hit now and then.

use core::net::IpAddr;

use ipfw::command::{FlowPart, FlowParts, TableEntry, TableKey, TableKind, TableSpec};
use ipfw::rule::TableArg;

use super::choices::Dice;
use super::packets::{PORTS, addr4, addr6, mac};
use crate::fib::Prefix;
use crate::firewall::table::Lookups;
use crate::link::tables::Tables;

const PARTS: FlowParts =
    FlowParts { src_ip: true, proto: true, src_port: true, dst_ip: true, dst_port: true };

/// A table's name, and its entries.
pub(in super::super) type List = (&'static str, Vec<TableEntry>);

/// Tables, and what was put into them.
pub(super) fn lookups(dice: &mut Dice<'_>, tables: &Tables) -> Option<(Lookups, Vec<List>)> {
    let mut lookups = Lookups::new(dice.long().into()).ok()?;
    let kinds = [
        ("addrs", TableKind::Addr),
        ("numbers", TableKind::Number),
        ("ifs", TableKind::Iface),
        ("flows", TableKind::Flow(PARTS)),
        ("macs", TableKind::Mac),
    ];
    let mut lists = Vec::new();
    for (name, kind) in kinds {
        let spec = TableSpec { kind, limit: Some(16), ..TableSpec::default() };
        assert_eq!(lookups.create(name, &spec), Ok(()));
        let mut list: Vec<TableEntry> = Vec::new();
        for _ in 0..dice.below(12) {
            let value = TableArg::Number(dice.small(3).into());
            let entry = TableEntry { key: key(dice, kind), value };
            let is_new = list.iter().all(|other| other.key != entry.key);
            assert_eq!(lookups.add(name, core::slice::from_ref(&entry), tables).is_ok(), is_new);
            list.extend(is_new.then_some(entry));
            if dice.one_in(4) {
                let gone = list.swap_remove(dice.below(list.len()));
                assert_eq!(lookups.delete(name, &[gone.key]), Ok(()));
                lookups.retire(lookups.epoch());
            }
        }
        lists.push((name, list));
    }
    Some((lookups, lists))
}

fn key(dice: &mut Dice<'_>, kind: TableKind) -> TableKey {
    match kind {
        TableKind::Addr => {
            let len = dice.of(&[0, 8, 16, 24, 31, 32, 64, 128]);
            let is_v6 = dice.one_in(2);
            let addr = addr(dice, len > 32 || is_v6);
            let len = if addr.is_ipv4() { len.min(32) } else { len };
            let addr = Prefix::new(addr, len).map_or(addr, Prefix::addr);
            TableKey::Addr { addr, len }
        }
        TableKind::Iface => TableKey::Iface(dice.of(&["em1", "em2", "igb3", "gone"]).into()),
        TableKind::Flow(_) => {
            let is_v6 = dice.one_in(2);
            TableKey::Flow(vec![
                FlowPart::Addr(addr(dice, is_v6)),
                FlowPart::Number(dice.of(&[6, 17])),
                FlowPart::Number(dice.of(&PORTS)),
                FlowPart::Addr(addr(dice, is_v6)),
                FlowPart::Number(dice.of(&PORTS)),
            ])
        }
        TableKind::Number => TableKey::Number(dice.of(&PORTS).into()),
        TableKind::Mac => {
            let (len, addr) = (dice.of(&[0, 8, 24, 32, 48, 48]), mac(dice));
            TableKey::Mac {
                addr: core::array::from_fn(|at| if at < usize::from(len / 8) { addr[at] } else { 0 }),
                len,
            }
        }
    }
}

fn addr(dice: &mut Dice<'_>, is_v6: bool) -> IpAddr {
    if is_v6 { addr6(dice).into() } else { addr4(dice).into() }
}
