use proptest::prelude::*;
use wire::{Protocol, icmp6};

use super::*;
use crate::testkit::build::{ip, udp};
use crate::testkit::{Bench, ifnet, load};

fn v6(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

fn nptv6(inside: &str, outside: &str, prefix_len: u8) -> Nptv6 {
    let config =
        Nptv6Config { internal: v6(inside), external: Some(v6(outside)), external_if: None, prefix_len };
    Nptv6::new(&config, &Tables::default()).unwrap()
}

/// Returns the verdict on a packet, and its bytes.
fn go(nptv6: &Nptv6, packet: &[u8]) -> (Verdict, Vec<u8>) {
    let mut bench = Bench::new(1);
    let pool = &mut bench.cpu().pool;
    let mut pkt = load(pool, &packet.to_vec().into()).unwrap();
    pkt.flags.set(Flags::HASH);
    let verdict = nptv6.translate(&mut pkt);
    assert_eq!(pkt.flags.has(Flags::HASH), verdict != Verdict::Translated);
    let bytes = pkt.head().to_vec();
    pool.give(pkt);
    (verdict, bytes)
}

fn datagram(src: Ipv6Addr, dst: Ipv6Addr) -> Vec<u8> {
    udp(src.into(), dst.into(), (4000, 53), b"some bytes")
}

fn error(src: Ipv6Addr, dst: Ipv6Addr, quote: &[u8]) -> Vec<u8> {
    let header = icmp6::Message::PacketTooBig { mtu: 1280 }.to_bytes(src, dst, quote);
    ip(src.into(), dst.into(), Protocol::ICMP6, 64, &[&header, quote].concat())
}

const INSIDE: &str = "fd01:203:405:1::1234";
const OUTSIDE: &str = "2001:db8:1:d550::1234";
const REMOTE: &str = "2001:db8:ffff::9";

#[test]
fn the_example_of_the_rfc() {
    let nptv6 = nptv6("fd01:203:405::", "2001:db8:1::", 48);
    let there = nptv6.outward(v6(INSIDE).to_bits()).unwrap();
    assert_eq!(Ipv6Addr::from_bits(there), v6(OUTSIDE));
    assert_eq!(nptv6.inward(there), Some(v6(INSIDE).to_bits()));
}

#[test]
fn packets_and_errors_about_them_go_out_and_come_back_intact() {
    let nptv6 = nptv6("fd01:203:405::", "2001:db8:1::", 48);
    let (inside, outside, remote) = (v6(INSIDE), v6(OUTSIDE), v6(REMOTE));
    let expect = |from: &[u8], to: &[u8]| assert_eq!(go(&nptv6, from), (Verdict::Translated, to.to_vec()));
    // Built anew, the checksum is the same.
    expect(&datagram(inside, remote), &datagram(outside, remote));
    expect(&datagram(remote, outside), &datagram(remote, inside));
    let quote = |src, dst| datagram(src, dst);
    expect(&error(remote, outside, &quote(outside, remote)), &error(remote, inside, &quote(inside, remote)));
    expect(&error(inside, remote, &quote(remote, inside)), &error(outside, remote, &quote(remote, outside)));
    let (verdict, bytes) = go(&nptv6, &datagram(inside, v6("2001:db8:1:d550::99")));
    assert_eq!((verdict, bytes), (Verdict::Translated, datagram(outside, v6("fd01:203:405:1::99"))));
}

/// NAT66: one address for another, or a few for as many.
#[test]
fn of_addresses_that_are_exchanged_whole_the_checksums_make_up_for_it() {
    let router = "fd01::77";
    for (prefix_len, inside_of, outside_of, told_by) in
        [(128, "fd01::5", "2001:db8:1::a", "fd01::77"), (112, "fd01::", "2001:db8:1::", "2001:db8:1::77")]
    {
        let nptv6 = nptv6(inside_of, outside_of, prefix_len);
        let host = if prefix_len == 128 { 0xa } else { 5 };
        let outside = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, host);
        let (inside, remote) = (v6("fd01::5"), v6(REMOTE));
        let expect =
            |from: &[u8], to: &[u8]| assert_eq!(go(&nptv6, from), (Verdict::Translated, to.to_vec()));
        expect(&datagram(inside, remote), &datagram(outside, remote));
        expect(&datagram(remote, outside), &datagram(remote, inside));
        let (went, came) = (datagram(outside, remote), datagram(inside, remote));
        expect(&error(remote, outside, &went), &error(remote, inside, &came));
        expect(&error(remote, outside, &went[..48]), &error(remote, inside, &came[..48]));
        // A router on the way inside tells of what came in by its own address, if that is exchanged as well.
        let (went, came) = (datagram(remote, inside), datagram(remote, outside));
        if prefix_len == 112 {
            expect(&error(v6(router), remote, &went), &error(v6(told_by), remote, &came));
        } else {
            expect(&error(inside, remote, &went), &error(outside, remote, &came));
        }
        let hairpin = go(&nptv6, &datagram(inside, outside));
        assert_eq!(
            hairpin,
            (Verdict::Translated, datagram(outside, inside)),
            "to itself, by way of the outside"
        );
        assert_eq!(go(&nptv6, &datagram(remote, v6("fd01:1::5"))).0, Verdict::Untouched);
        let mut cut = datagram(inside, remote)[..42].to_vec();
        cut[5] = 2;
        assert_eq!(go(&nptv6, &cut).0, Verdict::Drop(DropReason::NatMalformed), "its checksum is not in it");
    }
}

