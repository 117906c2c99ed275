use ipfw::Command;
use ipfw::command::{TableCommand, TableEntry, TableKey};
use ipfw::rule::{Rule, TableArg};

use super::*;
use crate::link::tables::{Config, Tables};
use crate::testkit::ifnet;

/// Tables, changed by lines of text.
struct Writer {
    lookups: Lookups,
    tables: Tables,
}

impl Writer {
    fn new() -> Self {
        let config = Config { ifs: vec![ifnet(1), ifnet(2)], ..Config::default() };
        Self { lookups: Lookups::new(7).unwrap(), tables: Tables::new(config) }
    }

    fn run(&mut self, line: &str) -> Result<(), Error> {
        let Command::Table { name: Some(name), what } = ipfw::parse_line(line).unwrap() else {
            panic!("{line}")
        };
        let result = match what {
            TableCommand::Create(spec) => self.lookups.create(&name, &spec),
            TableCommand::Add(entries) => self.lookups.add(&name, &entries, &self.tables),
            TableCommand::Delete(keys) => self.lookups.delete(&name, &keys),
            TableCommand::Flush => self.lookups.flush(&name),
            TableCommand::Destroy => self.lookups.destroy(&name, &[]),
            TableCommand::Swap(other) => self.lookups.swap(&name, &other),
            TableCommand::Lock(locked) => self.lookups.lock(&name, locked),
            _ => panic!("{line}"),
        };
        self.lookups.retire(self.lookups.epoch());
        result
    }

    fn all(&mut self, lines: &[&str]) {
        for line in lines {
            assert_eq!(self.run(line), Ok(()), "{line}");
        }
    }

    /// Returns the value for a packet with this address.
    fn find(&self, name: &str, addr: &str) -> Option<TableArg> {
        let lookup = self.lookups.get(name).unwrap();
        match addr.parse().unwrap() {
            IpAddr::V4(addr) => lookup.addr(true, addr.to_bits().into()),
            IpAddr::V6(addr) => lookup.addr(false, addr.to_bits()),
        }
    }

    fn keys(&self, name: &str) -> Vec<String> {
        self.lookups.list(name).unwrap().iter().map(|entry| entry.key.to_string()).collect()
    }
}

fn number(n: u32) -> Option<TableArg> {
    Some(TableArg::Number(n))
}

#[test]
fn the_longest_prefix_wins_in_both_families_and_another_shows_when_it_goes() {
    let mut writer = Writer::new();
    writer
        .all(&["table t create", "table t add 10.0.0.0/8 1 10.1.0.0/16 2 2001:db8::/32 3 2001:db8:1::/48 4"]);
    for (inner, outer, is_ip4) in [("10.1.2.3", "10.2.2.3", true), ("2001:db8:1::9", "2001:db8:2::9", false)]
    {
        let base = if is_ip4 { 1 } else { 3 };
        assert_eq!((writer.find("t", inner), writer.find("t", outer)), (number(base + 1), number(base)));
    }
    assert_eq!((writer.find("t", "11.0.0.1"), writer.find("t", "2002::")), (None, None));
    writer.all(&["table t delete 10.1.0.0/16 2001:db8:1::/48"]);
    assert_eq!((writer.find("t", "10.1.2.3"), writer.find("t", "2001:db8:1::9")), (number(1), number(3)));
}

#[test]
fn the_prefix_of_all_addresses_with_the_value_zero_is_an_entry() {
    let mut writer = Writer::new();
    writer.all(&["table t create", "table t add 0.0.0.0/0 0"]);
    assert_eq!((writer.find("t", "9.9.9.9"), writer.find("t", "::1")), (number(0), None));
}

#[test]
fn numbers_of_all_sizes_and_addresses_are_values() {
    let mut writer = Writer::new();
    let values = ["0", "4194301", "4194302", "4194303", "4294967295", "10.0.0.1", "2001:db8::5"];
    writer.all(&["table t create"]);
    for (value, n) in values.iter().zip(1..) {
        writer.all(&[&*format!("table t add 10.0.0.{n} {value}")]);
    }
    for (value, n) in values.iter().zip(1..) {
        let expected = value.parse().map(TableArg::Number);
        let expected = expected.unwrap_or_else(|_| TableArg::Addr(value.parse().unwrap()));
        assert_eq!(writer.find("t", &format!("10.0.0.{n}")), Some(expected));
    }
}

#[test]
fn entries_are_added_all_or_none() {
    let mut writer = Writer::new();
    writer.all(&["table t create", "table t add 10.0.0.1 1"]);
    let twice = writer.run("table t add 10.0.0.2 2 10.0.0.1 5 10.0.0.3 3");
    assert_eq!(twice, Err(Error::EntryExists("10.0.0.1/32".into())));
    assert_eq!(writer.keys("t"), ["10.0.0.1/32"]);
    assert_eq!((writer.find("t", "10.0.0.1"), writer.find("t", "10.0.0.2")), (number(1), None));
    let gone = writer.run("table t delete 10.0.0.1 10.0.0.7");
    assert_eq!(gone, Err(Error::NoSuchEntry("10.0.0.7/32".into())));
    assert_eq!(writer.find("t", "10.0.0.1"), number(1));
}

