//! Interfaces that the kernel goes on using: their programs know the addresses of both.

use core::net::IpAddr;

use dev::bpf::share::Shares;

use super::control::Control;
use super::log;

impl Control {
    /// Tells the programs of shared interfaces which addresses are ours and which the kernel's, as they are now.
    pub(super) fn share_addresses(&mut self) {
        if !self.attached.iter().any(|interface| interface.config.device.is_shared()) {
            return;
        }
        let kernels = match self.workshop.netlink.addresses() {
            Ok(addresses) => addresses.iter().map(|own| own.net.addr()).collect(),
            Err(why) => {
                log::error(&format!("shared interfaces keep the addresses that they had: {why}"));
                return;
            }
        };
        let all = Shares {
            ours: self.own_addresses(),
            kernels,
            ports: Vec::new(),
            forwards: self.config.forwarding,
        };
        for interface in self.attached.iter().filter(|interface| interface.config.device.is_shared()) {
            let ports = &interface.config.kernel_ports;
            let ports = ports.iter().map(|kernels| (kernels.protocol, kernels.ports.clone())).collect();
            if let Err(why) = interface.hold.share(&Shares { ports, ..all.clone() }) {
                log::error(&format!("interface {}: {why}", interface.config.name));
            }
        }
    }

    /// Our addresses, of all interfaces.
    fn own_addresses(&self) -> Vec<IpAddr> {
        let of_tables = self.tables.ifnets().flat_map(|ifnet| {
            let learned = ifnet.learned.addrs.iter().map(|own| own.addr.into());
            ifnet.addrs.iter().map(|own| own.addr).chain(learned)
        });
        of_tables.collect()
    }
}
