//! A stack put together in a program: the same as a configuration file says, in the words of Rust.
//!
//! What is built is written as such a file and read as one is, so both mean the same, are checked by the same code, and a
//! mistake is shown where it was made, with the remedy.

use core::fmt::{Display, Write};

use dev::mem::End;
use toml::Value;

use super::{Stack, StackError};
use crate::config::{Config, Machine, Problems, Wires};

/// Name of the configuration in problems.
const NAME: &str = "stack";

/// The configuration of a stack: [`Stack::builder`]. Without CPUs it has a netisr on each that the process may use.
#[derive(Debug, Default)]
#[must_use = "nothing is started before `start`"]
pub struct Builder {
    /// Keys that stand before all sections.
    keys: String,
    /// A configuration that was given as a text.
    text: String,
    /// Sections that stand behind it.
    sections: String,
    sysctls: Vec<String>,
    wires: Wires,
    force: bool,
}

/// An interface of a stack: a device, and what is said of it. As in a section `[[interface]]`.
#[derive(Debug)]
#[must_use = "it is to be given to `Builder::interface`"]
pub struct Interface {
    device: String,
    /// The end that the device means, if it is a wire.
    wire: Option<End>,
    addresses: Vec<Value>,
    keys: String,
}

impl Builder {
    /// Begins with a configuration, as it stands in the file that `pantala up` reads. What is built besides is added.
    pub fn toml(mut self, text: &str) -> Self {
        self.text.push_str(text);
        self.text.push('\n');
        self
    }

    /// One netisr on each of these CPUs, pinned.
    pub fn cpus(self, cpus: impl IntoIterator<Item = usize>) -> Self {
        let cpus: Vec<usize> = cpus.into_iter().collect();
        self.written(&format!("cpus = {cpus:?}"))
    }

    /// Sets the number of netisrs, which run wherever the kernel puts them.
    pub fn threads(self, count: usize) -> Self {
        self.written(&format!("threads = {count}"))
    }

    /// Forwards packets that are for others: a router.
    pub fn forwarding(self) -> Self {
        self.written("forwarding = true")
    }

    /// Sets the number of packet buffers of all CPUs together. The default follows from rings and CPUs.
    pub fn buffers(self, count: usize) -> Self {
        self.written(&format!("buffers = {count}"))
    }

    /// Serves the admin API on a Unix socket at this path, for `pantala --socket PATH …`. Without it the stack is
    /// controlled by its program alone. It needs the feature `admin`.
    #[cfg(feature = "admin")]
    pub fn admin(self, socket: impl Into<std::path::PathBuf>) -> Self {
        let socket = quoted(socket.into().display());
        self.written(&format!("socket = {socket}"))
    }

    /// One more interface.
    pub fn interface(mut self, interface: Interface) -> Self {
        let Interface { mut device, wire, addresses, keys } = interface;
        if let Some(end) = wire {
            let (number, side) = end.id();
            device = format!("mem:{number}.{side}");
            self.wires.insert(format!("{number}.{side}"), end);
        }
        let (device, addresses) = (quoted(device), Value::Array(addresses));
        self.section(&format!("[[interface]]\ndevice = {device}\naddress = {addresses}\n{keys}"))
    }

    /// Defines a device `mem:NAME` of a configuration. [`Interface::mem`] needs no name.
    pub fn wire(mut self, name: &str, end: End) -> Self {
        self.wires.insert(name.to_owned(), end);
        self
    }

    /// The way to a prefix, or to `default`: over this gateway.
    pub fn route(self, to: impl Display, via: impl Display) -> Self {
        let (to, via) = (quoted(to), quoted(via));
        self.section(&format!("[[route]]\nto = {to}\nvia = [{via}]\n"))
    }

    /// Rules of the firewall, in ipfw's language, a command on each line. What no rule matches is denied.
    pub fn firewall(self, rules: &str) -> Self {
        let rules = quoted(rules);
        self.section(&format!("[firewall]\nrules_text = {rules}\n"))
    }

    /// The value that a variable of the stack has from the beginning, as `pantala sysctl NAME=VALUE` gives it.
    pub fn sysctl(mut self, name: &str, value: impl Display) -> Self {
        self.sysctls.push(format!("{} = {}\n", quoted(name), quoted(value)));
        self
    }

    /// Serves the files of a folder to the web, on all addresses. It needs the feature `web`.
    #[cfg(feature = "web")]
    pub fn serve(self, folder: impl Into<std::path::PathBuf>, port: u16) -> Self {
        let folder = quoted(folder.into().display());
        self.section(&format!("[[serve]]\ndir = {folder}\nport = {port}\n"))
    }

    /// Takes interfaces of the kernel even if they carry its default route, or the ssh session of the caller.
    pub fn force(self) -> Self {
        Self { force: true, ..self }
    }

    /// The configuration that this amounts to, with everything compared and checked.
    ///
    /// # Errors
    /// Everything that is wrong.
    pub fn config(self) -> Result<Config, Problems> {
        self.config_called(NAME)
    }

    /// Builds the configuration; `name` is its name in problems.
    pub(crate) fn config_called(self, name: &str) -> Result<Config, Problems> {
        let config = Config::parse(name, &self.to_toml(), &Machine::here())?;
        Ok(Config { wires: self.wires, force: self.force, ..config })
    }

    /// Starts the stack: opens its devices, and starts its threads. When this returns, packets flow.
    ///
    /// # Errors
    /// [`StackError`]. What was opened is closed again then.
    pub fn start(self) -> Result<Stack, StackError> {
        let config = self.config().map_err(|problems| StackError::Config(problems.into()))?;
        Stack::start(config)
    }

