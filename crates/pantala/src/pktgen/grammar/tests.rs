use super::*;

fn addr(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn decimals_are_exact() {
    for (text, scale, places, value) in [
        ("1.5", 1, 3, Some(1500)),
        ("0.001", 1, 3, Some(1)),
        ("0.0005", 1000, 1, Some(5)),
        (".5", 2, 0, Some(1)),
        ("7.", 1, 0, Some(7)),
        ("0.5", 1, 0, None),
    ] {
        assert_eq!(Decimal::parse(text).unwrap().scaled(scale, places), value, "{text}");
    }
    for text in ["", ".", "1e3", "+1", "-1", " 1", "1 ", "1.2.3", "0x1", "1234567890123456789"] {
        assert_eq!(Decimal::parse(text), None, "{text}");
    }
}

#[test]
fn addresses_are_one_two_or_a_prefix() {
    for (text, first, last, span) in [
        ("192.0.2.1", "192.0.2.1", "192.0.2.1", 0),
        ("192.0.2.10-192.0.2.250", "192.0.2.10", "192.0.2.250", 240),
        ("198.18.0.0/15", "198.18.0.1", "198.19.255.254", (1 << 17) - 3),
        ("192.0.2.0/31", "192.0.2.0", "192.0.2.1", 1),
        ("192.0.2.7/32", "192.0.2.7", "192.0.2.7", 0),
        ("2001:db8::1-2001:db8::ff", "2001:db8::1", "2001:db8::ff", 0xfe),
        ("2001:db8::/64", "2001:db8::", "2001:db8::ffff:ffff:ffff:ffff", u128::from(u64::MAX)),
        ("::/0", "::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", u128::MAX),
        ("0.0.0.0/0", "0.0.0.1", "255.255.255.254", u128::from(u32::MAX) - 2),
    ] {
        let addrs = Addrs::parse(text).unwrap();
        assert_eq!(
            (addrs.first(), addrs.nth(addrs.span()), addrs.span()),
            (addr(first), addr(last), span),
            "{text}"
        );
        assert!(
            addrs.contains(addr(first))
                && addrs.contains(addr(last))
                && addrs.nth(span.wrapping_add(1)) == addr(first),
            "{text}"
        );
    }
}

#[test]
fn what_is_no_range_of_addresses_is_explained() {
    for (text, says) in [
        ("", "`` is no address; write an address"),
        ("192.0.2.256", "`192.0.2.256` is no address"),
        ("192.0.2.0/33", "`192.0.2.0/33` is no prefix"),
        ("192.0.2.1-", "`` is no address"),
        ("192.0.2.9-192.0.2.1", "192.0.2.9 is behind 192.0.2.1; write the lower address first"),
        ("192.0.2.1-2001:db8::1", "two families"),
        ("host", "`host` is no address"),
    ] {
        let wrong = Addrs::parse(text).unwrap_err();
        assert!(wrong.contains(says), "{text}: {wrong}");
    }
}

#[test]
fn ports_are_one_or_two() {
    assert_eq!(Ports::parse("9"), Ok(Ports { first: 9, last: 9 }));
    let all = Ports::parse("0-65535").unwrap();
    assert_eq!((all.nth(65_535), all.nth(65_536)), (65_535, 0));
    for (text, says) in [
        ("65536", "0 to 65535"),
        ("", "is no port"),
        ("9-1", "lower port first"),
        ("1-2-3", "`2-3` is no port"),
    ] {
        let wrong = Ports::parse(text).unwrap_err();
        assert!(wrong.contains(says), "{text}: {wrong}");
    }
}

#[test]
fn times_have_units() {
    for (text, ms) in [
        ("10s", 10_000),
        ("10", 10_000),
        ("500ms", 500),
        ("1.5s", 1500),
        ("2m", 120_000),
        ("24h", 86_400_000),
    ] {
        assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
    }
    for (text, says) in [
        ("", "is no number"),
        ("10x", "`x` is not known"),
        ("25h", "too long"),
        ("-1s", "not known"),
        ("0.0000000001s", "too fine"),
    ] {
        let wrong = duration(text).unwrap_err();
        assert!(wrong.contains(says) && wrong.contains("as in 500ms"), "{text}: {wrong}");
    }
}

#[test]
fn shares_are_percentages() {
    assert_eq!((percent("0%"), percent("0.1%"), percent("100%")), (Ok(0), Ok(100), Ok(100_000)));
    for (text, says) in
        [("1", "has no %"), ("%", "is no number"), ("100.001%", "is no share"), ("0.0001%", "is no share")]
    {
        let wrong = percent(text).unwrap_err();
        assert!(wrong.contains(says) && wrong.contains("0.1%"), "{text}: {wrong}");
    }
}

#[test]
fn cpus_are_numbers_and_ranges() {
    assert_eq!(cpus("0,2-4,1"), Ok(vec![0, 2, 3, 4, 1]));
    for text in ["", "a", "1-", "3-1", "1,,2", "1024", "0-99999999999"] {
        assert!(cpus(text).unwrap_err().contains("as in 0,2-3"), "{text}");
    }
}
