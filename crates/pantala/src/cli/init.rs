//! `init`: a configuration from what this machine has.

use core::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::PathBuf;

use clap::Args;
use dev::netlink::{Link, LinkFlags, NetlinkError, Rtnetlink};
use dev::sys::ethtool::Ethtool;
use ipnet::IpNet;

use super::Failure;
use crate::config::{Config, DEFAULT_FILE, Machine};
use crate::daemon::device::lifeline;
use crate::plural::counted;
use crate::term::Term;

pub(crate) const HELP: &str = "\
Each Ethernet interface gets a section with its driver and queues, and the
addresses that the kernel has on it. Those by which the machine is reached
(the kernel's default route, your ssh session), and those that a bridge or a
bond needs, stand there as comments, with the reason. If none is left, a TAP
takes their place. The result passes `pantala check`; nothing else is changed.

Examples:
  pantala init -c -
  pantala init && pantala check && pantala up";

/// Interfaces that are pantala's to take: of hardware (no kind), and these.
const KINDS: &[&str] = &["veth"];
/// Bytes of a name in the configuration.
const NAME_MAX: usize = 15;
const ISOLATED: &str = "/sys/devices/system/cpu/isolated";

#[derive(Debug, Args)]
pub(crate) struct Init {
    /// The file to write; - is standard output
    #[arg(short, long, value_name = "FILE", default_value = DEFAULT_FILE)]
    config: PathBuf,
    /// Overwrite the file if it exists
    #[arg(long)]
    force: bool,
}

/// An interface of the kernel.
#[derive(Debug, Clone, Default)]
struct Found {
    name: String,
    /// Its driver, queues, MTU and state, in a few words.
    facts: String,
    addresses: Vec<IpNet>,
    /// Why it is left to the kernel.
    left: Option<String>,
}

impl Init {
    pub(crate) fn run(&self, term: &mut Term) -> Result<(), Failure> {
        let failed = |why: NetlinkError| Failure::Failed(why.to_string());
        let machine = Machine::here();
        let isolated = isolated(&fs::read_to_string(ISOLATED).unwrap_or_default(), &machine);
        let text = checked(&found().map_err(failed)?, &machine, &isolated)?;
        if self.config.as_os_str() == "-" {
            return Ok(term.show(&text)?);
        }
        self.write(&text).map_err(|why| self.failure(&why))?;
        Ok(term.show(&format!(
            "{}: written; `pantala check` and `pantala up` are next\n",
            self.config.display()
        ))?)
    }

    /// Writes a new file, or beside the old one and then in its place.
    fn write(&self, text: &str) -> std::io::Result<()> {
        let folder = self.config.parent().filter(|folder| !folder.as_os_str().is_empty());
        folder.map_or(Ok(()), fs::create_dir_all)?;
        if !self.force {
            let mut file = OpenOptions::new().write(true).create_new(true).open(&self.config)?;
            return file.write_all(text.as_bytes());
        }
        let mut beside = self.config.clone().into_os_string();
        beside.push(".new");
        fs::write(&beside, text)?;
        fs::rename(&beside, &self.config)
    }

    fn failure(&self, why: &std::io::Error) -> Failure {
        let file = self.config.display();
        Failure::Failed(if why.kind() == ErrorKind::AlreadyExists {
            format!(
                "{file} exists; `pantala init --force` overwrites it, `pantala init -c -` shows what would be written"
            )
        } else {
            format!("{file}: {why}")
        })
    }
}

/// The interfaces of this network namespace, in the order of the kernel.
fn found() -> Result<Vec<Found>, NetlinkError> {
    let mut netlink = Rtnetlink::open()?;
    let (links, addresses) = (netlink.links()?, netlink.addresses()?);
    let mut found = Vec::new();
    for link in links.iter().filter(|link| link.mac.is_some() && !link.flags.contains(LinkFlags::LOOPBACK)) {
        let own = addresses.iter().filter(|address| address.ifindex == link.index);
        let is_global = |net: &IpNet| match net {
            IpNet::V4(net) => !net.addr().is_link_local(),
            IpNet::V6(net) => !net.addr().is_unicast_link_local(),
        };
        found.push(Found {
            name: link.name.clone(),
            facts: facts(link),
            addresses: own.map(|address| address.net).filter(is_global).collect(),
            left: reason(link, &links, &mut netlink)?,
        });
    }
    Ok(found)
}

fn facts(link: &Link) -> String {
    let driver = Ethtool::open(&link.name).and_then(|ethtool| ethtool.driver());
    let driver = driver.ok().or_else(|| link.kind.clone()).unwrap_or_else(|| "unknown driver".to_owned());
    let queues = counted(u64::from(link.queues.0), "receive queue");
    let state = if link.flags.contains(LinkFlags::UP) { "up" } else { "down" };
    format!("{driver}, {queues}, mtu {}, {state}", link.mtu)
}

/// Why an interface is left to the kernel, if it is.
fn reason(link: &Link, links: &[Link], netlink: &mut Rtnetlink) -> Result<Option<String>, NetlinkError> {
    if let Some(kind) = link.kind.as_deref().filter(|kind| !KINDS.contains(kind)) {
        return Ok(Some(format!("it is made by software ({kind})")));
    }
    if let Some(why) = lifeline::of(&link.name, netlink)? {
        return Ok(Some(why));
    }
    let name_of =
        |index| links.iter().find(|link| link.index == index).map_or("another interface", |link| &link.name);
    Ok(link.master.map(|master| format!("it is a port of {}", name_of(master))))
}

/// CPUs that the kernel keeps free of other threads, of those that this process may run on.
fn isolated(text: &str, machine: &Machine) -> Vec<usize> {
    let ranges = text.trim().split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.parse::<usize>().ok()?..=last.parse().ok()?)
    });
    let ranges: Vec<_> = ranges.collect();
    machine.cpus.iter().copied().filter(|cpu| ranges.iter().any(|range| range.contains(cpu))).collect()
}