    fn to_toml(&self) -> String {
        let Self { keys, text, sections, sysctls, .. } = self;
        let sysctl = if sysctls.is_empty() { "" } else { "[sysctl]\n" };
        format!("{keys}{text}{sections}{sysctl}{}", sysctls.concat())
    }

    fn written(mut self, key: &str) -> Self {
        // To write to a string never fails.
        let _ = writeln!(self.keys, "{key}");
        self
    }

    fn section(mut self, section: &str) -> Self {
        self.sections.push_str(section);
        self
    }
}

impl Interface {
    /// Any device, as a configuration has it: `tap:NAME`, `af_xdp:NAME,mode=…`, `memif:SOCKET,id=…`, `pcap:IN,OUT`.
    pub fn new(device: impl Display) -> Self {
        Self { device: device.to_string(), wire: None, addresses: Vec::new(), keys: String::new() }
    }

    /// A TAP: an interface of this name of the kernel, whose other end is the stack. It is made if it is not there, which
    /// needs `CAP_NET_ADMIN` in the network namespace of the caller.
    pub fn tap(host: impl Display) -> Self {
        Self::new(format_args!("tap:{host}"))
    }

    /// A TUN: as a TAP, but with packets instead of frames.
    pub fn tun(host: impl Display) -> Self {
        Self::new(format_args!("tun:{host}"))
    }

    /// A NIC (or veth) of the host, taken over by AF_XDP.
    pub fn af_xdp(host: impl Display) -> Self {
        Self::new(format_args!("af_xdp:{host}"))
    }

    /// Shared memory with another program, which is met at a Unix socket.
    pub fn memif(socket: impl Display) -> Self {
        Self::new(format_args!("memif:{socket}"))
    }

    /// An end of a wire to another stack of this process ([`crate::mem::wire`]). It needs no rights.
    pub fn mem(end: End) -> Self {
        Self { wire: Some(end), ..Self::new("mem") }
    }

    /// Its name, by which routes, rules and counters call it; else it is that of the driver and a number.
    pub fn name(self, name: &str) -> Self {
        let name = quoted(name);
        self.key("name", &name)
    }

    /// One more address, with the length of its network: `192.0.2.1/24`.
    pub fn address(mut self, address: impl Display) -> Self {
        self.addresses.push(Value::String(address.to_string()));
        self
    }

    /// Bytes of the largest packet.
    pub fn mtu(self, bytes: u32) -> Self {
        self.key("mtu", &bytes.to_string())
    }

    /// Pairs of receive and transmit rings.
    pub fn rings(self, count: u32) -> Self {
        self.key("rings", &count.to_string())
    }

    /// It takes IPv6 addresses and routers from router advertisements.
    pub fn autoconf(self) -> Self {
        self.key("autoconf", "true")
    }

    fn key(mut self, key: &str, value: &str) -> Self {
        // To write to a string never fails.
        let _ = writeln!(self.keys, "{key} = {value}");
        self
    }
}

fn quoted(text: impl Display) -> String {
    Value::String(text.to_string()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ConfigError;
    #[cfg(all(feature = "admin", feature = "web"))]
    use crate::config::{Device, RouteTarget};

    #[cfg(all(feature = "admin", feature = "web"))]
    #[test]
    fn what_is_built_is_what_a_file_says() {
        let [end, _] = dev::mem::wire(1).unwrap();
        let lan =
            Interface::mem(end.clone()).name("lan").address("192.0.2.1/24").mtu(9000).rings(1).autoconf();
        let config = Stack::builder()
            .toml("polling = \"never\"")
            .threads(3)
            .forwarding()
            .buffers(8192)
            .interface(lan)
            .interface(Interface::tap("t0"))
            .route("default", "192.0.2.254")
            .firewall("add allow ip from any to any\nadd deny ip from any to any")
            .sysctl("net.inet.tcp.delacktime", 20)
            .serve("/srv/a \"folder\"", 8080)
            .admin("/tmp/socket")
            .config()
            .unwrap();
        assert_eq!((config.cpus, config.pinned, config.forwarding), (vec![0, 1, 2], false, true));
        assert_eq!((config.buffers, config.socket), (Some(8192), Some("/tmp/socket".into())));
        let Device::Mem { wire } = &config.interfaces[0].device else { panic!() };
        assert_eq!(config.wires.get(wire), Some(&end));
        assert_eq!((config.interfaces[0].mtu, config.interfaces[1].name.as_str()), (Some(9000), "tap0"));
        assert!(matches!(&config.routes[0].target, RouteTarget::Via(hops) if hops[0].interface == "lan"));
        assert_eq!(config.firewall.unwrap().commands.len(), 2);
        assert_eq!(config.sysctl.get("net.inet.tcp.delacktime"), Some(&20));
        assert_eq!(config.serves[0].folder, std::path::PathBuf::from("/srv/a \"folder\""));
    }

    #[test]
    fn a_mistake_is_shown_where_it_was_made_with_its_remedy() {
        let started = Stack::builder().interface(Interface::tap("t0").address("192.0.2.0/24")).start();
        let Err(StackError::Config(ConfigError::Wrong(problems))) = started else { panic!() };
        let text = problems.to_string();
        assert!(text.starts_with("stack:3:12: 192.0.2.0 is the network itself in a /24"), "{text}");
        assert!(text.contains("use an address inside the prefix, as in 192.0.2.1/24"), "{text}");
    }

    #[test]
    fn a_wire_that_nobody_has_given_is_missed_by_name() {
        let Err(why) = Stack::builder().threads(1).interface(Interface::new("mem:lan")).start() else {
            panic!()
        };
        assert!(matches!(why, StackError::Misfit(_)) && why.to_string().contains("mem:lan"), "{why}");
    }
}