#[test]
fn a_table_that_is_full_refuses_entries_and_keeps_those_it_has() {
    let mut writer = Writer::new();
    writer.all(&["table t create limit 2", "table t add 10.0.0.1 1 10.0.0.2 2"]);
    assert_eq!(writer.run("table t add 10.0.0.3 3"), Err(Error::Full("t".into())));
    assert_eq!(writer.keys("t").len(), 2);
    writer.all(&["table t delete 10.0.0.1", "table t add 10.0.0.3 3"]);
    assert_eq!(writer.run("table u create limit 4194305"), Err(Error::LimitTooLarge));
}

#[test]
fn as_many_tables_as_there_may_be_and_no_more() {
    let mut writer = Writer::new();
    for n in 0..TABLES_MAX {
        writer.all(&[&*format!("table t{n} create limit 1")]);
    }
    assert_eq!(writer.run("table one-more create limit 1"), Err(Error::TooManyTables));
    writer.all(&["table t0 destroy", "table one-more create limit 1"]);
}

#[test]
fn a_locked_table_stays_as_it_is() {
    let mut writer = Writer::new();
    writer.all(&["table t create", "table t add 10.0.0.1 1", "table t lock", "table u create"]);
    for line in [
        "table t add 10.0.0.2 2",
        "table t delete 10.0.0.1",
        "table t flush",
        "table t destroy",
        "table u swap t",
    ] {
        assert_eq!(writer.run(line), Err(Error::Locked("t".into())), "{line}");
    }
    assert_eq!(writer.find("t", "10.0.0.1"), number(1));
    writer.all(&["table t unlock", "table t flush"]);
    assert_eq!((writer.find("t", "10.0.0.1"), writer.keys("t").len()), (None, 0));
}

#[test]
fn tables_of_a_kind_are_swapped() {
    let mut writer = Writer::new();
    writer.all(&["table a create", "table a add 10.0.0.1 1", "table b create", "table b add 10.0.0.1 2"]);
    writer.all(&["table a swap b", "table n create type number"]);
    assert_eq!((writer.find("a", "10.0.0.1"), writer.find("b", "10.0.0.1")), (number(2), number(1)));
    assert_eq!(writer.run("table a swap n"), Err(Error::WrongKind("n".into())));
}

#[test]
fn a_table_that_a_rule_asks_is_created_for_it_and_not_destroyed() {
    let mut writer = Writer::new();
    let rule = |line: &str| -> Rule {
        let Command::Add(rule) = ipfw::parse_line(line).unwrap() else { panic!("{line}") };
        rule
    };
    let asks = rule("add deny ip from table(bad) to any");
    writer.lookups.provide(&asks).unwrap();
    assert_eq!(writer.lookups.destroy("bad", [&asks]), Err(Error::InUse("bad".into())));
    let other = rule("add deny ip from any to any lookup dst-port bad");
    assert_eq!(writer.lookups.provide(&other), Err(Error::WrongKind("bad".into())));
    assert_eq!(writer.lookups.destroy("bad", []), Ok(()));
    assert_eq!(writer.lookups.provide(&other), Ok(()));
}

#[test]
fn interfaces_are_found_by_name_when_they_come_and_when_they_go() {
    let mut writer = Writer::new();
    writer.all(&["table t create type iface", "table t add mem2 5 mem9 9"]);
    let found = |writer: &Writer| [1, 2, 9].map(|index| writer.lookups.get("t").unwrap().number(index));
    assert_eq!(found(&writer), [None, number(5), None]);
    let tables = Tables::new(Config { ifs: vec![ifnet(1), ifnet(9)], ..Config::default() });
    writer.lookups.resolve(&tables);
    assert_eq!(found(&writer), [None, None, number(9)]);
    assert_eq!(writer.keys("t"), ["mem2", "mem9"]);
}

#[test]
fn keys_of_another_kind_are_refused() {
    let mut writer = Writer::new();
    writer.all(&["table f create type flow:src-ip,dst-port", "table n create type number"]);
    let key = |key| TableEntry { key, value: TableArg::Number(1) };
    let addr = TableKey::Addr { addr: "10.0.0.1".parse().unwrap(), len: 32 };
    let lookups = &mut writer.lookups;
    let wrong = |name: &str, key: &str| Err(Error::WrongKey(name.into(), key.into()));
    assert_eq!(lookups.add("n", &[key(addr)], &writer.tables), wrong("n", "10.0.0.1/32"));
    assert_eq!(lookups.add("f", &[key(TableKey::Number(80))], &writer.tables), wrong("f", "80"));
    writer.all(&["table f add 10.0.0.1,80 3"]);
    assert_eq!(writer.keys("f"), ["10.0.0.1,80"]);
}

