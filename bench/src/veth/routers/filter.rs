//! Equivalent rules in the languages of nftables and of ipfw.

use core::fmt::Write as _;

use crate::firewall::rules::{self, Other};
use crate::frames::Family;
use crate::veth::frames::{Side, addr};
use crate::veth::lab::OUT;

/// The router's firewall. All of the generator's packets pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filter {
    /// Nothing.
    None,
    /// It follows connections, and lets new ones pass.
    Stateful,
    /// Source NAT to the router's address. IPv4.
    Translating,
    /// It has so many rules, of which the last is the one that packets match.
    Rules(u32),
}

impl Filter {
    /// A chain of nftables. Each packet meets it once.
    pub(super) fn nftables(self, family: Family) -> Option<String> {
        const FORWARD: &str = "chain forward { type filter hook forward priority 0; policy drop;";
        Some(match self {
            Self::None => return None,
            Self::Stateful => {
                format!("{FORWARD} ct state established,related accept; ct state new accept; }} ;")
            }
            Self::Translating => format!(
                "chain post {{ type nat hook postrouting priority 100; oifname \"{OUT}\" masquerade; }} ;"
            ),
            Self::Rules(count) => {
                let ip = if family == Family::Ip4 { "ip" } else { "ip6" };
                let mut text = FORWARD.to_owned();
                for Other { allows, is_from, host, port } in rules::others(count - 1, family) {
                    let end = if is_from { "saddr" } else { "daddr" };
                    let proto = port
                        .map_or_else(|| "meta l4proto udp".to_owned(), |port| format!("udp dport {port}"));
                    let action = if allows { "accept" } else { "drop" };
                    // Writing to a string cannot fail.
                    let _ = write!(text, " {ip} {end} {host} {proto} {action};");
                }
                text + " meta l4proto udp accept; } ;"
            }
        })
    }

    /// Rules of ipfw. Each forwarded packet meets those that are about it once.
    pub(super) fn ipfw(self, family: Family) -> Option<String> {
        let outside = addr(family, Side::Out, 1);
        Some(match self {
            Self::None => return None,
            Self::Stateful => {
                "add allow ip from any to any in keep-state\nadd allow ip from any to any out\n".to_owned()
            }
            Self::Translating => format!(
                "nat 1 config ip {outside}\nadd nat 1 ip from any to any recv out in\n\
                 add nat 1 ip from any to any out xmit out\nadd allow ip from any to any\n"
            ),
            Self::Rules(count) => {
                // What else comes and goes, above all neighbours that are looked for.
                let others = "add 64000 allow ip from any to any\n";
                rules::hit_last(count, family, "udp", "in") + others
            }
        })
    }
}
