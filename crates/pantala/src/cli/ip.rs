//! `ip addr`, `ip link`: the words of iproute2 for what `ifconfig` does.

use super::Failure;
use super::ifconfig::Ifconfig;
use diagnostic::nearest;

pub(crate) const USAGE: &str = "\
pantala ip addr [show [dev IF]]
       pantala ip addr add | del ADDRESS/LEN dev IF
       pantala ip link [show [dev IF]]
       pantala ip link set [dev] IF [up | down] [mtu N] [address MAC]
       pantala ip link add link INTERFACE name IF type vlan id N
       pantala ip link add IF type ipip | sit | ip6tnl | gre
               local A remote B [key N]
       pantala ip link add IF type vxlan id N local A
               [remote B | group G] [dstport P]
       pantala ip link set [dev] IF master BRIDGE
       pantala ip link del [dev] IF";

pub(crate) const HELP: &str = "The words of iproute2 for `pantala ifconfig`, which is the form of the
documentation. For `ip route` use `pantala route`, for `ip neigh` `pantala arp`
and `pantala ndp`.

Examples:
  pantala ip addr add 192.0.2.7/24 dev lan
  pantala ip link add link lan name vlan10 type vlan id 10
  pantala ip link add vxlan0 type vxlan id 42 local 192.0.2.1 dstport 4789
  pantala ip link set vlan10 mtu 1400 up";

/// Translates a line to that of `ifconfig`.
pub(crate) fn read(words: &[String]) -> Result<Ifconfig, Failure> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let words = translate(&words).map_err(|why| Failure::usage(format!("ip: {why}")))?;
    Ifconfig::read(&words.into_iter().map(str::to_owned).collect::<Vec<_>>())
}

fn translate<'w>(words: &[&'w str]) -> Result<Vec<&'w str>, String> {
    let [object, rest @ ..] = words else { return Ok(Vec::new()) };
    match *object {
        "a" | "addr" | "address" => address(rest),
        "l" | "link" => link(rest),
        "r" | "route" => Err("`pantala route` shows and changes routes".to_owned()),
        "n" | "neigh" | "neighbour" => Err("`pantala arp` and `ndp` show and change neighbours".to_owned()),
        "ru" | "rule" => Err("there is one routing table; `pantala ipfw` has `fwd`".to_owned()),
        other => Err(unknown(other, &["addr", "link", "route", "neigh"])),
    }
}

fn address<'w>(words: &[&'w str]) -> Result<Vec<&'w str>, String> {
    match words {
        [] | ["show" | "list" | "ls", ..] => show(words.get(1..).unwrap_or_default()),
        [verb @ ("add" | "del" | "delete" | "replace"), rest @ ..] => {
            let (mut address, mut interface) = (None, None);
            let mut rest = rest.iter().copied();
            while let Some(word) = rest.next() {
                match word {
                    "dev" => interface = Some(rest.next().ok_or("`dev` needs an interface behind it")?),
                    // The broadcast address follows from the prefix.
                    "brd" | "broadcast" => _ = rest.next(),
                    word if address.is_none() => address = Some(word),
                    word => return Err(unknown(word, &["dev"])),
                }
            }
            let address = address.ok_or_else(|| format!("`{verb}` needs an address behind it"))?;
            let interface = interface.ok_or("say which interface: `dev IF`")?;
            let family = if address.contains(':') { "inet6" } else { "inet" };
            let action = if verb.starts_with("del") { "-alias" } else { "alias" };
            Ok(vec![interface, family, address, action])
        }
        [other, ..] => Err(unknown(other, &["show", "add", "del"])),
    }
}

fn show<'w>(words: &[&'w str]) -> Result<Vec<&'w str>, String> {
    match words {
        [] => Ok(Vec::new()),
        ["dev", interface] | [interface] => Ok(vec![interface]),
        [_, extra, ..] => Err(unknown(extra, &["dev"])),
    }
}

fn link<'w>(words: &[&'w str]) -> Result<Vec<&'w str>, String> {
    match words {
        [] | ["show" | "list" | "ls", ..] => show(words.get(1..).unwrap_or_default()),
        ["set", "dev", interface, rest @ ..] | ["set", interface, rest @ ..] => set(interface, rest),
        ["del" | "delete", "dev", interface] | ["del" | "delete", interface] => {
            Ok(vec![interface, "destroy"])
        }
        ["add", rest @ ..] => add(rest),
        [other, ..] => Err(unknown(other, &["show", "set", "add", "del"])),
    }
}

