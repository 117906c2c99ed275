use std::vec::Vec;

use super::*;

fn opt(code: u16, value: &[u8]) -> Vec<u8> {
    let len = u16::try_from(value.len()).unwrap();
    [&code.to_be_bytes()[..], &len.to_be_bytes(), value].concat()
}

fn prefix() -> Vec<u8> {
    let addr: Ipv6Addr = "2001:db8:4400::".parse().unwrap();
    opt(
        option::IA_PREFIX,
        &[&[0, 0, 0, 100, 0, 0, 0, 200, 56][..], &addr.octets(), &opt(option::STATUS, &[0, 0])].concat(),
    )
}

fn reply() -> Vec<u8> {
    let ia = [&[0, 0, 0, 7, 0, 0, 0, 50, 0, 0, 0, 80][..], &prefix()].concat();
    [&[7, 1, 2, 3][..], &opt(option::SERVER_ID, &[0, 3, 0, 1, 2]), &opt(option::IA_PD, &ia)].concat()
}

/// Good messages, for mutations.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let addr: Ipv6Addr = "2001:db8::7".parse().unwrap();
    let addr = opt(option::IA_ADDR, &[&addr.octets()[..], &[0, 0, 0, 1, 0, 0, 0, 2]].concat());
    let na = opt(option::IA_NA, &[&[0; 12][..], &addr, &opt(option::STATUS, b"\0\x02none")].concat());
    let dns = [opt(option::DNS, &[0x20; 32]), opt(option::SEARCH, b"\x02ab\x07example\0")].concat();
    let relayed = [&[12, 1][..], &[0x20; 32], &opt(option::RELAY_MESSAGE, &reply())].concat();
    [reply(), [&[2, 0, 0, 9][..], &na, &dns].concat(), relayed].into()
}

#[test]
fn a_delegated_prefix_is_read_with_its_lifetimes() {
    let bytes = reply();
    let view = View::parse(&bytes).unwrap();
    assert_eq!(
        (view.kind, view.xid, view.options.duid(option::SERVER_ID)),
        (Kind::Reply, 0x01_0203, Some(&[0, 3, 0, 1, 2][..]))
    );
    let ia = view.options.associations(option::IA_PD).next().unwrap();
    assert_eq!((ia.iaid, ia.t1_s, ia.t2_s, ia.options.status()), (7, 50, 80, status::SUCCESS));
    let leased = ia.leased().next().unwrap();
    assert_eq!((leased.addr, leased.len), ("2001:db8:4400::".parse().unwrap(), 56));
    assert_eq!((leased.preferred_s, leased.valid_s), (100, 200));
}

#[test]
fn a_message_that_breaks_off_anywhere_within_an_option_is_malformed() {
    let bytes = reply();
    let whole = [4, 4 + 9, bytes.len()];
    for cut in 0..bytes.len() {
        let is_whole = whole.contains(&cut);
        assert_eq!(View::parse(&bytes[..cut]).is_ok(), is_whole, "{cut}");
    }
    // An inner length that says more than its option holds.
    let mut wrong = bytes;
    let at = wrong.len() - prefix().len() + 3;
    wrong[at] += 1;
    assert_eq!(View::parse(&wrong), Err(Malformed::Option));
}

#[test]
fn a_search_list_is_of_whole_names() {
    for (bytes, are) in [
        (&b"\x02ab\x07example\0"[..], true),
        (b"\x02ab\0\x01c\0", true),
        (b"\x02ab", false),
        (b"\0", false),
        (b"\xc0\x02", false),
        (b"\x05ab\0", false),
        (b"", true),
    ] {
        assert_eq!(are_names(bytes), are, "{bytes:?}");
    }
}

#[test]
fn a_relays_message_is_told_from_a_clients() {
    let link: Ipv6Addr = "2001:db8::1".parse().unwrap();
    let peer: Ipv6Addr = "fe80::9".parse().unwrap();
    let inner = reply();
    let bytes = [&[12, 1][..], &link.octets(), &peer.octets(), &opt(option::RELAY_MESSAGE, &inner)].concat();
    let relayed = Relayed::parse(&bytes).unwrap();
    assert_eq!((relayed.is_reply, relayed.hops, relayed.link, relayed.peer), (false, 1, link, peer));
    assert_eq!(relayed.options.get(option::RELAY_MESSAGE), Some(&inner[..]));
    assert_eq!((View::parse(&bytes), Relayed::parse(&inner)), (Err(Malformed::Kind), Err(Malformed::Kind)));
}