#[test]
fn link_addresses_are_found_by_their_longest_prefix() {
    let mut writer = Writer::new();
    writer.all(&["table m create type mac", "table m add 02:00:5e:00:00:00/24 1 02:00:5e:10:00:01 2"]);
    let found = |writer: &Writer, mac| writer.lookups.get("m").unwrap().mac(mac);
    let all = [0x0200_5e10_0001, 0x0200_5e10_0002, 0x0200_5f10_0001];
    assert_eq!(all.map(|mac| found(&writer, mac)), [number(2), number(1), None]);
    assert_eq!(writer.keys("m"), ["02:00:5e:00:00:00/24", "02:00:5e:10:00:01/48"]);
    let key = TableKey::Mac { addr: [2, 0, 0x5e, 0, 0, 9], len: 48 };
    let entry = writer.lookups.lookup("m", &key).unwrap().unwrap();
    assert_eq!(entry.key.to_string(), "02:00:5e:00:00:00/24", "as a packet would find it");
    writer.all(&["table m delete 02:00:5e:10:00:01"]);
    assert_eq!(all.map(|mac| found(&writer, mac)), [number(1), number(1), None]);
    assert_eq!(writer.lookups.get("m").unwrap().number(0x0200_5e10), None);
}

#[test]
fn every_change_makes_older_answers_stale() {
    use core::sync::atomic::Ordering::Relaxed;
    let mut writer = Writer::new();
    let generation = writer.lookups.generation();
    writer.all(&["table t create"]);
    let lines = ["table t add 10.0.0.1 1", "table t delete 10.0.0.1", "table t flush"];
    for line in lines {
        let before = generation.load(Relaxed);
        writer.all(&[line]);
        assert!(generation.load(Relaxed) > before, "{line}");
    }
}

#[test]
fn tens_of_thousands_of_addresses_are_found_and_gone_when_they_go() {
    let mut writer = Writer::new();
    writer.all(&["table t create"]);
    let scattered = |n: u32| n.wrapping_mul(0x9e37_79b1);
    let entry = |n: u32| {
        let addr = if n.is_multiple_of(2) {
            IpAddr::V4(scattered(n).into())
        } else {
            IpAddr::V6((u128::from(0x2001_0000 | n >> 16) << 96 | u128::from(scattered(n)) << 32).into())
        };
        let len = if addr.is_ipv4() { 32 } else { 128 };
        TableEntry { key: TableKey::Addr { addr, len }, value: TableArg::Number(n % 1000) }
    };
    let entries: Vec<_> = (0..40_000).map(entry).collect();
    writer.lookups.add("t", &entries, &writer.tables).unwrap();
    let lookup = writer.lookups.get("t").unwrap();
    for entry in entries.iter().step_by(97) {
        let TableKey::Addr { addr, .. } = entry.key else { unreachable!() };
        let found = match addr {
            IpAddr::V4(addr) => lookup.addr(true, addr.to_bits().into()),
            IpAddr::V6(addr) => lookup.addr(false, addr.to_bits()),
        };
        assert_eq!(found, Some(entry.value), "{addr}");
    }
    let info = writer.lookups.info("t").unwrap();
    assert_eq!((info.entries, info.limit), (40_000, ENTRIES_DEFAULT));
    writer.lookups.delete("t", &entries.iter().map(|entry| entry.key.clone()).collect::<Vec<_>>()).unwrap();
    assert_eq!(lookup.addr(true, scattered(2).into()), None);
    assert_eq!(writer.lookups.info("t").unwrap().entries, 0);
}

#[test]
fn a_million_addresses_come_and_go_under_a_ruleset_and_leave_no_memory_behind() {
    let mut writer = Writer::new();
    writer.all(&["table t create limit 2000"]);
    // A ruleset has it: what goes is used again only after a message has visited all CPUs.
    let ruleset = writer.lookups.get("t").unwrap();
    let key = |n: u32| {
        let scattered = n.wrapping_mul(0x9e37_79b1);
        if n.is_multiple_of(2) {
            TableKey::Addr { addr: IpAddr::V4(scattered.into()), len: 32 }
        } else {
            let high = u128::from(0x2001_0000 | n & 0xff) << 96;
            TableKey::Addr { addr: IpAddr::V6((high | u128::from(scattered) << 32).into()), len: 128 }
        }
    };
    let mut bytes = Vec::new();
    for n in 0..1_000_000 {
        let entry = TableEntry { key: key(n), value: TableArg::Number(n) };
        writer.lookups.add("t", &[entry], &writer.tables).unwrap();
        if n >= 1000 {
            writer.lookups.delete("t", &[key(n - 1000)]).unwrap();
        }
        writer.lookups.retire(writer.lookups.epoch());
        if n % 50_000 == 49_999 {
            bytes.push(writer.lookups.info("t").unwrap().bytes);
        }
    }
    let (first, last) = (bytes[0], bytes[bytes.len() - 1]);
    assert!(last <= first + first / 10, "bytes after each 50,000: {bytes:?}");
    assert_eq!(writer.lookups.info("t").unwrap().entries, 1000);
    drop(ruleset);
}
