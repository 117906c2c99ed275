//! Addresses that come and go while packets flow.

use ipnet::IpNet;

use super::super::control::Control;
use super::super::tables::{Attached, MTU_MIN_V6};
use crate::api::{Error, ErrorKind};
use crate::config::check::interfaces::one_more;

impl Control {
    pub(crate) fn add_address(&mut self, name: &str, address: IpNet) -> Result<(), Error> {
        let interface = self.interface(name).ok_or_else(|| self.no_interface(name))?;
        let fib = interface.config.fib;
        let meets = |other: &&Attached| self.config.add_addr_all_fibs || other.config.fib == fib;
        let others = self.attached.iter().filter(meets);
        let there: Vec<(IpNet, bool)> = others.flat_map(|other| own(other, name)).collect();
        if address.addr().is_ipv6() && interface.mtu() < MTU_MIN_V6 {
            let text = format!("mtu {} of {name} is too small for IPv6", interface.mtu());
            return Err(Error::new(ErrorKind::Invalid, text).hint("it needs 1280 or more"));
        }
        one_more(&address, &there)
            .map_err(|wrong| Error::new(ErrorKind::Invalid, wrong.message).hint(wrong.help))?;
        self.change_addresses(name, |addresses| addresses.push(address))
    }

    pub(crate) fn remove_address(&mut self, name: &str, address: IpNet) -> Result<(), Error> {
        let interface = self.interface(name).ok_or_else(|| self.no_interface(name))?;
        if !interface.config.addresses.contains(&address) {
            return Err(Error::new(ErrorKind::NotFound, format!("{name} has no address {address}")));
        }
        self.change_addresses(name, |addresses| addresses.retain(|own| *own != address))
    }

    fn change_addresses(&mut self, name: &str, change: impl FnOnce(&mut Vec<IpNet>)) -> Result<(), Error> {
        if let Some(interface) = self.attached.iter_mut().find(|interface| interface.config.name == name) {
            change(&mut interface.config.addresses);
        }
        self.publish()
    }
}

/// The addresses of an interface, and whether it is the one of this name.
fn own(interface: &Attached, name: &str) -> Vec<(IpNet, bool)> {
    interface.config.addresses.iter().map(|net| (*net, interface.config.name == name)).collect()
}
