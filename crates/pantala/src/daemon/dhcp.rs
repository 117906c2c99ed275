//! DHCP on interfaces: the control thread answers what netisrs bring; servers here, clients in [`super::dhcp_clients`].

use core::net::{Ipv4Addr, SocketAddr};
use core::time::Duration;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use net::dhcp::{self, Arrived, Outgoing, SERVER};
use net::tables::IfIndex;
use tokio::sync::Notify;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::control::Control;
use super::{dhcp_clients, dhcp_relays, locked, log};
use crate::StackError;
use crate::api::{DhcpCounters, DhcpLease, DhcpServer, Error};
use crate::config::check::interfaces::dhcp::first_v4;
use crate::config::{self, Config, Interface};
use crate::dhcp::leases::{Lease, Leases};
use crate::dhcp::message::Message;
use crate::dhcp::server::{Act, Counts, Server};

/// Messages that wait for the control thread; further ones are dropped by the netisrs, and counted.
const QUEUE_MAX: usize = 256;
/// Time that a host has to answer a probe of its address.
const PROBE: Duration = Duration::from_millis(500);
/// The DHCP servers and clients of this stack.
pub(crate) struct Dhcp {
    servers: Vec<Running>,
    pub(super) clients: Vec<dhcp_clients::Running>,
    pub(super) relays: Vec<dhcp_relays::Running>,
    /// The routes of leases that are in force.
    pub(super) led: Vec<dhcp_clients::Led>,
    /// Messages for clients of ours, and for servers and relays: a flood of one kind takes no room from the other.
    senders: [Sender<Arrived>; 2],
    receivers: Option<[Receiver<Arrived>; 2]>,
    probes: Vec<Probe>,
    /// Interfaces that netisrs bring messages of, and whether they bring those for relays from all.
    heard: (Vec<IfIndex>, bool),
    /// Told when something is due at another time.
    pub(super) changed: Arc<Notify>,
}

/// The server of an interface.
struct Running {
    interface: String,
    index: IfIndex,
    path: PathBuf,
    probe: bool,
    server: Server,
    /// Whether its leases could not be written the last time.
    is_failing: bool,
}

/// An address that is probed.
struct Probe {
    until: Instant,
    index: IfIndex,
    addr: Ipv4Addr,
}

/// Leases that were opened for a new configuration, by the interface's name.
pub(super) type OpenLeases = Vec<(String, Leases)>;

impl Default for Dhcp {
    fn default() -> Self {
        let [(client, for_clients), (server, for_servers)] = [(); 2].map(|()| channel(QUEUE_MAX));
        let (servers, clients, relays) = (Vec::new(), Vec::new(), Vec::new());
        let (probes, heard) = (Vec::new(), (Vec::new(), false));
        Self {
            servers,
            clients,
            relays,
            led: Vec::new(),
            senders: [client, server],
            receivers: Some([for_clients, for_servers]),
            probes,
            heard,
            changed: Arc::default(),
        }
    }
}

impl Control {
    /// Sends messages of DHCP or DHCPv6. Without a buffer one is lost, as on a wire: clients repeat themselves.
    pub(super) fn send_dhcp(&self, messages: Vec<Outgoing>) {
        if messages.is_empty() {
            return;
        }
        let send = move |netisr: &mut net::netisr::Netisr| {
            messages.iter().for_each(|message| _ = dhcp::send(&mut netisr.cpu, message));
        };
        if let Err(why) = self.cpus.call(0, send) {
            log::error(&why.error);
        }
    }

    /// Opens the leases of servers that are new in a configuration.
    pub(super) fn open_leases(&self, new: &Config) -> Result<OpenLeases, StackError> {
        let mut opened = Vec::new();
        for interface in &new.interfaces {
            let Some(server) = &interface.dhcp_server else { continue };
            let path = server.path(&interface.name);
            if self.dhcp.servers.iter().any(|own| own.interface == interface.name && own.path == path) {
                continue;
            }
            let leases = Leases::open(&path).map_err(|why| {
                let name = &interface.name;
                let text = format!(
                    "interface {name}: cannot keep leases in {}: {why}; its folder must be there and writable for pantala's user",
                    path.display()
                );
                StackError::Misfit(text)
            })?;
            opened.push((interface.name.clone(), leases));
        }
        Ok(opened)
    }

