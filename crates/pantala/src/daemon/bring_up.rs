//! From a configuration to a running stack.

use std::sync::Arc;

use dev::af_xdp::SharedUmem;
use dev::netlink::{LinkMonitor, Rtnetlink};
use net::sysctl::Sysctls;
use pkt::Arena;
use pkt::PageKind;

use super::control::Control;
use super::cpus::Cpus;
use super::device::twin::{self, Instance};
use super::device::{self, Workshop};
use super::dhcp::Dhcp;
use super::dhcp6_clients::Dhcp6;
use super::ipfix::IpfixService;
use super::pppoe_clients::Pppoe;
use super::ra_updates::Learning;
use super::ring_placement::RingPlacement;
use super::route_sources::RouteSources;
use super::routing::Routing;
use super::running::{RunningConfig, Source};
use super::sflow::SflowService;
use super::stack::capture::Captures;
use super::stack::changes::Readers;
use super::twins::Twins;
use super::{cgroup, entropy, log, reload, stable_secret, system};
use crate::StackError;
use crate::config::{self, Config, Policy};
use crate::firewall::publish::FirewallControl;

/// Buffers of a CPU besides those of its rings: for what is made here, and for what waits for neighbours.
const BUFFERS_OF_CPU: usize = 4096;
/// Buffers for each ring: a full receive ring, and as many again on their way through the stack.
const BUFFERS_OF_RING: usize = 4096;
/// With fewer a ring cannot keep a CPU busy.
const BUFFERS_OF_RING_MIN: usize = 256;
/// Rings that may come later, with another configuration.
const SPARE_RINGS: usize = 1;

/// Starts everything that `config` asks for, which was read from this file. What was started is stopped again if
/// something is not to be had.
pub(crate) fn bring_up(source: Option<Source>, config: Config) -> Result<(Control, Learning), StackError> {
    let mut netlink = Rtnetlink::open()
        .map_err(|why| StackError::System { doing: "ask the kernel for its interfaces", why: why.into() })?;
    let memory = Memory::plan(&config, &mut netlink)?;
    cgroup::check((config.cpus.len() * memory.each * pkt::STRIDE) as u64, pkt::STRIDE as u64)?;
    let pools = Arena::carve(config.cpus.len(), memory.each, true).map_err(StackError::Memory)?;
    let arena = pools.first().map(|pool| Arc::clone(pool.arena()));
    let arena = arena.ok_or_else(|| system("make pools")(std::io::ErrorKind::InvalidInput.into()))?;
    log_memory(config.cpus.len(), memory.each, arena.pages());
    let (buffers, umem) = (arena.slots(), SharedUmem::new(arena));
    let cpus = Cpus::start(&config.cpus, config.pinned, pools, config.polling, config.seccomp)?;
    let count = u32::try_from(config.cpus.len()).unwrap_or(u32::MAX);
    let workshop = Workshop {
        netlink,
        buffers,
        umem,
        cpus: count,
        memory,
        busy_poll: config.polling.policy == Policy::Always,
        wires: config.wires.clone(),
        memif: None,
        users: device::SocketUsers::of(&config),
        patience: device::takeover::PATIENCE,
        offload: cpus.offload.clone(),
        instance: Instance::of(source.as_ref().map(|source| source.file.as_path())),
    };
    // Before devices are opened, so that none goes unseen.
    let monitor = LinkMonitor::open().map_err(|why| system("listen to changes of interfaces")(why.into()))?;
    let routing =
        Routing::new(config.fibs, config.add_addr_all_fibs).map_err(system("reserve memory for routes"))?;
    let key = entropy::key().map_err(system("draw a key"))?;
    let firewall = FirewallControl::new(config.cpus.len(), key).map_err(system("reserve memory"))?;
    let (file, text) = source.map(|source| (source.file, source.text)).unzip();
    let mut control = Control {
        running: RunningConfig::of(text.unwrap_or_default()),
        file,
        config: nothing_of(&config),
        cpus,
        workshop,
        monitor: Some(monitor),
        attached: Vec::new(),
        last_index: 0,
        routing,
        route_sources: RouteSources::default(),
        firewall,
        dhcp: Dhcp::default(),
        dhcp6: Dhcp6::default(),
        pppoe: Pppoe::default(),
        twins: Twins::default(),
        pings: Vec::new(),
        captures: Captures::default(),
        readers: Readers::default(),
        sites: Vec::new(),
        services: Vec::new(),
        programs: None,
        http: Arc::default(),
        ipfix: IpfixService::default(),
        sflow: SflowService::default(),
        sysctls: Sysctls::default(),
        secret: stable_secret::secret().map_err(system("draw a key"))?,
        waiting: Arc::default(),
        manager: Arc::default(),
        tables: Arc::default(),
    };
    let opened = open_all(&mut control, config);
    if opened.is_err()
        && let Err(also) = control.shut_down()
    {
        log::warning(&format!("not everything was put back: {also}"));
    }
    opened.map(|learning| (control, learning))
}

