use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::firewall::nat::headers::Kind;

const UDP: u8 = 17;

fn end(addr: u32, port: u16) -> End {
    End { addr: addr.into(), port }
}

/// The `n`th of many bindings, which all differ inside and outside.
fn binding(n: u32, expires: u32) -> Binding {
    let [a, b, ..] = n.to_le_bytes();
    let port = u16::from_le_bytes([a, b]);
    let (inside, outside) = (end(0x0a00_0000 | n >> 16, port), end(0xc000_0201, port));
    let mut binding = Binding::new(inside, outside, end(0xc633_0000 | n >> 16, 443), UDP);
    binding.expires = Tick(expires);
    binding
}

fn keys(n: u32) -> [Key; 2] {
    [By::Inside, By::Outside].map(|by| binding(n, 0).key(by))
}

fn table(max: usize) -> Table {
    Table::new(max, &mut Secret::new(7))
}

/// Both ways to the `n`th binding lead to the same, which is it; or none does.
fn found(table: &mut Table, n: u32, now: Tick) -> bool {
    let [inside, outside] = keys(n);
    let ids = [table.find(By::Inside, &inside, now), table.find(By::Outside, &outside, now)];
    assert_eq!(ids[0], ids[1]);
    if let [Some(id), _] = ids {
        assert_eq!(table.get(id).key(By::Inside), inside);
    }
    ids[0].is_some()
}

#[test]
fn a_binding_is_a_line() {
    assert!(size_of::<Binding>() + size_of::<Links>() <= 64);
}

#[test]
fn a_million_bindings_come_and_go_and_their_memory_goes_back() {
    const MANY: u32 = 1_000_000;
    let mut table = table(MANY as usize);
    let empty = table.bytes();
    for n in 0..MANY {
        table.insert(binding(n, 10), Tick(1)).unwrap();
    }
    assert!((0..MANY).step_by(997).all(|n| found(&mut table, n, Tick(10))));
    assert!(table.bytes() < MANY as usize * 80);
    assert_eq!(table.expire(Tick(10), usize::MAX), 0, "all live");
    let looks = table.expire(Tick(11), usize::MAX);
    assert_eq!((looks, table.len()), (MANY as usize, 0));
    assert_eq!(table.bytes(), empty);
    assert_eq!(table.deadline(), None);
}

#[test]
fn one_more_than_there_may_be_is_refused_until_one_ends() {
    let mut table = table(1000);
    for n in 0..1000 {
        table.insert(binding(n, 5), Tick(1)).unwrap();
    }
    assert_eq!(table.insert(binding(1000, 5), Tick(1)), Err(Full));
    let id = table.find(By::Inside, &keys(17)[0], Tick(1)).unwrap();
    table.remove(id);
    assert!(table.insert(binding(1000, 5), Tick(1)).is_ok());
    assert!(!found(&mut table, 17, Tick(1)) && found(&mut table, 1000, Tick(1)));
}

#[test]
fn a_turn_ends_no_more_bindings_than_it_may() {
    let mut table = table(1000);
    for n in 0..1000 {
        table.insert(binding(n, 5), Tick(1)).unwrap();
    }
    assert_eq!(table.deadline(), Some(Tick(6).begin()));
    let looks: Vec<usize> = (0..5).map(|_| table.expire(Tick(6), 256)).collect();
    assert_eq!(looks, [256, 256, 256, 232, 0]);
    assert!(table.is_empty());
}

#[test]
fn what_lives_longer_than_a_round_is_looked_at_once_a_round() {
    let mut table = table(10);
    table.insert(binding(1, 1000), Tick(0)).unwrap();
    let looks: usize = (0..=1000).map(|now| table.expire(Tick(now), 9)).sum();
    assert!(found(&mut table, 1, Tick(1000)));
    assert!(looks <= 8, "{looks}");
    assert_eq!(table.expire(Tick(1001), 9), 1);
    assert!(table.is_empty());
}

#[test]
fn an_expired_entry_is_not_found_before_cleanup() {
    let mut table = table(10);
    table.insert(binding(1, 5), Tick(1)).unwrap();
    assert!(!found(&mut table, 1, Tick(6)));
    assert!(table.is_empty(), "and is taken away");
}

const fn tcp(flags: u8) -> Kind {
    Kind::Tcp(flags)
}

const SYN: u8 = 2;
const ACK: u8 = 16;
const FIN_ACK: u8 = 17;
const RST: u8 = 4;

/// Seconds that a binding lives after the last of these packets.
fn lifetime(packets: &[(BindingDirection, Kind)]) -> u32 {
    let mut binding = binding(1, 0);
    packets
        .iter()
        .for_each(|(direction, kind)| binding.pass(*direction, *kind, Tick(7), &Lifetimes::default()));
    let left = binding.left_s(Tick(7));
    left - left % 10
}