    /// Begins, changes and ends servers as the configuration in force has them.
    pub(super) fn settle_dhcp(&mut self, mut opened: OpenLeases) {
        let mut before = core::mem::take(&mut self.dhcp.servers);
        for own in &self.attached {
            let Interface { name, addresses, dhcp_server, .. } = &own.config;
            let (Some(config), Some(addr)) = (dhcp_server, first_v4(addresses.iter())) else { continue };
            let (path, settings) = (config.path(name), config.settings(addr, &self.provided(config)));
            let kept = before.iter().position(|server| server.interface == *name && server.path == path);
            let server = match kept.map(|at| before.swap_remove(at).server) {
                Some(server) => server.with(settings),
                None => {
                    let Some(at) = opened.iter().position(|(interface, _)| interface == name) else {
                        continue;
                    };
                    let (_, leases) = opened.swap_remove(at);
                    log::info(&format!("interface {name}: DHCP server, {} leases known", leases.all().len()));
                    Server::new(settings, leases)
                }
            };
            let (interface, index, probe) = (name.clone(), own.index, config.probe);
            self.dhcp.servers.push(Running { interface, index, path, probe, server, is_failing: false });
        }
        let is_there = |index| self.dhcp.servers.iter().any(|server| server.index == index);
        self.dhcp.probes.retain(|probe| is_there(probe.index));
        self.settle_dhcp_relays();
        self.settle_dhcp_clients();
        self.settle_dhcp6();
        if let Err(why) = self.listen_to_dhcp() {
            log::error(&why.error);
        }
    }

    /// The name servers of the provider whose a server passes on: those of a lease, or of a PPPoE session.
    fn provided(&self, server: &config::DhcpServer) -> Vec<Ipv4Addr> {
        let Some(from) = server.dns_from.as_deref() else { return Vec::new() };
        let leased = self.leased_name_servers(from);
        if leased.is_empty() { self.pppoe.name_servers(from) } else { leased }
    }

    /// Has servers tell the name servers that their providers have now.
    pub(super) fn tell_name_servers(&mut self) {
        let mut servers = core::mem::take(&mut self.dhcp.servers);
        for own in &mut servers {
            let config = self.interface(&own.interface).map(|interface| &interface.config);
            let server = config.and_then(|config| Some((config.dhcp_server.as_ref()?, &config.addresses)));
            let Some((server, addresses)) = server.filter(|(server, _)| server.dns_from.is_some()) else {
                continue;
            };
            if let Some(addr) = first_v4(addresses.iter()) {
                own.server.set(server.settings(addr, &self.provided(server)));
            }
        }
        self.dhcp.servers = servers;
    }

    /// Has netisrs bring the messages of interfaces with servers.
    fn listen_to_dhcp(&mut self) -> Result<(), Error> {
        let servers = self.dhcp.servers.iter().map(|server| server.index);
        let clients = self.dhcp.clients.iter().map(|own| own.index);
        let clients = clients.chain(self.dhcp.relays.iter().map(|own| own.index));
        let mut indices: Vec<IfIndex> = servers.chain(clients).chain(self.dhcp6.interfaces()).collect();
        indices.sort_unstable();
        indices.dedup();
        let has_relays = !self.dhcp.relays.is_empty() || !self.dhcp6.relays.is_empty();
        if self.dhcp.heard == (indices.clone(), has_relays) {
            return Ok(());
        }
        self.dhcp.heard = (indices.clone(), has_relays);
        let senders = self.dhcp.senders.clone();
        self.cpus.call_all(move |netisr| {
            let [clients, servers] = senders.clone();
            let sink: dhcp::Sink = Box::new(move |arrived| {
                let is_for_client = matches!(arrived.to.port(), dhcp::CLIENT | wire::dhcp6::CLIENT);
                let sender = if is_for_client { &clients } else { &servers };
                sender.try_send(arrived).is_ok()
            });
            let is_wanted = !indices.is_empty();
            netisr.cpu.dhcp = is_wanted.then(|| Box::new(dhcp::Dhcp::new(indices.clone(), has_relays, sink)));
        })?;
        Ok(())
    }

    fn dhcp_arrived(&mut self, arrived: &Arrived) {
        match arrived.to.port() {
            SERVER => {}
            wire::dhcp6::CLIENT => return self.dhcp6_client_arrived(arrived),
            wire::dhcp6::SERVER => return self.dhcp6_server_arrived(arrived),
            _ => return self.dhcp_client_arrived(arrived),
        }
        if self.relayed(arrived) {
            return;
        }
        let Some(at) = self.dhcp.servers.iter().position(|server| server.index == arrived.ifindex) else {
            return;
        };
        let Running { server, .. } = &mut self.dhcp.servers[at];
        let Ok((message, kind)) = Message::parse(&arrived.message) else {
            server.counts.received += 1;
            server.counts.malformed += 1;
            return;
        };
        // What a relay sends is for the server of its link.
        let by_relay = self.dhcp.servers.iter().position(|own| own.server.serves(message.giaddr));
        let at = if message.giaddr.is_unspecified() { at } else { by_relay.unwrap_or(at) };
        let Running { server, interface, is_failing, .. } = &mut self.dhcp.servers[at];
        if !server.serves(message.giaddr) {
            server.counts.received += 1;
            server.counts.ignored += 1;
            return;
        }
        match server.handle(&message, kind, now()) {
            Ok(act) => {
                *is_failing = false;
                self.perform(at, act, arrived.ifindex);
            }
            Err(why) => {
                if !core::mem::replace(is_failing, true) {
                    log::error(&format!(
                        "interface {interface}: leases cannot be written, and none is given: {why}"
                    ));
                }
            }
        }
    }

