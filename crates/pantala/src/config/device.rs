//! The grammar of `device = "…"`: what packets come from and go to.
//!
//! ```text
//! device  = "tap:" ifname
//!         | "tun:" ifname
//!         | "af_xdp:" ifname *("," option)
//!         | "pcap:" infile ["," outfile]
//!         | "null:" [ "rx=" number ]
//!         | "memif:" socket *("," memif-option)
//!         | "mem:" name
//!         | ("vlan:" | "qinq:") interface "," vid
//!         | "gif:" address "," remote
//!         | "gre:" address "," remote [ ",key=" number ]
//!         | "bridge:" [ interface *("," interface) ]
//!         | "pppoe:" interface [ ",service=" name ] [ ",ac=" name ]
//!         | "lo"
//!         | "vxlan:" vni "," address ["," address] [",port=" number]
//! remote  = address | prefix | "any"
//! option  = "mode=" ("auto" | "native" | "generic" | "zerocopy")
//!         | "queues=" (count | first "-" last)
//!         | "share"
//! memif-option = "id=" number | "role=" ("master" | "slave" | "server" | "client")
//!         | "ring_size=" number | "buffer_size=" number | "secret=" text | "group=" group | "mode=" octal
//! ```

mod bridge;
pub(crate) mod memif;
mod pppoe;
mod tunnel;
mod vlan;
mod vxlan;

use core::fmt;
use core::ops::RangeInclusive;
use std::path::PathBuf;

pub use bridge::Bridge;
pub use memif::Memif;
pub use pppoe::Pppoe;
pub use tunnel::Tunnel;
pub use vlan::{TagKind, Vlan};
pub use vxlan::Vxlan;
pub(crate) use vxlan::end as vxlan_end;

use super::problem::Wrong;
use diagnostic::did_you_mean;

/// Linux's IFNAMSIZ without the final NUL.
const IFNAME_MAX: usize = 15;
/// Longest name of a wire.
const WIRE_NAME_MAX: usize = 64;
const DRIVERS: &[&str] = &[
    "tap", "tun", "af_xdp", "pcap", "null", "memif", "mem", "vlan", "qinq", "gif", "gre", "vxlan", "bridge",
    "pppoe", "lo",
];
const GRAMMAR: &str = "write tap:NAME, tun:NAME, af_xdp:NAME[,mode=MODE][,queues=N][,share], memif:SOCKET[,id=N][,role=ROLE], \
                       pcap:IN[,OUT], null:[rx=N], vlan:INTERFACE,VID, qinq:INTERFACE,VID, gif:LOCAL,REMOTE, gre:LOCAL,REMOTE[,key=N], \
                       vxlan:VNI,LOCAL[,REMOTE][,port=N], bridge:[INTERFACE[,INTERFACE…]], \
                       pppoe:INTERFACE[,service=NAME][,ac=NAME] or lo";

/// Where an interface's packets come from and go to.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Device {
    /// A TAP interface of the host, created if it is not there.
    Tap {
        /// The host's name of it.
        host: String,
    },
    /// A TUN interface of the host, created if it is not there: packets without frames.
    Tun {
        /// The host's name of it.
        host: String,
    },
    /// A NIC (or veth) of the host, through AF_XDP sockets.
    AfXdp {
        /// The host's name of it.
        host: String,
        /// Attach mode of the redirect program.
        mode: XdpMode,
        /// Which of the device's queues are taken; all if `None`.
        queues: Option<RangeInclusive<u32>>,
        /// Whether the kernel goes on using it: only what is for the stack is taken.
        share: bool,
    },
    /// Packets from a capture file, and into another.
    Pcap {
        /// Received packets are read from here.
        input: PathBuf,
        /// Sent packets are written here; if `None` they are counted and forgotten.
        output: Option<PathBuf>,
    },
    /// No wire: what is sent is forgotten.
    Null {
        /// Bytes of the frames of zeros that are received without end; 0 if none are.
        receives: u16,
    },
    /// Shared memory with another program.
    Memif(Memif),
    /// An end of a wire to another stack of the same program, which has given it this name ([`super::Config::wires`]).
    Mem {
        /// The name.
        wire: String,
    },
    /// Frames of another interface with a tag.
    Vlan(Vlan),
    /// Packets between two addresses.
    Tunnel(Tunnel),
    /// Frames in datagrams.
    Vxlan(Vxlan),
    /// Frames of other interfaces.
    Bridge(Bridge),
    /// A PPPoE session over another interface.
    Pppoe(Pppoe),
    /// Addresses of the host that are on no link.
    Lo,
}