#[test]
fn what_is_of_neither_prefix_or_stays_inside_is_left_as_it_is() {
    let nptv6 = nptv6("fd01:203:405::", "2001:db8:1::", 48);
    let (inside, remote) = (v6(INSIDE), v6(REMOTE));
    for packet in
        [datagram(remote, v6("2001:db8:2::1")), datagram(inside, v6("fd01:203:405:2::1")), vec![0x60; 20]]
    {
        assert_eq!(go(&nptv6, &packet), (Verdict::Untouched, packet));
    }
    let ip4 = udp(crate::testkit::addr4(1, 2).into(), crate::testkit::addr4(1, 3).into(), (1, 2), b"");
    assert_eq!(go(&nptv6, &ip4).0, Verdict::Untouched);
}

#[test]
fn addresses_that_cannot_make_up_for_the_prefix_are_refused() {
    let short = nptv6("fd01:203:405::", "2001:db8:1::", 48);
    let long = nptv6("fd01:203:405:6::", "2001:db8:1:2::", 64);
    for (nptv6, addr) in [
        (&short, "fd01:203:405:ffff::1"),
        (&long, "fd01:203:405:6::"),
        (&long, "fd01:203:405:6:ffff:ffff:ffff:ffff"),
    ] {
        let packet = datagram(v6(addr), v6(REMOTE));
        assert_eq!(go(nptv6, &packet), (Verdict::Refuse(DropReason::Nptv6Unmappable), packet));
    }
}

#[test]
fn prefixes_are_right_or_refused() {
    let tables = Tables::new(crate::link::tables::Config { ifs: vec![ifnet(1)], ..Default::default() });
    let config = |external_if: Option<&str>, prefix_len| Nptv6Config {
        internal: v6("fd01::"),
        external: None,
        external_if: external_if.map(str::to_owned),
        prefix_len,
    };
    let new = |external_if, prefix_len| Nptv6::new(&config(external_if, prefix_len), &tables);
    assert_eq!(new(None, 48), Err(Error::NoPrefix));
    assert_eq!(new(Some("em0"), 48), Err(Error::NoInterface("em0".to_owned())));
    assert_eq!(new(Some("mem1"), 0), Err(Error::Length(0)));
    assert_eq!(new(Some("mem1"), 129), Err(Error::Length(129)));
    assert_eq!(new(Some("mem1"), 64).map(|nptv6| nptv6.outside), Ok(v6("2001:db8:1::").to_bits()));
}

proptest! {
    #[test]
    fn an_address_comes_back_and_sums_as_it_did(inside: u128, outside: u128, addr: u128, prefix_len in 1..=64_u8) {
        let config = Nptv6Config {
            internal: Ipv6Addr::from_bits(inside),
            external: Some(Ipv6Addr::from_bits(outside)),
            external_if: None,
            prefix_len,
        };
        let nptv6 = Nptv6::new(&config, &Tables::default()).unwrap();
        let addr = addr & !nptv6.mask | nptv6.inside;
        if let Some(there) = nptv6.outward(addr) {
            prop_assert_eq!(there & nptv6.mask, nptv6.outside);
            prop_assert_eq!(nptv6.inward(there), Some(addr));
            let sum = |addr: u128| Sum::new().u16(1).bytes(&addr.to_be_bytes()).folded();
            prop_assert_eq!(sum(there), sum(addr));
        }
    }
}