/// The text, which is a configuration without mistakes. Addresses that do not fit together are comments.
fn checked(found: &[Found], machine: &Machine, isolated: &[usize]) -> Result<String, Failure> {
    let parsed = |text: &str| Config::parse(DEFAULT_FILE, text, machine);
    let full = text(found, machine, isolated, "");
    if parsed(&full).is_ok() {
        return Ok(full);
    }
    let text = text(found, machine, isolated, "#");
    match parsed(&text) {
        Ok(_) => Ok(text),
        Err(why) => Err(Failure::Failed(format!("no configuration fits this machine: {why}"))),
    }
}

/// The configuration; `mark` stands before addresses.
fn text(found: &[Found], machine: &Machine, isolated: &[usize], mark: &str) -> String {
    let mut text = String::from(
        "# Written by `pantala init` from what this machine has. pantala.toml(5) explains every key.\n\
         # `pantala check` checks it, `pantala up` runs it, `pantala reload` puts a change into force.\n\n",
    );
    // A String takes all that is written.
    let _ = if isolated.is_empty() {
        writeln!(text, "# One netisr on each CPU that the process may run on.\n#cpus = {:?}\n", machine.cpus)
    } else {
        writeln!(text, "# One netisr on each CPU that the kernel isolates (isolcpus).\ncpus = {isolated:?}\n")
    };
    text.push_str("# Forward packets between the interfaces.\n#forwarding = true\n");
    let mut is_any_taken = false;
    for found in found {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
        let is_writable = found.name.bytes().all(is_plain);
        let unwritable = (!is_writable).then(|| "its name cannot be written here".to_owned());
        let left = found.left.clone().or(unwritable);
        is_any_taken |= left.is_none();
        section(&mut text, found, left.as_deref(), mark);
    }
    if !is_any_taken {
        text.push_str(
            "\n# No interface of this machine can be taken: this makes a TAP, whose other end is the kernel's.\n\
             [[interface]]\nname    = \"lan\"\ndevice  = \"tap:pantala0\"\naddress = [\"10.71.0.1/24\", \"fd71::1/64\"]\n",
        );
    }
    text.push_str(
        "\n# The way to everything else.\n#[[route]]\n#to  = \"default\"\n#via = [\"192.0.2.254\"]\n\n\
         # Rules in ipfw's language, in a file beside this one.\n#[firewall]\n#rules = \"firewall.ipfw\"\n\n\
         # The dashboard and /metrics; `openssl rand -hex 32` makes a token.\n#[http]\n#listen     = \"127.0.0.1:8080\"\n\
         #token_file = \"/etc/pantala/http.token\"\n",
    );
    text
}

