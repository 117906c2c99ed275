//! `serve DIR`: a stack of its own that serves a folder to the web.

use core::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use clap::Args;
use dev::netlink::Rtnetlink;
use ipnet::IpNet;

use super::line::ControlSocket;
use super::{Failure, up};
use crate::config::Machine;
use crate::daemon::log::{self, Level};
use crate::{Builder, Interface, Stack, StackError, daemon};

/// The device, unless another is named, and its addresses: pantala's end and the kernel's.
const DEVICE: &str = "pantala0";
const ADDRESSES: [(&str, &str); 2] = [("10.71.0.1/24", "10.71.0.2/24"), ("fd71::1/64", "fd71::2/64")];

/// The port that a URL need not name.
const HTTP: u16 = 80;

pub(crate) const HELP: &str = "\
Without --device, it creates a TAP called pantala0 whose other end is this
machine's kernel:

  pantala serve /srv/www &
  curl http://10.71.0.1/

It is the same as `pantala up` with a section [[serve]], and the same commands
control it.";

/// Options of `serve`.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// The folder; nothing outside of it is served, whatever links lead there
    #[arg(value_name = "DIR")]
    folder: PathBuf,
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
    /// The TCP port
    #[arg(long, default_value_t = HTTP)]
    port: u16,
    /// Number of CPUs [default: all that it may use]
    #[arg(long, value_name = "N")]
    cpus: Option<usize>,
    #[command(flatten)]
    pub(super) control: ControlSocket,
}

impl Serve {
    pub(crate) fn run(&self, socket: Option<PathBuf>) -> Result<(), Failure> {
        log::to_stderr(Level::Info);
        let file = Path::new("pantala serve");
        let config = self.build().config_called("pantala serve");
        let config = config.map_err(|problems| Failure::Misconfigured(problems.to_string()))?;
        let attach = || {
            log::info(&format!("web server at {}", self.urls().join(" and ")));
            if self.device.is_none() { attach(&self.addresses()) } else { Ok(()) }
        };
        daemon::run(None, config, socket, attach).map_err(|why| up::failure(file, why))
    }

    /// The stack that this amounts to.
    fn build(&self) -> Builder {
        let device = self.device.clone().unwrap_or_else(|| format!("tap:{DEVICE}"));
        let own = self.addresses().into_iter().map(|(own, _)| own);
        let interface = own.fold(Interface::new(device), Interface::address);
        let mut stack = Stack::builder().interface(interface).serve(&self.folder, self.port);
        if let Some(count) = self.cpus {
            stack = stack.cpus(Machine::here().cpus.into_iter().take(count));
        }
        if self.force {
            stack = stack.force();
        }
        self.gateway.iter().fold(stack, |stack, gateway| stack.route("default", gateway))
    }

    /// Where the folder is to be found.
    fn urls(&self) -> Vec<String> {
        let url = |(own, _): (IpNet, _)| match SocketAddr::new(own.addr(), self.port) {
            SocketAddr::V4(addr) if self.port == HTTP => format!("http://{}/", addr.ip()),
            SocketAddr::V6(addr) if self.port == HTTP => format!("http://[{}]/", addr.ip()),
            addr => format!("http://{addr}/"),
        };
        self.addresses().into_iter().map(url).collect()
    }

    /// pantala's addresses, and those of the kernel's end where that is ours to configure.
    fn addresses(&self) -> Vec<(IpNet, Option<IpNet>)> {
        if !self.address.is_empty() {
            return self.address.iter().map(|address| (*address, None)).collect();
        }
        ADDRESSES.iter().filter_map(|(own, other)| Some((own.parse().ok()?, other.parse().ok()))).collect()
    }
}

/// Configures the kernel's end of the TAP.
fn attach(addresses: &[(IpNet, Option<IpNet>)]) -> Result<(), StackError> {
    let configure = || {
        let mut netlink = Rtnetlink::open()?;
        netlink.set_up(DEVICE, true)?;
        addresses
            .iter()
            .filter_map(|(_, other)| *other)
            .try_for_each(|other| netlink.add_address(DEVICE, other))
    };
    configure().map_err(|why| StackError::Device { interface: DEVICE.to_owned(), why: why.to_string() })
}
