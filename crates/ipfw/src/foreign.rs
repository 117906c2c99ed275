//! Tokens of pf, nft and iptables, each with its equivalent in ipfw, for users of these.

/// A word of another firewall, whose it is, and what to write here.
const WORDS: &[(&str, &str, &str)] = &[
    ("block", "pf", "write `deny`, or `reject` and `reset` to inform the sender"),
    ("quick", "pf", "leave it out: the first rule that matches decides"),
    ("on", "pf", "write `via IF`, `recv IF` or `xmit IF`, behind the addresses"),
    ("inet", "pf", "write `ip4` as the protocol"),
    ("port", "pf", "write the port right behind the address: `to any 80`"),
    ("rdr-to", "pf", "write `rdr ADDRESS,PORT`"),
    ("nat-to", "pf", "write `nat N`, and `nat N config ip ADDRESS`"),
    ("saddr", "nft", "write `from ADDRESS` or `src-ip ADDRESS`"),
    ("daddr", "nft", "write `to ADDRESS` or `dst-ip ADDRESS`"),
    ("sport", "nft", "write the port behind the source, or `src-port PORT`"),
    ("dport", "nft", "write the port behind the destination, or `dst-port PORT`"),
    ("iif", "nft", "write `recv IF`"),
    ("iifname", "nft", "write `recv IF`"),
    ("oif", "nft", "write `xmit IF`"),
    ("oifname", "nft", "write `xmit IF`"),
    ("ct", "nft", "write `keep-state` on the rule that begins a flow, and `check-state` before it"),
    ("counter", "nft", "leave it out: each rule counts"),
    ("jump", "nft", "write `call NUMBER`"),
    ("goto", "nft", "write `skipto NUMBER`"),
    ("masquerade", "nft", "write `nat N`, and `nat N config if IF`"),
    ("snat", "nft", "write `nat N`, and `nat N config ip ADDRESS`"),
    ("dnat", "nft", "write `rdr ADDRESS,PORT`, or `redirect_port` of an instance of NAT"),
    ("MASQUERADE", "iptables", "write `nat N`, and `nat N config if IF`"),
    ("ACCEPT", "iptables", "write `allow`"),
    ("DROP", "iptables", "write `deny`"),
    ("REJECT", "iptables", "write `reject`"),
    ("--dport", "iptables", "write the port behind the destination, or `dst-port PORT`"),
    ("--sport", "iptables", "write the port behind the source, or `src-port PORT`"),
    ("-j", "iptables", "write the action first: `add allow tcp from any to me 22`"),
    ("-p", "iptables", "write the protocol behind the action: `add allow tcp from any to me 22`"),
];

/// Returns what to write in place of a word of another firewall, as the help of an error.
pub(crate) fn hint(word: &str) -> Option<String> {
    let (_, whose, here) = WORDS.iter().find(|(foreign, ..)| *foreign == word)?;
    Some(format!("`{word}` is {whose} syntax; {here}"))
}
