//! Routing protocols: `RTPROT_…` of rtnetlink, and administrative distances as FRR has them.

/// Name, number, administrative distance.
const ALL: &[(&str, u8, u8)] = &[
    ("redirect", 1, 250),
    ("kernel", 2, 1),
    ("boot", 3, 1),
    ("static", 4, 1),
    ("gated", 8, 150),
    ("ra", 9, 250),
    ("mrt", 10, 150),
    ("zebra", 11, 150),
    ("bird", 12, 100),
    ("xorp", 14, 150),
    ("dhcp", 16, 5),
    ("keepalived", 18, 5),
    ("babel", 42, 100),
    ("openr", 99, 115),
    ("bgp", 186, 20),
    ("isis", 187, 115),
    ("ospf", 188, 110),
    ("rip", 189, 120),
    ("ripng", 190, 120),
    ("nhrp", 191, 10),
    ("eigrp", 192, 90),
    ("ldp", 193, 150),
    ("sharp", 194, 150),
    ("pbr", 195, 200),
    ("zstatic", 196, 1),
    ("openfabric", 197, 115),
];
/// Distance of a protocol that is not listed.
const UNKNOWN: u8 = 150;
/// Protocols whose routes are not taken unless the configuration says so: they follow from the source's own addresses, or
/// from what routers say to it, and this stack has its own.
pub(crate) const IGNORED: [u8; 3] = [1, 2, 9];

/// All names.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|(name, ..)| *name)
}

/// The number of a protocol.
pub(crate) fn number(name: &str) -> Option<u8> {
    ALL.iter().find(|(own, ..)| *own == name).map(|(_, number, _)| *number)
}

/// The name of a protocol: FRR's static routes are static too; others by their number.
pub(crate) fn name(number: u8) -> String {
    match number {
        196 => "static".to_owned(),
        _ => match ALL.iter().find(|(_, own, _)| *own == number) {
            Some((name, ..)) => (*name).to_owned(),
            None => number.to_string(),
        },
    }
}

/// The administrative distance of a protocol, if the configuration gives none.
pub(crate) fn distance(number: u8) -> u8 {
    ALL.iter().find(|(_, own, _)| *own == number).map_or(UNKNOWN, |(.., distance)| *distance)
}
