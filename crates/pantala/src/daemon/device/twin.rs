//! The kernel's twin of an interface while it is used, and what a killed daemon has left of it.
//!
//! A twin is a persistent TAP, whose alias names its interface and the daemon: `pantala twin of wan; /etc/pantala/pantala.toml`. After
//! a kill it stays with its number, addresses and the kernel's routes, and has no carrier. The next daemon with the same
//! configuration file takes it over, or removes it if no interface has it any more.

use core::hash::Hasher;
use std::path::{Path, absolute};

use dev::netlink::{ALIAS_MAX, Link, NetlinkError, Rtnetlink};
use dev::sys::tun::{Tap, TunError};
use siphasher::sip::SipHasher13;

use super::super::log;
use super::super::tables::Attached;
use super::{Workshop, refused};
use crate::StackError;
use crate::config::Interface;

/// The beginning of the alias of all twins.
const MARK: &str = "pantala twin of ";
/// The superuser.
const ROOT: u32 = 0;

/// The daemon's own end of the alias. A stack inside of a program has none: its twins go with the process.
#[derive(Debug, Clone, Default)]
pub(crate) struct Instance(Option<String>);

impl Instance {
    /// Names the daemon by its configuration file, which no other has that runs at the same time.
    pub(crate) fn of(file: Option<&Path>) -> Self {
        Self(file.map(|file| {
            let file = absolute(file).unwrap_or_else(|_| file.to_owned()).display().to_string();
            // The name of the interface goes before it.
            if file.len() <= ALIAS_MAX / 2 { file } else { format!("configuration {:016x}", hash(&file)) }
        }))
    }

    /// The alias of the twin of the interface `of`.
    fn alias(&self, of: &str) -> Option<String> {
        let instance = self.0.as_deref()?;
        let most = ALIAS_MAX - MARK.len() - "; ".len() - instance.len();
        let of = &of[..of.floor_char_boundary(most)];
        Some(format!("{MARK}{of}; {instance}"))
    }

    /// Whether this daemon, or an earlier one with its file, made the twin.
    fn has_made(&self, link: &Link) -> bool {
        let (Some(instance), Some(alias)) = (&self.0, &link.alias) else { return false };
        let of = alias.strip_suffix(instance.as_str()).and_then(|rest| rest.strip_suffix("; "));
        is_tap(link) && of.is_some_and(|of| of.starts_with(MARK))
    }
}

fn hash(text: &str) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write(text.as_bytes());
    hasher.finish()
}

fn is_tap(link: &Link) -> bool {
    link.kind.as_deref() == Some("tun")
}

/// Whether no process has the TAP open.
fn is_left(link: &Link) -> bool {
    link.open_queues == Some(0)
}

/// Refuses to use an interface of the kernel as a twin that others have made.
pub(super) fn is_free_or_ours(
    interface: &Interface,
    host: &str,
    workshop: &mut Workshop,
) -> Result<(), StackError> {
    let link = match workshop.netlink.link(host) {
        Ok(link) => link,
        Err(NetlinkError::NoSuchLink(_)) => return Ok(()),
        Err(why) => return Err(refused(interface, &why)),
    };
    // One that a process has open is refused with the name of the process.
    let is_open = is_tap(&link) && link.open_queues.is_some_and(|queues| queues > 0);
    if is_open || workshop.instance.has_made(&link) {
        return Ok(());
    }
    let of = interface.twin_of.as_deref().unwrap_or_default();
    let alias = link.alias.map_or_else(String::new, |alias| format!(" (alias \"{alias}\")"));
    Err(StackError::Misfit(format!(
        "interface {of}: its twin cannot be named {host}: the kernel has an interface {host}{alias} that this pantala has not made; \
         write punt = \"NAME\" with another name, or `ip link delete {host}` if nothing needs it"
    )))
}

/// A twin in use. Dropping it, after its queues are closed, removes it.
pub(super) struct Twin {
    netlink: Rtnetlink,
    host: String,
    /// The kernel's number of it; none when it is gone.
    index: Option<u32>,
}

impl Twin {
    /// Lets a TAP outlive this process if it is killed.
    pub(super) fn keep(of: &str, tap: &Tap, workshop: &Workshop) -> Result<Self, TwinError> {
        let mut netlink = Rtnetlink::open()?;
        let link = netlink.link(&tap.name)?;
        if let Some(alias) = workshop.instance.alias(of) {
            if link.alias.is_some() {
                log::info(&format!("{}, the twin of {of}, is taken over from an earlier run", tap.name));
            }
            // Before it stays, so that none stays without.
            if link.alias.as_ref() != Some(&alias) {
                netlink.set_alias(&tap.name, &alias)?;
            }
            // Any user might attach to it. A user namespace may have no root.
            let _ = tap.set_owner(ROOT);
            tap.set_persistent(true)?;
        }
        Ok(Self { netlink, host: tap.name.clone(), index: Some(link.index) })
    }

    /// Removes nothing: it is gone, and another may have its name.
    pub(super) fn forsake(&mut self) {
        self.index = None;
    }
}

impl Drop for Twin {
    fn drop(&mut self) {
        let is_there = |link: Link| Some(link.index) == self.index;
        if !self.netlink.link(&self.host).is_ok_and(is_there) {
            return;
        }
        match self.netlink.delete_link(&self.host) {
            Ok(()) | Err(NetlinkError::NoSuchLink(_)) => {}
            Err(why) => log::warning(&format!("{} stays: {why}", self.host)),
        }
    }
}

/// Why a TAP does not become a twin.
#[derive(Debug, thiserror::Error)]
pub(super) enum TwinError {
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
    #[error(transparent)]
    Tun(#[from] TunError),
}

/// Removes twins that a daemon with the same file has left when it was killed, and that no interface has now.
pub(crate) fn remove_orphans(workshop: &mut Workshop, attached: &[Attached]) {
    let used = |link: &Link| {
        attached.iter().any(|own| own.facts.host.as_ref().is_some_and(|(_, index)| *index == link.index))
    };
    let links = match workshop.netlink.links() {
        Ok(links) => links,
        Err(why) => return log::warning(&format!("twins of an earlier run may be left: {why}")),
    };
    let instance = &workshop.instance;
    for link in links.iter().filter(|link| instance.has_made(link) && is_left(link) && !used(link)) {
        match workshop.netlink.delete_link(&link.name) {
            Ok(()) => log::info(&format!("{}, a twin of an earlier run, is removed", link.name)),
            Err(NetlinkError::NoSuchLink(_)) => {}
            Err(why) => log::warning(&format!("{}, a twin of an earlier run, stays: {why}", link.name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alias_fits_and_belongs_to_one_file() {
        let long = format!("/{}", "x/".repeat(200));
        for file in ["/etc/a.toml", "/etc/b.toml", &long] {
            for of in ["wan", "a; b", &"ä".repeat(200)] {
                let alias = Instance::of(Some(Path::new(file))).alias(of).unwrap();
                assert!(alias.len() <= ALIAS_MAX && alias.starts_with(MARK), "{alias}");
            }
        }
        assert_eq!(
            Instance::of(Some(Path::new("/etc/a.toml"))).alias("wan").unwrap(),
            "pantala twin of wan; /etc/a.toml"
        );
        assert!(Instance::of(None).alias("wan").is_none(), "a stack inside of a program");
    }
}
