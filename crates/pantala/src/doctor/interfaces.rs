//! Interfaces of the kernel that pantala takes, or could take.

use dev::netlink::{
    Link, LinkFlags, NetlinkError, Rtnetlink, XdpAttachMode, XdpAttached, XdpFeatures, xdp_features,
};
use dev::sys::ethtool::{ADDRESSES_AND_PORTS, Ethtool, Flow};

use super::Finding;
use crate::config::{Config, Device};
use crate::daemon::device::lifeline;
use crate::plural::counted;

/// Largest MTU of native XDP in one page.
const NATIVE_MTU_MAX: u32 = 3498;

/// Looks at the interfaces that the configuration names, or at all Ethernet interfaces that could be taken.
pub(super) fn examine(
    netlink: &mut Rtnetlink,
    config: Option<&Config>,
    netisrs: usize,
) -> Result<Vec<Finding>, NetlinkError> {
    let links = netlink.links()?;
    let mut findings = Vec::new();
    let Some(config) = config else {
        let is_ethernet = |link: &&Link| link.mac.is_some() && !link.flags.contains(LinkFlags::LOOPBACK);
        let is_one = |link: &&Link| link.kind.as_deref().is_none_or(|kind| kind == "veth");
        for link in links.iter().filter(is_ethernet).filter(is_one) {
            findings.extend(of_link(netlink, link, netisrs, Wanted::No)?);
        }
        return Ok(findings);
    };
    for interface in &config.interfaces {
        let Device::AfXdp { host, share, .. } = &interface.device else { continue };
        let wanted = if *share { Wanted::Shared } else { Wanted::Alone };
        match links.iter().find(|link| link.name == *host) {
            Some(link) => findings.extend(of_link(netlink, link, netisrs, wanted)?),
            None => findings.push(Finding::failure(
                host,
                format!("interface {} wants it, and it is not there", interface.name),
                &["ip -br link"],
            )),
        }
    }
    Ok(findings)
}

/// Whether the configuration wants an interface.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    No,
    /// The kernel goes on using it.
    Shared,
    Alone,
}

/// Looks at one interface, which the configuration wants or could want.
fn of_link(
    netlink: &mut Rtnetlink,
    link: &Link,
    netisrs: usize,
    wanted: Wanted,
) -> Result<Vec<Finding>, NetlinkError> {
    let name = &*link.name;
    let ethtool = Ethtool::open(name).ok();
    let driver = ethtool.as_ref().and_then(|ethtool| ethtool.driver().ok());
    let mut findings = vec![modes(link, driver.as_deref().unwrap_or("unknown driver"), features(link))];
    if let Some(why) = lifeline::of(name, netlink)? {
        findings.push(kept(name, &why, wanted));
    }
    findings.extend([program(link), mtu(link), down(link)].into_iter().flatten());
    findings.extend(queues(link, ethtool.as_ref(), netisrs));
    findings.extend(ethtool.as_ref().filter(|_| link.queues.0 > 1).and_then(|ethtool| hash(name, ethtool)));
    Ok(findings)
}

fn features(link: &Link) -> Option<XdpFeatures> {
    xdp_features(link.index).ok().flatten()
}

/// The modes of AF_XDP that a driver has.
fn modes(link: &Link, driver: &str, features: Option<XdpFeatures>) -> Finding {
    let name = &*link.name;
    match features {
        Some(features) if features.zero_copy() => {
            Finding::ok(name, format!("{driver}: AF_XDP in native mode, without copies"))
        }
        Some(features) if features.native() => {
            Finding::ok(name, format!("{driver}: AF_XDP in native mode, with a copy"))
        }
        Some(_) => Finding::warning(
            name,
            format!(
                "{driver}: AF_XDP in generic mode only, which costs an sk_buff and two copies for each packet"
            ),
            &["another card or driver; the kernel's documentation lists those with XDP"],
        ),
        None => Finding::ok(name, format!("{driver}; this kernel does not say which modes of AF_XDP it has")),
    }
}