/// The attach mode of AF_XDP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum XdpMode {
    /// The best that the device has: zero copy, then native, then generic.
    #[default]
    Auto,
    /// In the driver, with a copy; an error if the driver cannot.
    Native,
    /// In the kernel's own receive path; every device can.
    Generic,
    /// In the driver, without a copy; an error if the driver cannot.
    ZeroCopy,
}

impl Device {
    /// The driver's word in the configuration: `tap`, `tun`, `af_xdp`, `pcap`, `null`, `memif`, `mem`, `vlan`, `qinq`, `gif`, `gre`,
    /// `vxlan`, `bridge`, `pppoe`, `lo`.
    #[must_use]
    pub fn driver(&self) -> &'static str {
        match self {
            Self::Tap { .. } => "tap",
            Self::Tun { .. } => "tun",
            Self::AfXdp { .. } => "af_xdp",
            Self::Pcap { .. } => "pcap",
            Self::Null { .. } => "null",
            Self::Memif(_) => "memif",
            Self::Mem { .. } => "mem",
            Self::Vlan(vlan) => vlan.kind.word(),
            Self::Tunnel(tunnel) => tunnel.word(),
            Self::Vxlan(_) => "vxlan",
            Self::Bridge(_) => "bridge",
            Self::Pppoe(_) => "pppoe",
            Self::Lo => "lo",
        }
    }

    /// Returns the default name of an interface, without its unit number.
    #[must_use]
    pub fn unit_name(&self) -> &'static str {
        match self {
            Self::Tap { .. } => "tap",
            Self::Tun { .. } => "tun",
            Self::AfXdp { .. } => "xdp",
            Self::Pcap { .. } => "pcap",
            Self::Null { .. } => "null",
            Self::Memif(_) => "memif",
            Self::Mem { .. } => "mem",
            Self::Vlan(vlan) => vlan.kind.word(),
            Self::Tunnel(tunnel) => tunnel.word(),
            Self::Vxlan(_) => "vxlan",
            Self::Bridge(_) => "bridge",
            Self::Pppoe(_) => "pppoe",
            Self::Lo => "lo",
        }
    }

    /// Whether it is an interface that the kernel goes on using.
    #[must_use]
    pub const fn is_shared(&self) -> bool {
        matches!(self, Self::AfXdp { share: true, .. })
    }

    /// Whether the host makes it when it is opened, and it goes when it is closed.
    #[must_use]
    pub const fn is_made_here(&self) -> bool {
        matches!(self, Self::Tap { .. } | Self::Tun { .. })
    }

    /// Whether it is a link with one other end, or none, and without link addresses.
    #[must_use]
    pub const fn is_point_to_point(&self) -> bool {
        matches!(self, Self::Tun { .. } | Self::Tunnel(_) | Self::Pppoe(_) | Self::Lo)
    }

    /// Whether it has no rings: its packets come and go by other interfaces.
    #[must_use]
    pub fn is_logical(&self) -> bool {
        self.parent().is_some()
            || matches!(self, Self::Tunnel(_) | Self::Vxlan(_) | Self::Bridge(_) | Self::Pppoe(_) | Self::Lo)
    }

    /// The interface that it is over, if its frames are those of a device with a tag.
    #[must_use]
    pub fn parent(&self) -> Option<&str> {
        match self {
            Self::Vlan(vlan) => Some(&vlan.parent),
            _ => None,
        }
    }

    /// The host's interface that it is, or makes.
    #[must_use]
    pub fn host(&self) -> Option<&str> {
        match self {
            Self::Tap { host } | Self::Tun { host } | Self::AfXdp { host, .. } => Some(host),
            Self::Pcap { .. }
            | Self::Null { .. }
            | Self::Memif(_)
            | Self::Mem { .. }
            | Self::Vlan(_)
            | Self::Tunnel(_)
            | Self::Vxlan(_)
            | Self::Bridge(_)
            | Self::Pppoe(_)
            | Self::Lo => None,
        }
    }

    /// Reads a device.
    pub(crate) fn parse(text: &str) -> Result<Self, Wrong> {
        if text == "lo" {
            return Ok(Self::Lo);
        }
        let Some((driver, rest)) = text.split_once(':') else {
            return Err(Wrong::new(format!("`{text}` names no driver"), GRAMMAR));
        };
        match driver {
            "tap" => Ok(Self::Tap { host: host_name(rest)? }),
            "tun" => Ok(Self::Tun { host: host_name(rest)? }),
            "af_xdp" => af_xdp(rest),
            "pcap" => pcap(rest),
            "null" => null(rest),
            "memif" => Memif::parse(rest).map(Self::Memif),
            "mem" => Ok(Self::Mem { wire: wire_name(rest)? }),
            "vlan" => Vlan::parse(TagKind::Customer, rest).map(Self::Vlan),
            "qinq" => Vlan::parse(TagKind::Service, rest).map(Self::Vlan),
            "gif" => Tunnel::parse(rest).map(Self::Tunnel),
            "gre" => Tunnel::parse_gre(rest).map(Self::Tunnel),
            "vxlan" => Vxlan::parse(rest).map(Self::Vxlan),
            "bridge" => Bridge::parse(rest).map(Self::Bridge),
            "pppoe" => Pppoe::parse(rest).map(Self::Pppoe),
            other => Err(Wrong::new(format!("unknown driver `{other}`"), did_you_mean(other, DRIVERS))),
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tap { host } => write!(f, "tap:{host}"),
            Self::Tun { host } => write!(f, "tun:{host}"),
            Self::AfXdp { host, mode, queues, share } => {
                write!(f, "af_xdp:{host}")?;
                if *mode != XdpMode::Auto {
                    write!(f, ",mode={mode}")?;
                }
                queues.as_ref().map_or(Ok(()), |q| write!(f, ",queues={}-{}", q.start(), q.end()))?;
                f.write_str(if *share { ",share" } else { "" })
            }
            Self::Pcap { input, output } => {
                write!(f, "pcap:{}", input.display())?;
                output.as_ref().map_or(Ok(()), |path| write!(f, ",{}", path.display()))
            }
            Self::Null { receives: 0 } => f.write_str("null:"),
            Self::Null { receives } => write!(f, "null:rx={receives}"),
            Self::Memif(memif) => memif.fmt(f),
            Self::Mem { wire } => write!(f, "mem:{wire}"),
            Self::Vlan(vlan) => vlan.fmt(f),
            Self::Tunnel(tunnel) => tunnel.fmt(f),
            Self::Vxlan(vxlan) => vxlan.fmt(f),
            Self::Bridge(bridge) => bridge.fmt(f),
            Self::Pppoe(pppoe) => pppoe.fmt(f),
            Self::Lo => f.write_str("lo"),
        }
    }
}