    /// Does what the server number `at` wants; answers leave by the interface by which the question came.
    fn perform(&mut self, at: usize, mut act: Option<Act>, ifindex: IfIndex) {
        while let Some(Running { server, probe, index, .. }) = self.dhcp.servers.get_mut(at) {
            match act.take() {
                None => return,
                Some(Act::Probe(addr)) if *probe => {
                    let index = *index;
                    self.begin_probe(index, addr);
                }
                Some(Act::Probe(addr)) => act = server.probed(addr, false, now()),
                Some(Act::Send { to, mac, message }) => {
                    let from = SocketAddr::new(server.settings.own.addr().into(), SERVER);
                    let (to, message) = (to.into(), message.to_bytes());
                    let outgoing = Outgoing { ifindex, from, to, mac, message };
                    self.send_dhcp(vec![outgoing]);
                }
            }
        }
    }

    /// Asks for the link address of `addr`: what answers uses it.
    fn begin_probe(&mut self, index: IfIndex, addr: Ipv4Addr) {
        self.forget_neighbour(index, addr.into());
        self.seek_neighbour(index, addr.into());
        self.dhcp.probes.push(Probe { until: Instant::now() + PROBE, index, addr });
        self.dhcp.changed.notify_one();
    }

    /// Ends probes whose time is over.
    fn end_probes(&mut self) {
        let now_at = Instant::now();
        let due: Vec<Probe> = self.dhcp.probes.extract_if(.., |probe| probe.until <= now_at).collect();
        for Probe { index, addr, .. } in due {
            let is_used = self.knows_neighbour(index, addr.into());
            let Some(at) = self.dhcp.servers.iter().position(|server| server.index == index) else {
                continue;
            };
            let act = self.dhcp.servers[at].server.probed(addr, is_used, now());
            self.perform(at, act, index);
        }
    }

    fn run_dhcp(&mut self) {
        self.end_probes();
        self.run_dhcp_clients();
        self.run_dhcp6_clients();
        self.run_dhcp6_servers();
    }

    fn next_of_dhcp(&self) -> Option<Instant> {
        let clients = self.next_of_dhcp_clients().into_iter().chain(self.next_of_dhcp6());
        let clients = clients.chain(self.next_of_dhcp6_servers());
        let clients = clients.map(|left| Instant::now() + left);
        self.dhcp.probes.iter().map(|probe| probe.until).chain(clients).min()
    }

    /// The servers, as the admin API shows them.
    pub(super) fn list_dhcp(&self) -> Vec<DhcpServer> {
        let now = now();
        self.dhcp.servers.iter().map(|running| shown(running, now)).collect()
    }
}

/// Answers messages, for ever.
pub(crate) async fn serve(control: &Arc<Mutex<Control>>) {
    let (receivers, changed) = {
        let mut control = locked(control);
        (control.dhcp.receivers.take(), Arc::clone(&control.dhcp.changed))
    };
    let Some([mut clients, mut servers]) = receivers else { return core::future::pending().await };
    loop {
        let until = locked(control).next_of_dhcp();
        let probed = async {
            match until {
                Some(until) => tokio::time::sleep_until(until.into()).await,
                None => core::future::pending().await,
            }
        };
        tokio::select! {
            Some(arrived) = clients.recv() => locked(control).dhcp_arrived(&arrived),
            Some(arrived) = servers.recv() => locked(control).dhcp_arrived(&arrived),
            () = changed.notified() => {}
            () = probed => locked(control).run_dhcp(),
        }
    }
}

/// Seconds since 1970: leases outlive the process.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn shown(running: &Running, now: u64) -> DhcpServer {
    let Running { interface, server, .. } = running;
    let Counts {
        received,
        malformed,
        offers,
        acks,
        naks,
        ignored,
        exhausted,
        conflicts,
        probes_full,
        not_written,
    } = server.counts;
    let (offered, in_conflict) = server.kept(now);
    let lease = |(addr, lease): (&Ipv4Addr, &Lease)| DhcpLease {
        address: *addr,
        mac: crate::Mac(lease.mac),
        client: lease.client.iter().map(|byte| format!("{byte:02x}")).collect(),
        name: Some(lease.name.clone()).filter(|name| !name.is_empty()),
        expires_s: lease.expires.saturating_sub(now),
    };
    DhcpServer {
        interface: interface.clone(),
        address: server.settings.own.addr(),
        pool: [*server.settings.pool.start(), *server.settings.pool.end()],
        leases: server.leases.all().iter().map(lease).collect(),
        offered: offered as u64,
        conflicts: in_conflict as u64,
        counters: DhcpCounters {
            received,
            malformed,
            offers,
            acks,
            naks,
            ignored,
            exhausted,
            conflicts,
            probes_full,
            not_written,
        },
    }
}