/// An interface by which the machine is reached.
fn kept(name: &str, why: &str, wanted: Wanted) -> Finding {
    match wanted {
        Wanted::No => Finding::warning(name, format!("{why}: leave it to the kernel"), &[]),
        Wanted::Shared => Finding::ok(name, format!("{why}, which goes on: they share it")),
        Wanted::Alone => {
            let share = format!("device = \"af_xdp:{name},share\" leaves the kernel what is for it");
            let mend = [&*share, "or another interface", "or `pantala up --force`, at the console"];
            Finding::failure(name, format!("{why}: `up` refuses to take it"), &mend)
        }
    }
}

/// A program that is on it.
fn program(link: &Link) -> Option<Finding> {
    let XdpAttached { program_id, mode } = link.xdp?;
    let words: &[&str] = match mode {
        XdpAttachMode::Native => &["xdpdrv"],
        XdpAttachMode::Generic => &["xdpgeneric"],
        XdpAttachMode::Offloaded => &["xdpoffload"],
        XdpAttachMode::Multiple => &["xdpgeneric", "xdpdrv", "xdpoffload"],
    };
    let text =
        format!("an XDP program (id {program_id}) is on it: of a running pantala, or of another program");
    let mut finding = Finding::warning(&link.name, text, &[&format!("bpftool prog show id {program_id}")]);
    finding.mend.extend(words.iter().map(|word| format!("ip link set dev {} {word} off", link.name)));
    Some(finding)
}

fn mtu(link: &Link) -> Option<Finding> {
    (link.mtu > NATIVE_MTU_MAX).then(|| {
        let text = format!("mtu {}: many drivers have no native XDP above {NATIVE_MTU_MAX}", link.mtu);
        Finding::warning(&link.name, text, &[&format!("ip link set dev {} mtu 1500", link.name)])
    })
}

fn down(link: &Link) -> Option<Finding> {
    let is_up = link.flags.contains(LinkFlags::UP);
    (is_up && !link.flags.contains(LinkFlags::RUNNING)).then(|| {
        Finding::warning(&link.name, "it is up, and has no carrier", &["look at the cable and the other end"])
    })
}

/// Receive queues, of which each CPU should have one.
fn queues(link: &Link, ethtool: Option<&Ethtool>, netisrs: usize) -> Option<Finding> {
    let has = usize::try_from(link.queues.0).unwrap_or(usize::MAX);
    let text = format!("{} for {}", counted(has as u64, "receive queue"), counted(netisrs as u64, "netisr"));
    if has >= netisrs {
        return Some(Finding::ok(&link.name, text));
    }
    let channels = ethtool.and_then(|ethtool| ethtool.channels().ok());
    let text = format!("{text}: packets for the other CPUs are handed over, which doubles their cost");
    let most = channels.map_or(0, |channels| channels.rx_max);
    let count = netisrs.min(usize::try_from(most).unwrap_or(0));
    let mend = match channels {
        Some(channels) if count > has && channels.is_combined => {
            format!("ethtool -L {} combined {count}", link.name)
        }
        Some(_) if count > has => format!("ethtool -L {0} rx {count} tx {count}", link.name),
        _ => "it has no more; `pantala intrctl` shows which CPU has which ring".to_owned(),
    };
    Some(Finding::warning(&link.name, text, &[&mend]))
}

/// Whether the device hashes ports, too. Its key is replaced when it is taken.
fn hash(name: &str, ethtool: &Ethtool) -> Option<Finding> {
    if let Err(why) = ethtool.rx_hash() {
        let text = format!("packets come to any CPU, and are handed over to their owners: {why}");
        return Some(Finding::warning(name, text, &[]));
    }
    let is_short =
        |flow: &Flow| ethtool.hashed_fields(*flow).is_ok_and(|fields| fields != ADDRESSES_AND_PORTS);
    Flow::ALL
        .iter()
        .any(is_short)
        .then(|| Finding::ok(name, "it does not hash ports of all protocols; `up` asks it to"))
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    #[test]
    fn an_interface_by_which_the_machine_is_reached_is_a_failure_only_if_it_is_wanted() {
        let why = "eth0 carries the kernel's default route";
        let (wanted, other) = (kept("eth0", why, Wanted::Alone), kept("eth0", why, Wanted::No));
        assert_eq!(kept("eth0", why, Wanted::Shared).verdict, Verdict::Ok);
        assert_eq!((wanted.verdict, other.verdict), (Verdict::Failure, Verdict::Warning));
        assert!(wanted.text.contains("default route") && wanted.mend[2].contains("--force"));
    }
}