impl fmt::Display for XdpMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Native => "native",
            Self::Generic => "generic",
            Self::ZeroCopy => "zerocopy",
        })
    }
}

fn af_xdp(rest: &str) -> Result<Device, Wrong> {
    let mut words = rest.split(',');
    let host = host_name(words.next().unwrap_or_default())?;
    let (mut mode, mut queues, mut share) = (XdpMode::Auto, None, false);
    for word in words {
        match word.split_once('=') {
            Some(("mode", value)) => mode = xdp_mode(value)?,
            Some(("queues", value)) => queues = Some(queue_range(value)?),
            None if word == "share" => share = true,
            _ => {
                let key = word.split('=').next().unwrap_or_default();
                let help = did_you_mean(key, &["mode", "queues", "share"]);
                return Err(Wrong::new(format!("unknown option `{word}` of af_xdp"), help));
            }
        }
    }
    Ok(Device::AfXdp { host, mode, queues, share })
}

fn xdp_mode(word: &str) -> Result<XdpMode, Wrong> {
    match word {
        "auto" => Ok(XdpMode::Auto),
        "native" => Ok(XdpMode::Native),
        "generic" => Ok(XdpMode::Generic),
        "zerocopy" => Ok(XdpMode::ZeroCopy),
        other => {
            let help = did_you_mean(other, &["auto", "native", "generic", "zerocopy"]);
            Err(Wrong::new(format!("unknown AF_XDP mode `{other}`"), help))
        }
    }
}

/// `N`: the first N queues; `A-B`: those from A to B.
fn queue_range(text: &str) -> Result<RangeInclusive<u32>, Wrong> {
    let range = match text.split_once('-') {
        Some((first, last)) => first.parse().ok().zip(last.parse().ok()),
        None => text.parse::<u32>().ok().and_then(|count| Some((0, count.checked_sub(1)?))),
    };
    match range {
        Some((first, last)) if first <= last && last < super::MOST_RINGS => Ok(first..=last),
        _ => Err(Wrong::new(
            format!("`{text}` is no choice of queues"),
            format!(
                "write a number from 1 to {}, or the first and the last queue as in queues=0-3",
                super::MOST_RINGS
            ),
        )),
    }
}

