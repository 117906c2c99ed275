//! `--so_flags`: words and settings, with commas between them.
//!
//! | flag | meaning |
//! |---|---|
//! | `freebsd` | buffers, timers and other defaults as FreeBSD's scripts expect them, which is so without a word |
//! | `linux` | as scripts expect them that begin with `defaults.sh`, and a card that cuts segments. The options of SYNs stand in Linux' order, since packetdrill compares them byte by byte |
//! | `tso=off` | the card cuts none, as behind `ethtool -K tun0 tso off` |
//! | `ipv4`, `ipv6` | which address the host has until a call or a packet names one |
//! | `local_ip=ADDR`, `remote_ip=ADDR` | the host's, and another's: packetdrill's own if not |
//! | `mtu=BYTES` | of the link: 1500 |
//! | `cpus=COUNT` | of the host, each with a ring of its card: 1 to 8 |
//! | `seed=NUMBER` | from which ports, sequence numbers and keys follow |
//! | `patience=SECONDS` | of virtual time, until a packet that is waited for counts as lost: 14400 |
//! | `NAME=VALUE` | a variable of the system, as `net.inet.tcp.rfc1323=0` or `net.ipv4.tcp_sack=0` |

use core::net::IpAddr;
use core::str::FromStr;
use core::time::Duration;

use sim::drill::{Machine, Scene};

/// CPUs at the most.
const CPUS_MAX: u16 = 8;
/// Bytes of the smallest link: IPv4 is cut for no smaller one (RFC 791 §3.2).
const MTU_MIN: u16 = 68;
const MTU_MIN_V6: u16 = 1280;

/// The parsed flags.
#[derive(Debug)]
pub(crate) struct Flags {
    scene: Scene,
    variables: Vec<(String, String)>,
    /// Time limit of a packet.
    pub(crate) patience: Duration,
}

impl Flags {
    /// Reads flags.
    ///
    /// # Errors
    ///
    /// The first that is wrong, and why.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let patience = Duration::from_secs(4 * 3600);
        let mut flags = Self { scene: Scene::default(), variables: Vec::new(), patience };
        for flag in text.split(',').map(str::trim).filter(|flag| !flag.is_empty()) {
            flags.take(flag)?;
        }
        if flags.scene.is_ipv6 && flags.scene.mtu < MTU_MIN_V6 {
            return Err(format!("mtu={} is too little for IPv6, which needs {MTU_MIN_V6}", flags.scene.mtu));
        }
        Ok(flags)
    }

    fn take(&mut self, flag: &str) -> Result<(), String> {
        let scene = &mut self.scene;
        match flag.split_once('=') {
            None => match flag {
                "linux" => scene.is_linux = true,
                "freebsd" => scene.is_linux = false,
                "ipv4" => scene.is_ipv6 = false,
                "ipv6" => scene.is_ipv6 = true,
                _ => return Err(format!("`{flag}` is no flag that is known here")),
            },
            Some(("tso", "off")) => scene.cuts = false,
            Some(("tso", "on")) => scene.cuts = true,
            Some(("local_ip", value)) => match address(flag, value)? {
                IpAddr::V4(addr) => (scene.is_ipv6, scene.locals.0) = (false, addr),
                IpAddr::V6(addr) => (scene.is_ipv6, scene.locals.1) = (true, addr),
            },
            Some(("remote_ip", value)) => match address(flag, value)? {
                IpAddr::V4(addr) => scene.remotes.0 = addr,
                IpAddr::V6(addr) => scene.remotes.1 = addr,
            },
            Some(("mtu", value)) => scene.mtu = within(flag, value, MTU_MIN, u16::MAX)?,
            Some(("cpus", value)) => scene.cpus = within(flag, value, 1, CPUS_MAX)?,
            Some(("seed", value)) => scene.seed = within(flag, value, 0, u64::MAX)?,
            Some(("patience", value)) => {
                self.patience = Duration::from_secs(within(flag, value, 0, u64::from(u32::MAX))?);
            }
            // Whether there is such a variable, the machine knows.
            Some((name, value)) if name.contains('.') => {
                self.variables.push((name.to_owned(), value.to_owned()));
            }
            Some(_) => return Err(format!("`{flag}` is no flag that is known here")),
        }
        Ok(())
    }

    /// Switches the host on.
    ///
    /// # Errors
    ///
    /// The first variable that is not known, or cannot have its value.
    pub(crate) fn machine(&self) -> Result<Machine, String> {
        let mut machine = Machine::new(self.scene);
        for (name, value) in &self.variables {
            machine.set(name, value)?;
        }
        Ok(machine)
    }
}

fn address(flag: &str, value: &str) -> Result<IpAddr, String> {
    let addr: IpAddr = value.parse().map_err(|_| format!("`{flag}` names no address"))?;
    let is_of_one = !addr.is_unspecified() && !addr.is_multicast() && !addr.is_loopback();
    if is_of_one { Ok(addr) } else { Err(format!("`{flag}` names an address that is not one host's")) }
}

fn within<T: FromStr + PartialOrd + core::fmt::Display>(
    flag: &str,
    value: &str,
    least: T,
    most: T,
) -> Result<T, String> {
    match value.parse() {
        Ok(number) if number >= least && number <= most => Ok(number),
        _ => Err(format!("`{flag}` needs a number from {least} to {most}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_taken_and_what_is_none_is_refused_by_its_name() {
        let flags =
            Flags::read("linux, tso=off,ipv6,mtu=1280 ,,cpus=2,seed=7,net.ipv4.tcp_sack=0,patience=9")
                .unwrap();
        let Scene { is_linux, cuts, is_ipv6, mtu, cpus, seed, .. } = flags.scene;
        assert_eq!((is_linux, cuts, is_ipv6, mtu, cpus, seed), (true, false, true, 1280, 2, 7));
        assert_eq!(flags.patience, Duration::from_secs(9));
        assert!(flags.machine().is_ok());
        let flags = Flags::read("local_ip=fd00::9,remote_ip=198.51.100.7").unwrap();
        assert_eq!((flags.scene.is_ipv6, flags.scene.locals.1), (true, "fd00::9".parse().unwrap()));
        assert_eq!(flags.scene.remotes.0, "198.51.100.7".parse::<core::net::Ipv4Addr>().unwrap());
        for wrong in [
            "solaris",
            "mtu=67",
            "mtu=x",
            "ipv6,mtu=1279",
            "cpus=0",
            "cpus=9",
            "colour=red",
            "local_ip=::",
            "remote_ip=here",
            "local_ip=224.0.0.1",
            "seed=-1",
        ] {
            let last = wrong.rsplit(',').next().unwrap();
            let said = Flags::read(wrong).unwrap_err();
            assert!(said.contains(last), "{wrong}: {said}");
        }
        let said = Flags::read("net.inet.tcp.nothing=1").unwrap().machine();
        assert!(said.is_err_and(|said| said.contains("net.inet.tcp.nothing")));
    }
}