#[test]
fn tcp_lives_long_only_between_handshake_and_end() {
    use BindingDirection::{In, Out};
    let open = [(Out, tcp(SYN)), (In, tcp(SYN | ACK)), (Out, tcp(ACK))];
    let then = |more: &[(BindingDirection, Kind)]| lifetime(&[&open[..], more].concat());
    assert_eq!([lifetime(&open[..1]), lifetime(&open[..2]), lifetime(&open)], [240, 240, 7440]);
    assert_eq!(then(&[(Out, tcp(FIN_ACK))]), 7440, "half closed");
    assert_eq!(then(&[(Out, tcp(FIN_ACK)), (In, tcp(FIN_ACK)), (Out, tcp(ACK))]), 240);
    assert_eq!(then(&[(In, tcp(RST))]), 240, "perhaps it is over");
    assert_eq!(then(&[(In, tcp(RST)), (Out, tcp(ACK)), (In, tcp(ACK))]), 7440, "it was not");
    let closed = [(Out, tcp(FIN_ACK)), (In, tcp(FIN_ACK)), (Out, tcp(SYN))];
    assert_eq!(then(&closed), 240, "another connection");
    assert_eq!(then(&[&closed[..], &open[1..]].concat()), 7440);
}

#[test]
fn what_was_in_flight_when_a_connection_was_reset_does_not_keep_its_binding_for_hours() {
    use BindingDirection::{In, Out};
    let open = [(Out, tcp(SYN)), (In, tcp(SYN | ACK)), (Out, tcp(ACK)), (In, tcp(ACK))];
    for (resets, other) in [(Out, In), (In, Out)] {
        let late = [(resets, tcp(RST)), (other, tcp(ACK)), (other, tcp(ACK))];
        assert_eq!(lifetime(&[&open[..], &late].concat()), 240, "{resets:?} has reset it");
        assert_eq!(lifetime(&[&open[..], &late, &[(resets, tcp(ACK))]].concat()), 7440, "it was forged");
    }
}

#[test]
fn others_live_as_the_rfcs_ask() {
    assert_eq!(lifetime(&[(BindingDirection::Out, Kind::Udp)]), 300);
    assert_eq!(lifetime(&[(BindingDirection::Out, Kind::Query)]), 60);
    assert_eq!(lifetime(&[(BindingDirection::Out, Kind::Other)]), 300);
}

#[test]
fn a_lifetime_is_never_shorter_than_it_says() {
    for (ns, seconds) in [(0, 60), (1_073_741_823, 60), (999_999_999_999, 7440)] {
        let begin = Instant::from_ns(ns);
        let mut binding = binding(1, 0);
        let lifetimes = Lifetimes { udp_s: seconds, ..Lifetimes::default() };
        binding.pass(BindingDirection::Out, Kind::Udp, Tick::at(begin), &lifetimes);
        let end = begin + base::time::Duration::from_secs(seconds.into());
        assert!(binding.expires >= Tick::at(end));
    }
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u32, u32),
    Remove(u32),
    Touch(u32, u32),
    Wait(u32),
}

fn step() -> impl Strategy<Value = Step> {
    let n = 0..600_u32;
    prop_oneof![
        4 => (n.clone(), 0..400_u32).prop_map(|(n, life)| Step::Insert(n, life)),
        2 => n.clone().prop_map(Step::Remove),
        2 => (n, 0..400_u32).prop_map(|(n, life)| Step::Touch(n, life)),
        1 => (0..60_u32).prop_map(Step::Wait),
    ]
}

proptest! {
    #[test]
    fn the_table_holds_what_a_map_holds(steps in prop::collection::vec(step(), 1..3000), budget in 1..500_usize) {
        let mut table = table(usize::MAX);
        // As many as make chains split.
        for n in 1000..2200 {
            table.insert(binding(n, 200), Tick(0)).unwrap();
        }
        let mut model: HashMap<u32, u32> = (1000..2200).map(|n| (n, 200)).collect();
        let mut now = 0;
        for step in steps {
            match step {
                Step::Insert(n, life) if !model.contains_key(&n) => {
                    table.insert(binding(n, now + life), Tick(now)).unwrap();
                    model.insert(n, now + life);
                }
                Step::Remove(n) if model.contains_key(&n) => {
                    let id = table.find(By::Outside, &keys(n)[1], Tick(now)).unwrap();
                    table.remove(id);
                    model.remove(&n);
                }
                Step::Touch(n, life) if model.contains_key(&n) => {
                    let id = table.find(By::Inside, &keys(n)[0], Tick(now)).unwrap();
                    table.get_mut(id).expires = Tick(now + life);
                    model.insert(n, now + life);
                }
                Step::Wait(ticks) => {
                    now += ticks;
                    while table.expire(Tick(now), budget) == budget {}
                    model.retain(|_, expires| *expires >= now);
                }
                _ => {}
            }
            prop_assert!(table.len() >= model.len());
        }
        for n in (0..600).chain(1000..2200) {
            prop_assert_eq!(found(&mut table, n, Tick(now)), model.contains_key(&n), "{}", n);
        }
        prop_assert_eq!(table.iter_from(0).count(), table.len());
    }
}