fn pcap(rest: &str) -> Result<Device, Wrong> {
    let (input, output) = rest.split_once(',').map_or((rest, None), |(input, output)| (input, Some(output)));
    if input.is_empty() || output == Some("") {
        return Err(Wrong::new("a pcap device needs the name of a file", "write pcap:IN or pcap:IN,OUT"));
    }
    Ok(Device::Pcap { input: input.into(), output: output.map(PathBuf::from) })
}

fn null(rest: &str) -> Result<Device, Wrong> {
    const LENGTHS: RangeInclusive<u16> = 60..=1514;
    let wrong = || {
        let help = format!(
            "write null: for a device that receives nothing, or null:rx=N for frames of {} to {} bytes without end",
            LENGTHS.start(),
            LENGTHS.end()
        );
        Wrong::new(format!("unknown option `{rest}` of null"), help)
    };
    if rest.is_empty() {
        return Ok(Device::Null { receives: 0 });
    }
    let receives = rest.strip_prefix("rx=").and_then(|number| number.parse().ok());
    receives
        .filter(|number| LENGTHS.contains(number))
        .map(|receives| Device::Null { receives })
        .ok_or_else(wrong)
}

fn wire_name(name: &str) -> Result<String, Wrong> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if !name.is_empty() && name.len() <= WIRE_NAME_MAX && name.chars().all(plain) {
        return Ok(name.to_owned());
    }
    let help = format!("use 1 to {WIRE_NAME_MAX} letters, digits, `_`, `-` or `.`");
    Err(Wrong::new(format!("`{name}` cannot be the name of a wire"), help))
}