fn log_memory(cpus: usize, each: usize, pages: PageKind) {
    let pages = if pages == PageKind::Huge { "huge pages" } else { "ordinary pages" };
    let cpus = crate::plural::counted(cpus as u64, "CPU");
    log::info(&format!("{cpus} with {each} packet buffers each, in {pages}"));
}

/// Returns the configuration before the start: the start is a reload, and as little as by any other may pass meanwhile.
fn nothing_of(config: &Config) -> Config {
    Config {
        forwarding: false,
        flow_cache: 0,
        interfaces: Vec::new(),
        routes: Vec::new(),
        route_sources: config::RouteSources::default(),
        serves: Vec::new(),
        services: Vec::new(),
        http: None,
        ipfix: None,
        sflow: None,
        firewall: None,
        sysctl: config::Sysctls::new(),
        ..config.clone()
    }
}

fn open_all(control: &mut Control, config: Config) -> Result<Learning, StackError> {
    let learning = control.listen_to_routers().map_err(|why| StackError::Netisr(why.error))?;
    control.go_over(config, reload::Scope::All).map_err(|failure| failure.why)?;
    twin::remove_orphans(&mut control.workshop, &control.attached);
    Ok(learning)
}

/// The numbers of packet buffers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Memory {
    /// In the pool of each CPU.
    each: usize,
    /// Out at each ring, at the most.
    pub(super) allowance: usize,
}

impl Memory {
    fn plan(config: &Config, netlink: &mut Rtnetlink) -> Result<Self, StackError> {
        let cpus = u32::try_from(config.cpus.len()).unwrap_or(u32::MAX);
        let mut of_cpu = vec![0; config.cpus.len()];
        for (unit, interface) in (0..).zip(&config.interfaces) {
            let rings = device::rings(interface, cpus, netlink, &config.wires)?;
            for cpu in RingPlacement::of(&device::ring_map(cpus, unit, rings), rings as usize).iter() {
                of_cpu[cpu.index()] += 1;
            }
        }
        Self::for_rings(of_cpu.into_iter().max().unwrap_or(0), config)
    }

    /// For rings that a stack does not share.
    #[cfg(feature = "cli")]
    pub(super) const fn of_rings(allowance: usize) -> Self {
        Self { each: allowance, allowance }
    }

    /// Whether something is left for the stack when a CPU has so many rings.
    pub(super) fn is_enough_for(self, rings: usize) -> bool {
        let left = self.each.saturating_sub(rings * self.allowance);
        left >= BUFFERS_OF_CPU.min(self.each / 4)
    }

    fn for_rings(rings: usize, config: &Config) -> Result<Self, StackError> {
        let Some(buffers) = config.buffers else {
            let each = BUFFERS_OF_CPU + BUFFERS_OF_RING * (rings + SPARE_RINGS);
            return Ok(Self { each, allowance: BUFFERS_OF_RING });
        };
        let each = buffers as usize / config.cpus.len().max(1);
        let allowance = (each / 2 / rings.max(1)).min(BUFFERS_OF_RING);
        if rings > 0 && allowance < BUFFERS_OF_RING_MIN {
            let least = BUFFERS_OF_RING_MIN * 2 * rings * config.cpus.len();
            return Err(StackError::Misfit(format!(
                "buffers = {buffers} is too few for {rings} rings on a CPU; use {least} or more, or leave it out"
            )));
        }
        Ok(Self { each, allowance })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Machine;

    fn config(text: &str) -> Config {
        let text = format!("{text}\n[[interface]]\ndevice = \"tap:pt-x\"\n");
        Config::parse("t", &text, &Machine { cpus: vec![0, 1] }).unwrap()
    }

    #[test]
    fn a_ring_never_gets_so_much_that_nothing_is_left_for_the_stack() {
        for rings in 1..20 {
            let memory = Memory::for_rings(rings, &config("")).unwrap();
            assert!(memory.allowance * rings + BUFFERS_OF_CPU <= memory.each);
            assert!(memory.is_enough_for(rings + 1) && !memory.is_enough_for(rings + 2));
            let memory = Memory::for_rings(rings, &config("buffers = 65536")).unwrap();
            assert!(memory.allowance * rings <= memory.each / 2 && memory.each == 32768);
            assert!(memory.is_enough_for(rings) && !memory.is_enough_for(2 * rings + 8));
        }
    }

    #[test]
    fn too_few_buffers_are_refused_with_how_many_would_do() {
        let Err(StackError::Misfit(text)) = Memory::for_rings(4, &config("buffers = 2048")) else { panic!() };
        assert!(text.contains("use 4096 or more"), "{text}");
        assert!(Memory::for_rings(4, &config("buffers = 4096")).is_ok());
    }
}