/// Text for a comment, which a control character would end.
fn printable(text: &str) -> String {
    text.chars().map(|character| if character.is_control() { '?' } else { character }).collect()
}

fn section(text: &mut String, found: &Found, left: Option<&str>, mark: &str) {
    let name = printable(&found.name);
    let _ = writeln!(text, "\n# {name}: {}", found.facts);
    let off = if let Some(why) = left {
        let _ = writeln!(text, "# Left to the kernel: {}.", printable(why));
        "#"
    } else {
        ""
    };
    let _ = writeln!(text, "{off}[[interface]]");
    let begins_well = found.name.starts_with(|first: char| first.is_ascii_alphabetic());
    if begins_well && found.name.len() <= NAME_MAX && found.name != "lo0" {
        let _ = writeln!(text, "{off}name    = \"{name}\"");
    }
    let _ = writeln!(text, "{off}device  = \"af_xdp:{name}\"");
    if found.addresses.is_empty() {
        text.push_str("#address = [\"192.0.2.1/24\", \"2001:db8::1/64\"]\n");
    } else {
        let addresses: Vec<String> = found.addresses.iter().map(|net| format!("\"{net}\"")).collect();
        let off = if off.is_empty() { mark } else { off };
        let _ = writeln!(text, "{off}address = [{}]", addresses.join(", "));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Machine {
        Machine { cpus: vec![0, 1, 2, 3] }
    }

    fn interface(name: &str, addresses: &[&str]) -> Found {
        let addresses = addresses.iter().map(|net| net.parse().unwrap()).collect();
        Found { name: name.to_owned(), facts: "ice, 8 queues".to_owned(), addresses, left: None }
    }

    fn config(found: &[Found]) -> (Config, String) {
        let text = checked(found, &machine(), &[]).unwrap();
        (Config::parse("t", &text, &machine()).unwrap(), text)
    }

    #[test]
    fn whatever_a_machine_has_the_result_is_a_configuration_without_mistakes() {
        let reason = Some("eth0 carries the kernel's default route".to_owned());
        let kept = Found { left: reason, ..interface("eth0", &["192.0.2.7/24"]) };
        let odd = interface("a\"]\nb", &[]);
        let digits = interface("3com", &[]);
        let long = interface("enp129s0f1np1.4", &[]);
        let (config, text) =
            config(&[kept, odd, interface("eth1", &["198.51.100.1/24", "2001:db8::1/64"]), digits, long]);
        let names: Vec<&str> = config.interfaces.iter().map(|interface| &*interface.name).collect();
        assert_eq!((names[0], names.len()), ("eth1", 3), "{text}");
        assert_eq!(config.interfaces[0].addresses.len(), 2);
        assert!(text.contains("# Left to the kernel: eth0 carries the kernel's default route."), "{text}");
        assert!(text.contains("\n#device  = \"af_xdp:eth0\"\n"), "{text}");
    }

    #[test]
    fn addresses_that_do_not_fit_together_are_comments() {
        let (config, text) =
            config(&[interface("eth1", &["192.0.2.1/24"]), interface("eth2", &["192.0.2.2/24"])]);
        assert!(config.interfaces.iter().all(|interface| interface.addresses.is_empty()), "{text}");
        assert!(text.contains("\n#address = [\"192.0.2.2/24\"]\n"), "{text}");
    }

    #[test]
    fn without_an_interface_a_tap_takes_its_place() {
        let (config, text) = config(&[]);
        assert_eq!((config.interfaces.len(), &*config.interfaces[0].name), (1, "lan"), "{text}");
    }

    #[test]
    fn isolated_cpus_get_the_netisrs() {
        assert_eq!(isolated("2-3,9\n", &machine()), [2, 3]);
        assert!(isolated("\n", &machine()).is_empty() && isolated("x-y", &machine()).is_empty());
        let text = checked(&[], &machine(), &[2, 3]).unwrap();
        assert_eq!(Config::parse("t", &text, &machine()).unwrap().cpus, [2, 3]);
    }
}
