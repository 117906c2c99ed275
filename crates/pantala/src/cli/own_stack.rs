//! A stack of a command's own: its device and addresses, by options of the command.

use core::net::IpAddr;
use std::path::PathBuf;

use clap::Args;
use dev::netlink::Rtnetlink;
use ipnet::IpNet;

use super::Failure;
use super::line::ControlSocket;
use crate::config::Machine;
use crate::{Builder, Interface, Stack, StackError};

/// The device, unless another is named, and its addresses: pantala's end and the kernel's.
const DEVICE: &str = "pantala0";
const ADDRESSES: [(&str, &str); 2] = [("10.71.0.1/24", "10.71.0.2/24"), ("fd71::1/64", "fd71::2/64")];

#[derive(Debug, Args)]
pub(crate) struct OwnStack {
    /// Where packets come from: tap:NAME, af_xdp:NAME, memif:SOCKET
    #[arg(long, requires = "address")]
    device: Option<String>,
    /// Take the device even if it carries the kernel's default route or your ssh session
    #[arg(long, requires = "device")]
    force: bool,
    /// The addresses of the device, with the length of their networks
    #[arg(long, value_name = "ADDRESS/LENGTH")]
    address: Vec<IpNet>,
    /// The way to everybody else
    #[arg(long, value_name = "ADDRESS")]
    gateway: Vec<IpAddr>,
    /// Number of CPUs [default: all that it may use]
    #[arg(long, value_name = "N")]
    cpus: Option<usize>,
    #[command(flatten)]
    pub(crate) control: ControlSocket,
}

impl OwnStack {
    /// The stack that this amounts to.
    pub(crate) fn build(&self) -> Builder {
        let device = self.device.clone().unwrap_or_else(|| format!("tap:{DEVICE}"));
        let own = self.addresses().into_iter().map(|(own, _)| own);
        let interface = own.fold(Interface::new(device), Interface::address);
        let mut stack = Stack::builder().interface(interface);
        if let Some(count) = self.cpus {
            stack = stack.cpus(Machine::here().cpus.into_iter().take(count));
        }
        if self.force {
            stack = stack.force();
        }
        self.gateway.iter().fold(stack, |stack, gateway| stack.route("default", gateway))
    }

    /// Starts it within this process; `name` is its name in messages.
    pub(crate) fn start(&self, name: &str, control: Option<PathBuf>) -> Result<Stack, Failure> {
        let builder = control.into_iter().fold(self.build(), Builder::admin);
        let config = builder.config_called(name);
        let config = config.map_err(|problems| Failure::Misconfigured(problems.to_string()))?;
        let failed = |why: StackError| Failure::Failed(why.to_string());
        let stack = Stack::start(config).map_err(failed)?;
        self.attach().map_err(failed)?;
        Ok(stack)
    }

    /// pantala's addresses, and those of the kernel's end where that is ours to configure.
    pub(crate) fn addresses(&self) -> Vec<(IpNet, Option<IpNet>)> {
        if !self.address.is_empty() {
            return self.address.iter().map(|address| (*address, None)).collect();
        }
        ADDRESSES.iter().filter_map(|(own, other)| Some((own.parse().ok()?, other.parse().ok()))).collect()
    }

    /// Configures the kernel's end of the TAP, unless a device was named.
    pub(crate) fn attach(&self) -> Result<(), StackError> {
        if self.device.is_some() {
            return Ok(());
        }
        let configure = || {
            let mut netlink = Rtnetlink::open()?;
            netlink.set_up(DEVICE, true)?;
            let others = self.addresses().into_iter().filter_map(|(_, other)| other);
            others.into_iter().try_for_each(|other| netlink.add_address(DEVICE, other))
        };
        configure().map_err(|why| StackError::Device { interface: DEVICE.to_owned(), why: why.to_string() })
    }
}
