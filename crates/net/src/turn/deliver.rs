//! Delivery to the layers above IP: transport protocols, raw sockets and pings.

use core::net::IpAddr;

use wire::Protocol;

use crate::base::ids::IfIndex;
use crate::host::{ping, tcp, udp};
use crate::ip::icmp::{Message, Quoted};
use crate::turn::cpu::Cpu;

pub(crate) use crate::host::ping::reply as echo_reply;
pub(crate) use crate::host::raw::show as raw;
pub(crate) use crate::host::{tcp::input as tcp, udp::input as udp};

/// Reports an ICMP error of `from`, received on `ifindex`, to the sender of the quoted packet; false if there is none.
pub(crate) fn icmp_error(
    cpu: &mut Cpu,
    from: IpAddr,
    ifindex: IfIndex,
    quoted: &Quoted,
    message: Message,
) -> bool {
    match quoted.protocol {
        Protocol::ICMP | Protocol::ICMP6 => ping::error(cpu, from, quoted, message),
        Protocol::TCP => tcp::error(cpu, ifindex, quoted, message),
        Protocol::UDP => udp::error(cpu, ifindex, quoted, message),
        _ => false,
    }
}