/// A name that Linux accepts for an interface.
pub(super) fn host_name(name: &str) -> Result<String, Wrong> {
    let plain = |c: char| !c.is_whitespace() && !c.is_control() && !matches!(c, '/' | ':' | ',' | '%');
    let good = !name.is_empty()
        && name.len() <= IFNAME_MAX
        && name != "."
        && name != ".."
        && name.chars().all(plain);
    if good {
        return Ok(name.to_owned());
    }
    Err(Wrong::new(
        format!("`{name}` cannot be the name of a host interface"),
        "Linux allows 1 to 15 bytes without spaces, slashes and colons",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_read_and_shown_the_same_way() {
        for text in [
            "tap:lan0",
            "tun:vpn0",
            "af_xdp:eth0",
            "af_xdp:eth0,mode=generic,queues=1-3",
            "af_xdp:eth0,share",
            "af_xdp:eth0,queues=0-1,share",
            "pcap:in.pcap",
            "pcap:a,b",
            "memif:/run/m.sock,id=0,role=master",
            "mem:lan.1",
            "vlan:lan,10",
            "qinq:lan,4094",
            "gif:192.0.2.1,198.51.100.1",
            "gif:2001:db8::1,2001:db8:1::1",
            "gif:192.0.2.1,any",
            "gif:2001:db8::1,2001:db8:1::/48",
            "gre:192.0.2.1,198.51.100.0/24,key=7",
            "gre:192.0.2.1,198.51.100.1",
            "gre:2001:db8::1,2001:db8:1::1,key=4294967295",
            "vxlan:42,192.0.2.1",
            "vxlan:16777215,2001:db8::1,ff05::42",
            "vxlan:0,192.0.2.1,198.51.100.1,port=8472",
            "vxlan:7,192.0.2.1,port=1",
            "bridge:lan1,lan2",
            "bridge:",
            "memif:/run/m.sock,id=7,role=slave,ring_size=64,buffer_size=9216",
        ] {
            assert_eq!(Device::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_number_of_queues_means_the_first_ones() {
        let Ok(Device::AfXdp { queues, .. }) = Device::parse("af_xdp:eth0,queues=2") else { panic!() };
        assert_eq!(queues, Some(0..=1));
    }

    #[test]
    fn what_is_no_device_is_explained() {
        for (text, message, help) in [
            ("eth0", "names no driver", "write tap:NAME"),
            ("xdp:eth0", "unknown driver `xdp`", "known are"),
            ("af_xpd:eth0", "unknown driver", "did you mean `af_xdp`?"),
            ("memif:", "cannot be the file", "memif:/run/NAME.sock"),
            ("memif:@x", "not abstract names", "socket-abstract=no"),
            ("memif:/x,rol=master", "unknown option `rol=master` of memif", "did you mean `role`?"),
            ("memif:/x,role=mastr", "unknown memif role `mastr`", "did you mean `master`?"),
            ("memif:/x,role", "unknown memif role ``", "known are"),
            ("memif:/x,id=-1", "`-1` is no id", "from 0 to 4294967295"),
            ("memif:/x,ring_size=1000", "`1000` is no ring_size", "power of two from 16 to 16384"),
            ("memif:/x,ring_size=32768", "`32768` is no ring_size", "16384"),
            ("memif:/x,buffer_size=64", "`64` is no buffer_size", "from 256 to 65536"),
            ("memif:/x,secret=", "secret of 0 bytes", "1 to 23 bytes"),
            ("tap:", "cannot be the name", "1 to 15 bytes"),
            ("tap:a/b", "cannot be the name", "slashes"),
            ("tap:0123456789abcdef", "cannot be the name", "15"),
            ("af_xdp:eth0,mode=nativ", "unknown AF_XDP mode `nativ`", "did you mean `native`?"),
            ("af_xdp:eth0,queue=1", "unknown option `queue=1`", "did you mean `queues`?"),
            ("af_xdp:eth0,queues=0", "no choice of queues", "from 1"),
            ("af_xdp:eth0,queues=3-1", "no choice of queues", "0-3"),
            ("vlan:lan", "names no VLAN", "vlan:INTERFACE,VID"),
            ("vlan:,10", "names no interface", "vlan:INTERFACE,VID"),
            ("vlan:lan,0", "`0` is no VLAN identifier", "1 to 4094"),
            ("qinq:lan,4095", "`4095` is no VLAN identifier", "1 to 4094"),
            ("qinq:lan,ten", "`ten` is no VLAN identifier", "1 to 4094"),
            ("gif:192.0.2.1", "names no other end", "gif:LOCAL,REMOTE"),
            ("gre:192.0.2.1", "names no other end", "gre:LOCAL,REMOTE[,key=N]"),
            ("gre:192.0.2.1,192.0.2.2,key=x", "`x` is no key", "key=N"),
            ("gre:192.0.2.1,192.0.2.2,kay=1", "`192.0.2.2,kay=1` is no address", "key=N"),
            ("gif:192.0.2.1,198.51.100.0/33", "`198.51.100.0/33` is no prefix", "gif:LOCAL,REMOTE"),
            ("gif:192.0.2.1,far", "`far` is no address", "gif:LOCAL,REMOTE"),
            ("gif:192.0.2.1,2001:db8::1", "two address families", "gif:2001:db8::1"),
            ("gif:192.0.2.1,192.0.2.1", "both ends of the tunnel", "gif:LOCAL,REMOTE"),
            ("gif:192.0.2.1,224.0.0.5", "cannot be the end of a tunnel", "gif:LOCAL,REMOTE"),
            ("bridge:a,,b", "has a port without a name", "bridge:lan1,lan2"),
            ("bridge:a,b,a", "`a` is a port twice", "bridge:lan1,lan2"),
            ("vxlan:16777216,192.0.2.1", "no VXLAN network identifier", "0 to 16777215"),
            ("vxlan:42", "has no local address", "vxlan:VNI,LOCAL"),
            ("vxlan:42,here", "`here` is no address", "vxlan:VNI,LOCAL"),
            ("vxlan:42,239.1.1.1", "is a group", "vxlan:VNI,LOCAL"),
            ("vxlan:42,192.0.2.1,::1", "cannot be the end of a VXLAN", "vxlan:VNI,LOCAL"),
            ("vxlan:42,192.0.2.1,2001:db8::1", "two address families", "vxlan:VNI,LOCAL"),
            ("vxlan:42,192.0.2.1,192.0.2.1", "both ends of the VXLAN", "vxlan:VNI,LOCAL"),
            ("vxlan:42,192.0.2.1,port=0", "`port=0` is no port", "1 to 65535"),
            ("vxlan:42,192.0.2.1,ttl=7", "unknown option `ttl=7` of vxlan", "port=N"),
            ("mem:", "cannot be the name of a wire", "letters"),
            ("mem:a b", "cannot be the name of a wire", "1 to 64"),
            ("pcap:", "needs the name of a file", "pcap:IN"),
            ("pcap:a,", "needs the name of a file", "pcap:IN"),
        ] {
            let wrong = Device::parse(text).unwrap_err();
            assert!(wrong.message.contains(message), "{text}: {wrong:?}");
            assert!(wrong.help.contains(help), "{text}: {wrong:?}");
        }
    }
}
