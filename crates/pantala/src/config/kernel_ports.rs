//! The key `kernel_ports` of a shared interface: protocols and ports that stay the kernel's where it has an address too.

use core::ops::RangeInclusive;

use super::problem::Wrong;

/// Ports of a protocol: `tcp/22`, `udp/60000-61000`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelPorts {
    /// The number of the protocol: 6 or 17.
    pub protocol: u8,
    /// The ports.
    pub ports: RangeInclusive<u16>,
}

impl KernelPorts {
    pub(super) fn parse(text: &str) -> Result<Self, Wrong> {
        Self::read(text).ok_or_else(|| {
            let help = "write a protocol and a port or two, as in tcp/22 or udp/32768-60999";
            Wrong::new(format!("bad ports `{text}`"), help)
        })
    }

    fn read(text: &str) -> Option<Self> {
        let (protocol, ports) = text.split_once('/')?;
        let protocol = match protocol {
            "tcp" => 6,
            "udp" => 17,
            _ => return None,
        };
        let (first, last) = ports.split_once('-').unwrap_or((ports, ports));
        let (first, last): (u16, u16) = (first.parse().ok()?, last.parse().ok()?);
        (first <= last && first > 0).then_some(Self { protocol, ports: first..=last })
    }

    pub(crate) fn has(&self, protocol: u8, port: u16) -> bool {
        self.protocol == protocol && self.ports.contains(&port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_one_or_a_range_of_tcp_or_udp() {
        let read = |text| KernelPorts::parse(text).unwrap();
        assert!(read("tcp/22").has(6, 22) && !read("tcp/22").has(17, 22) && !read("tcp/22").has(6, 23));
        assert!(read("udp/10-12").has(17, 12) && !read("udp/10-12").has(17, 13));
        for bad in ["", "22", "tcp", "tcp/", "tcp/0", "tcp/3-2", "sctp/1", "tcp/65536", "tcp/1-2-3"] {
            assert!(KernelPorts::parse(bad).is_err(), "{bad}");
        }
    }
}