fn set<'w>(interface: &'w str, words: &[&'w str]) -> Result<Vec<&'w str>, String> {
    if let ["master", bridge] = words {
        return Ok(vec![bridge, "addm", interface]);
    }
    let mut line = vec![interface];
    let mut words = words.iter().copied();
    while let Some(word) = words.next() {
        match word {
            "up" | "down" => line.push(word),
            "mtu" => line.extend(["mtu", words.next().ok_or("`mtu` needs a number behind it")?]),
            "address" => {
                line.extend(["ether", words.next().ok_or("`address` needs an Ethernet address behind it")?])
            }
            "nomaster" => return Err("say from which bridge: `ifconfig BRIDGE deletem INTERFACE`".to_owned()),
            other => return Err(unknown(other, &["up", "down", "mtu", "address", "master"])),
        }
    }
    if line.len() == 1 {
        Err("nothing to set: `up`, `down`, `mtu N`, `address MAC`".to_owned())
    } else {
        Ok(line)
    }
}

/// The words of `ip link add`.
#[derive(Default)]
struct New<'w> {
    name: Option<&'w str>,
    parent: Option<&'w str>,
    kind: Option<&'w str>,
    id: Option<&'w str>,
    protocol: Option<&'w str>,
    local: Option<&'w str>,
    remote: Option<&'w str>,
    mtu: Option<&'w str>,
    group: Option<&'w str>,
    port: Option<&'w str>,
    key: Option<&'w str>,
}

fn add<'w>(words: &[&'w str]) -> Result<Vec<&'w str>, String> {
    let mut new = New::default();
    let mut words = words.iter().copied();
    while let Some(word) = words.next() {
        let slot = match word {
            "name" | "dev" => &mut new.name,
            "link" => &mut new.parent,
            "type" => &mut new.kind,
            "id" => &mut new.id,
            "protocol" | "proto" => &mut new.protocol,
            "local" => &mut new.local,
            "remote" => &mut new.remote,
            "mtu" => &mut new.mtu,
            "group" => &mut new.group,
            "dstport" => &mut new.port,
            "key" => &mut new.key,
            word if new.name.is_none() => {
                new.name = Some(word);
                continue;
            }
            other => {
                let known = [
                    "name", "link", "type", "id", "protocol", "local", "remote", "mtu", "group", "dstport",
                    "key",
                ];
                return Err(unknown(other, &known));
            }
        };
        *slot = Some(words.next().ok_or_else(|| format!("`{word}` needs a value behind it"))?);
    }
    new.line()
}

impl<'w> New<'w> {
    fn line(&self) -> Result<Vec<&'w str>, String> {
        let name = self.name.ok_or("say the name of the new interface: `name IF`")?;
        let mut line = vec![name, "create"];
        match self.kind.ok_or("say which kind: `type vlan`, or `type ipip`")? {
            "vlan" => {
                let parent = self.parent.ok_or("a VLAN needs `link INTERFACE`")?;
                let id = self.id.ok_or("a VLAN needs `id N`")?;
                line.extend(["vlan", id, "vlandev", parent]);
                if let Some(protocol) = self.protocol {
                    line.extend(["vlanproto", protocol]);
                }
            }
            "ipip" | "sit" | "ip6tnl" | "gif" => {
                let both = "a tunnel needs both ends: `local A remote B`";
                line.extend(["tunnel", self.local.ok_or(both)?, self.remote.ok_or(both)?]);
            }
            "gre" | "ip6gre" => {
                let both = "a tunnel needs both ends: `local A remote B`";
                if !name.starts_with("gre") {
                    return Err(format!("a GRE tunnel is called gre0 or the like, not `{name}`"));
                }
                line.extend(["tunnel", self.local.ok_or(both)?, self.remote.ok_or(both)?]);
                line.extend(self.key.into_iter().flat_map(|key| ["grekey", key]));
            }
            "vxlan" => {
                let both = "a VXLAN needs `id N local A`";
                line.extend(["vxlanid", self.id.ok_or(both)?, "vxlanlocal", self.local.ok_or(both)?]);
                let others =
                    [("vxlanremote", self.remote), ("vxlangroup", self.group), ("vxlanport", self.port)];
                line.extend(others.into_iter().filter_map(|(word, value)| Some([word, value?])).flatten());
            }
            // What Linux calls so is what BSD calls a loopback interface.
            "dummy" => line.extend(["device", "lo"]),
            "bridge" => {
                return Err(format!(
                    "a bridge needs its first port: `ifconfig {name} create addm INTERFACE`"
                ));
            }
            other => {
                let help =
                    unknown(other, &["vlan", "ipip", "sit", "ip6tnl", "gre", "vxlan", "bridge", "dummy"]);
                return Err(format!("{help}; `ifconfig IF create device DEVICE` makes any"));
            }
        }
        if let Some(mtu) = self.mtu {
            line.extend(["mtu", mtu]);
        }
        Ok(line)
    }
}

fn unknown(word: &str, known: &[&str]) -> String {
    let help = nearest(word, known.iter().copied())
        .map_or_else(|| format!("known are {}", known.join(", ")), |near| format!("did you mean `{near}`?"));
    format!("unknown word `{word}`; {help}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translated(line: &str) -> Result<String, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        translate(&words).map(|words| words.join(" "))
    }

    #[test]
    fn lines_of_iproute2_are_lines_of_ifconfig() {
        for (line, ifconfig) in [
            ("addr", ""),
            ("a show dev lan", "lan"),
            ("link show lan", "lan"),
            ("addr add 192.0.2.7/24 dev lan", "lan inet 192.0.2.7/24 alias"),
            ("addr add dev lan 2001:db8::7/64", "lan inet6 2001:db8::7/64 alias"),
            ("addr add 192.0.2.7/24 brd + dev lan", "lan inet 192.0.2.7/24 alias"),
            ("addr del 192.0.2.7/24 dev lan", "lan inet 192.0.2.7/24 -alias"),
            ("link set dev lan up", "lan up"),
            ("link set lan mtu 1400 down", "lan mtu 1400 down"),
            ("link set lan address 02:00:00:00:00:07", "lan ether 02:00:00:00:00:07"),
            ("link add link lan name v10 type vlan id 10", "v10 create vlan 10 vlandev lan"),
            (
                "link add link lan v10 type vlan protocol 802.1ad id 10",
                "v10 create vlan 10 vlandev lan vlanproto 802.1ad",
            ),
            (
                "link add t0 mtu 1400 type ipip local 192.0.2.1 remote 198.51.100.1",
                "t0 create tunnel 192.0.2.1 198.51.100.1 mtu 1400",
            ),
            ("link del dev t0", "t0 destroy"),
            ("link add lo1 type dummy", "lo1 create device lo"),
            (
                "link add gre1 type gre local 192.0.2.1 remote 198.51.100.1 key 7",
                "gre1 create tunnel 192.0.2.1 198.51.100.1 grekey 7",
            ),
            (
                "link add vx0 type vxlan id 5 local 192.0.2.1 group 239.1.1.1 dstport 4789",
                "vx0 create vxlanid 5 vxlanlocal 192.0.2.1 vxlangroup 239.1.1.1 vxlanport 4789",
            ),
            ("link set lan1 master bridge0", "bridge0 addm lan1"),
        ] {
            assert_eq!(translated(line).unwrap(), ifconfig, "{line}");
        }
    }

    #[test]
    fn other_lines_are_explained() {
        for (line, says) in [
            ("adr", "did you mean `addr`?"),
            ("route show", "`pantala route`"),
            ("neigh", "`pantala arp` and `ndp`"),
            ("addr ad 192.0.2.7/24 dev lan", "did you mean `add`?"),
            ("addr add 192.0.2.7/24", "`dev IF`"),
            ("link set lan", "nothing to set"),
            ("link set lan mtuu 1", "did you mean `mtu`?"),
            ("link add v10 type vlan id 10", "a VLAN needs `link INTERFACE`"),
            ("link add t0 type ipip local 192.0.2.1", "both ends"),
            ("link add t0 type veth", "known are vlan"),
            ("link add b0 type bridge", "create addm"),
            ("link set lan1 nomaster", "deletem"),
            ("link add t0 type gre local 192.0.2.1 remote 192.0.2.2", "called gre0"),
        ] {
            let why = translated(line).unwrap_err();
            assert!(why.contains(says), "{line}: {why}");
        }
    }
}
