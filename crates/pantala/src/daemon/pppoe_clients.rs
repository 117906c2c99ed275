//! PPPoE clients of interfaces: netisrs bring what is no packet of a session, and carry packets while one is open.
//!
//! The addresses of a session, its largest packet and its default route are in force as long as it lasts.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::time::Duration;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use net::pppoe::{self, Arrived, Outgoing};
use net::tables::IfIndex;
use tokio::sync::Notify;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use wire::ether::EtherType;
use wire::ppp::protocol;
use wire::pppoe::View;

use super::control::Control;
use super::reload::Scope;
use super::tables::{self, Attached};
use super::{entropy, locked, log};
use crate::Mac;
use crate::api::{Error, PppoeInfo, RouteEdit, RouteMetrics, RouteRequest};
use crate::config::{Device, Interface, Leased, Ppp, PppSession};
use crate::dhcp::client::LeasedRoute;
use crate::pppoe::client::{Act, Client, Link, Phase, Settings};
use crate::pppoe::discovery::{self, Wanted};
use crate::pppoe::ipv6cp::link_local;
use crate::pppoe::lcp;

/// Frames that wait for the control thread; further ones are dropped by the netisrs, and counted.
const QUEUE_MAX: usize = 256;
/// Visits to all CPUs after which a frame that one has sent is in a ring, also in one of another CPU: with the first it has come
/// there, with the second that CPU's turn is over.
const VISITS: usize = 2;
/// Milliseconds between two answers to frames of sessions that nothing is known of.
const STRAY_PAUSE: u64 = 1_000;

/// The PPPoE clients of this stack.
pub(crate) struct Pppoe {
    clients: Vec<Running>,
    sender: Sender<Arrived>,
    receiver: Option<Receiver<Arrived>>,
    /// Interfaces that netisrs bring frames of.
    heard: Vec<IfIndex>,
    /// The interface of the IPv6 default route that is in force.
    led6: Option<String>,
    /// When a frame of an unknown session was answered last.
    stray: u64,
    /// Told when something is due at another time.
    pub(super) changed: Arc<Notify>,
}

/// The client of an interface.
struct Running {
    interface: String,
    /// The interface below.
    below: IfIndex,
    client: Client,
    /// The link that is in force.
    in_use: Option<Link>,
    /// Acts for the time when the configuration is in force.
    pending: Vec<Act>,
    /// The last failure in the log.
    said: Option<String>,
}

impl Default for Pppoe {
    fn default() -> Self {
        let (sender, receiver) = channel(QUEUE_MAX);
        let (clients, heard, changed) = (Vec::new(), Vec::new(), Arc::default());
        Self { clients, sender, receiver: Some(receiver), heard, led6: None, stray: 0, changed }
    }
}

impl Pppoe {
    fn link(&self, interface: &str) -> Option<&Link> {
        self.clients.iter().find(|own| own.interface == interface)?.in_use.as_ref()
    }

    fn find(&mut self, interface: &str) -> Option<&mut Running> {
        self.clients.iter_mut().find(|own| own.interface == interface)
    }

    /// The session of an interface that carries packets, and its addresses.
    pub(super) fn leased(&self, interface: &Interface) -> (Option<PppSession>, Vec<Leased>) {
        let link = interface.ppp.as_ref().and_then(|_| self.link(&interface.name));
        let Some(link) = link else { return (None, Vec::new()) };
        let session = PppSession {
            id: link.session,
            remote: link.remote,
            mtu: link.mtu,
            identifier: link.v6.as_ref().map(|v6| v6.id),
            peer: link.v4.as_ref().and_then(|v4| v4.peer),
        };
        let v4 = link.v4.as_ref().map(|v4| IpNet::V4(Ipv4Net::new_assert(v4.addr, 32)));
        let v6 = link.v6.as_ref().map(|v6| IpNet::V6(Ipv6Net::new_assert(link_local(v6.id), 64)));
        let leased = v4.into_iter().chain(v6).map(|net| Leased { net, until: None });
        (Some(session), leased.collect())
    }

    /// The name servers that the provider of an interface has told of.
    pub(super) fn name_servers(&self, interface: &str) -> Vec<Ipv4Addr> {
        let v4 = self.link(interface).and_then(|link| link.v4.as_ref());
        v4.map(|v4| v4.dns.clone()).unwrap_or_default()
    }

    /// Routes that follow from the sessions in force, by interface: to the other end, and the default route.
    pub(super) fn routes(&self, attached: &[Attached]) -> Vec<(String, Vec<LeasedRoute>)> {
        let of = |own: &Running| {
            let v4 = own.in_use.as_ref()?.v4.as_ref()?;
            let ppp = ppp_of(attached, &own.interface)?;
            let peer = v4.peer.filter(|peer| *peer != v4.addr).map(|peer| Ipv4Net::new_assert(peer, 32));
            let default = ppp.default_route.then(|| Ipv4Net::new_assert(Ipv4Addr::UNSPECIFIED, 0));
            Some((own.interface.clone(), peer.into_iter().chain(default).map(|net| (net, None)).collect()))
        };
        self.clients.iter().filter_map(of).collect()
    }
}

fn ppp_of<'a>(attached: &'a [Attached], interface: &str) -> Option<&'a Ppp> {
    attached.iter().find(|own| own.config.name == interface)?.config.ppp.as_ref()
}

impl Control {
    /// Begins and ends clients as the configuration in force has them. What they want done is done later, because another
    /// configuration is just being put in force.
    pub(super) fn settle_pppoe(&mut self) {
        let mut before = core::mem::take(&mut self.pppoe.clients);
        for own in &self.attached {
            let Some((below, settings)) = settings(own, &self.attached) else { continue };
            let name = &own.config.name;
            if let Some(at) = before.iter().position(|client| client.interface == *name) {
                let mut kept = before.swap_remove(at);
                if kept.client.settings != settings || kept.below != below {
                    let acts = kept.client.stop(now());
                    self.send_pppoe(kept.below, &acts);
                    kept.pending.extend(acts.into_iter().filter(|act| !matches!(act, Act::Send { .. })));
                    (kept.below, kept.client.settings) = (below, settings);
                }
                self.pppoe.clients.push(kept);
                continue;
            }
            let seed = entropy::key().map_or(1, |key| u64::try_from(key & u128::from(u64::MAX)).unwrap_or(1));
            let client = Client::new(settings, seed);
            log::info(&format!("interface {name}: PPPoE client"));
            let (interface, pending) = (name.clone(), Vec::new());
            self.pppoe.clients.push(Running { interface, below, client, in_use: None, pending, said: None });
        }
        for mut gone in before {
            let acts = gone.client.stop(now());
            self.send_pppoe(gone.below, &acts);
        }
        if let Err(why) = self.listen_to_pppoe() {
            log::error(&why.error);
        }
        self.lead_v6();
        self.pppoe.changed.notify_one();
    }

    /// Has netisrs bring frames of interfaces below sessions.
    fn listen_to_pppoe(&mut self) -> Result<(), Error> {
        let mut indices: Vec<IfIndex> = self.pppoe.clients.iter().map(|own| own.below).collect();
        indices.sort_unstable();
        indices.dedup();
        if self.pppoe.heard == indices {
            return Ok(());
        }
        self.pppoe.heard.clone_from(&indices);
        let sender = self.pppoe.sender.clone();
        self.cpus.call_all(move |netisr| {
            let sender = sender.clone();
            let sink: pppoe::Sink = Box::new(move |arrived| sender.try_send(arrived).is_ok());
            let is_wanted = !indices.is_empty();
            netisr.cpu.pppoe = is_wanted.then(|| Box::new(pppoe::Control::new(indices.clone(), sink)));
        })?;
        Ok(())
    }

    fn pppoe_arrived(&mut self, arrived: &Arrived) {
        let Arrived { ifindex, from, ethertype, message } = arrived;
        let over = self.pppoe.clients.iter().filter(|own| own.below == *ifindex);
        let names: Vec<String> = over.map(|own| own.interface.clone()).collect();
        for name in names {
            let Some(own) = self.pppoe.find(&name) else { continue };
            let (is_taken, acts) = own.client.arrived(*from, *ethertype, message, now());
            self.perform_for_pppoe(&name, acts);
            if is_taken {
                self.pppoe.changed.notify_one();
                return;
            }
        }
        self.answer_stray(arrived);
    }

    /// Ends a session that we know nothing of, as after a crash, so that the access concentrator forgets it.
    fn answer_stray(&mut self, arrived: &Arrived) {
        let Ok(view) = View::parse(&arrived.message) else { return };
        let is_lcp = view.payload.first_chunk() == Some(&protocol::LCP.to_be_bytes());
        let is_ours = self.pppoe.clients.iter().any(|own| {
            own.client.remote() == Some(arrived.from)
                && own.client.session().is_some_and(|(id, ..)| id == view.session)
        });
        if arrived.ethertype != EtherType::PPPOE_SESSION || !is_lcp || is_ours || view.session == 0 {
            return;
        }
        if now().saturating_sub(self.pppoe.stray) < STRAY_PAUSE {
            return;
        }
        self.pppoe.stray = now();
        let message = discovery::padt(view.session);
        let (ifindex, ethertype) = (arrived.ifindex, EtherType::PPPOE_DISCOVERY);
        self.send_frames(vec![Outgoing { ifindex, to: arrived.from, ethertype, message }]);
    }

    /// Tells clients whether the interface below is up, and does what is due.
    fn run_pppoe(&mut self) {
        let names: Vec<String> = self.pppoe.clients.iter().map(|own| own.interface.clone()).collect();
        for name in names {
            let Some(own) = self.pppoe.find(&name) else { continue };
            let acts = core::mem::take(&mut own.pending);
            self.perform_for_pppoe(&name, acts);
            let is_up = self.interface(&name).is_some_and(|own| self.is_carried(own));
            let Some(own) = self.pppoe.find(&name) else { continue };
            let mut acts = own.client.carrier(is_up, now());
            acts.extend(own.client.due(now()));
            self.perform_for_pppoe(&name, acts);
        }
    }

    /// Whether a PPPoE interface is up, and the one below.
    fn is_carried(&self, own: &Attached) -> bool {
        let has_carrier = |below: &Attached| {
            tables::device_below(below, &self.attached).unwrap_or(below).has_carrier && below.has_carrier
        };
        own.up
            && own
                .below(&self.attached)
                .is_some_and(|below| tables::is_usable(below, &self.attached) && has_carrier(below))
    }

    fn next_of_pppoe(&self) -> Option<Duration> {
        let times = self.pppoe.clients.iter().map(|own| own.client.next());
        let next = times.min().filter(|at| *at < u64::MAX);
        next.map(|at| Duration::from_millis(at.saturating_sub(now())))
    }

    fn perform_for_pppoe(&mut self, name: &str, acts: Vec<Act>) {
        let Some(below) = self.pppoe.find(name).map(|own| own.below) else { return };
        self.send_pppoe(below, &acts);
        for act in acts {
            match act {
                Act::Send { .. } => {}
                Act::Use => self.use_session(name),
                Act::Failed(why) => {
                    let Some(own) = self.pppoe.find(name) else { return };
                    if own.said.as_ref() != Some(&why) {
                        log::warning(&format!("interface {name}: PPPoE: {why}"));
                        own.said = Some(why);
                    }
                }
            }
        }
    }

    /// Sends the frames among acts. Without a buffer one is lost, as on a wire: it is sent again.
    fn send_pppoe(&self, ifindex: IfIndex, acts: &[Act]) {
        let frames = acts.iter().filter_map(|act| match act {
            Act::Send { to, ethertype, message } => {
                Some(Outgoing { ifindex, to: *to, ethertype: *ethertype, message: message.clone() })
            }
            Act::Use | Act::Failed(_) => None,
        });
        self.send_frames(frames.collect());
    }

    fn send_frames(&self, frames: Vec<Outgoing>) {
        if frames.is_empty() {
            return;
        }
        let send = move |netisr: &mut net::netisr::Netisr| {
            frames.iter().for_each(|frame| _ = pppoe::send(&mut netisr.cpu, frame));
        };
        if let Err(why) = self.cpus.call(0, send) {
            log::error(&why.error);
        }
    }

    /// Puts the link that a client has now in force.
    fn use_session(&mut self, name: &str) {
        let Some(own) = self.pppoe.find(name) else { return };
        let link = own.client.link();
        let before = core::mem::replace(&mut own.in_use, link.clone());
        if before == link {
            return;
        }
        match &link {
            Some(link) => {
                own.said = None;
                log::info(&format!("interface {name}: {}", told(link, own.client.session())));
            }
            None => log::info(&format!("interface {name}: the PPPoE session has ended")),
        }
        // Routes go before the addresses that they are by, and come behind them.
        if link.is_none() {
            self.lead();
            self.lead_v6();
        }
        if let Err(failure) = self.go_over(self.config.clone(), Scope::Interfaces) {
            log::error(&format!("interface {name}: {}", failure.told().error));
        }
        self.lead();
        self.lead_v6();
        self.tell_name_servers();
        let has_v6 = |link: &Option<Link>| link.as_ref().is_some_and(|link| link.v6.is_some());
        if has_v6(&link) && !has_v6(&before) {
            self.dhcp6_is_reattached(name);
        }
    }

    /// Brings the IPv6 default route of sessions in force: that of the interface with the least metric.
    fn lead_v6(&mut self) {
        let leads = |own: &&Running| {
            let carries = own.in_use.as_ref().is_some_and(|link| link.v6.is_some());
            carries && ppp_of(&self.attached, &own.interface).is_some_and(|ppp| ppp.default_route)
        };
        let metric =
            |own: &&Running| self.interface(&own.interface).map_or(u32::MAX, |own| own.config.metric);
        let next =
            self.pppoe.clients.iter().filter(leads).min_by_key(metric).map(|own| own.interface.clone());
        if next == self.pppoe.led6 {
            return;
        }
        let to = IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::UNSPECIFIED, 0));
        let fib_of = |name: &String| self.interface(name).map_or(0, |interface| interface.config.fib);
        let (led, fib) = (self.pppoe.led6.as_ref(), next.as_ref().map_or(0, fib_of));
        let gone = led.map(|name| RouteEdit::Delete { fib: fib_of(name), to, via: None });
        let made = next.clone().map(|name| {
            let (dev, metrics) = (Some(name), RouteMetrics::default());
            RouteEdit::Add(RouteRequest {
                fib,
                to,
                via: Vec::new(),
                dev,
                reject: false,
                blackhole: false,
                metrics,
            })
        });
        self.pppoe.led6 = next;
        match self.change_routes(&gone.into_iter().chain(made).collect::<Vec<_>>()) {
            Err(why) => log::error(&why.error),
            Ok(answers) => answers.iter().filter_map(|answer| answer.as_ref().err()).for_each(|why| {
                log::info(&format!("IPv6 default route of PPPoE: {}", why.error));
            }),
        }
    }

    /// Ends all sessions at the end of the stack, so that access concentrators need not find out.
    pub(super) fn release_pppoe(&mut self) {
        let clients = core::mem::take(&mut self.pppoe.clients);
        if clients.is_empty() {
            return;
        }
        for mut own in clients {
            self.send_pppoe(own.below, &own.client.stop(now()));
        }
        // A ring that closes in the turn that has sent a frame loses it.
        for _ in 0..VISITS {
            // CPUs that do not answer send nothing either.
            let _ = self.cpus.visit_all();
        }
    }

    /// The client of an interface, as the admin API shows it.
    pub(super) fn pppoe_info(&self, interface: &str) -> Option<PppoeInfo> {
        let own = self.pppoe.clients.iter().find(|own| own.interface == interface)?;
        let (client, link) = (&own.client, own.in_use.as_ref());
        let session = client.session();
        let v4 = link.and_then(|link| link.v4.as_ref());
        let v6 = link.and_then(|link| link.v6.as_ref());
        let peers = v4.and_then(|v4| v4.peer).map(IpAddr::V4);
        let peers = peers.into_iter().chain(v6.and_then(|v6| v6.peer).map(IpAddr::V6));
        let (phase, counts) = (client.phase(), client.counts);
        Some(PppoeInfo {
            phase: phase.word().to_owned(),
            session: session.map(|(id, ..)| id),
            ac: session.map(|(_, name, _)| name.to_owned()),
            ac_mac: client.remote().map(Mac),
            peers: peers.collect(),
            dns: v4.map(|v4| v4.dns.iter().copied().map(IpAddr::V4).collect()).unwrap_or_default(),
            connected_s: session
                .and_then(|(.., since)| since)
                .map(|since| now().saturating_sub(since) / 1000),
            retry_s: (phase == Phase::Waiting).then(|| client.next().saturating_sub(now()) / 1000),
            last_error: client.last_error.clone(),
            sent: counts.sent,
            received: counts.received,
            malformed: counts.malformed,
            ignored: counts.ignored,
            sessions: counts.sessions,
            echo_lost: counts.echo_lost,
        })
    }
}

/// The interface below, and the settings of the client of an interface; `None` if it has none.
fn settings(own: &Attached, attached: &[Attached]) -> Option<(IfIndex, Settings)> {
    let (Device::Pppoe(device), Some(ppp)) = (&own.config.device, &own.config.ppp) else { return None };
    let below = own.below(attached)?;
    let room = below.mtu().saturating_sub(pppoe::OVERHEAD);
    let most = u16::try_from(own.config.mtu.unwrap_or_else(|| lcp::MRU.into()).min(room)).unwrap_or(u16::MAX);
    let settings = Settings {
        wanted: Wanted {
            service: device.service.clone(),
            ac: device.ac.clone(),
            max_payload: (most > lcp::MRU).then_some(most),
        },
        user: ppp.user.clone(),
        auth: ppp.auth,
        dns: ppp.dns,
        mru: most,
        echo_interval: u64::from(ppp.echo_interval) * 1000,
        echo_failures: ppp.echo_failures,
        mac: below.facts.mac.octets(),
    };
    Some((below.index, settings))
}

fn told(link: &Link, session: Option<(u16, &str, Option<u64>)>) -> String {
    let ac = session.map_or("", |(_, ac, _)| ac);
    let v4 = link.v4.as_ref().map(|v4| v4.addr.to_string());
    let v6 = link.v6.as_ref().map(|v6| link_local(v6.id).to_string());
    let addrs: Vec<String> = v4.into_iter().chain(v6).collect();
    format!("PPPoE session {} with {ac}: {}, mtu {}", link.session, addrs.join(", "), link.mtu)
}

/// Milliseconds since some time: steps of the clock mean nothing to a session.
fn now() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let since = START.get_or_init(Instant::now).elapsed();
    // 0 is before all that has been.
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX).saturating_add(STRAY_PAUSE)
}

/// Runs clients, for ever.
pub(crate) async fn serve(control: &Arc<Mutex<Control>>) {
    let (receiver, changed) = {
        let mut control = locked(control);
        (control.pppoe.receiver.take(), Arc::clone(&control.pppoe.changed))
    };
    let Some(mut receiver) = receiver else { return core::future::pending().await };
    loop {
        let left = locked(control).next_of_pppoe();
        let due = async {
            match left {
                Some(left) => tokio::time::sleep(left).await,
                None => core::future::pending().await,
            }
        };
        tokio::select! {
            arrived = receiver.recv() => {
                if let Some(arrived) = arrived {
                    locked(control).pppoe_arrived(&arrived);
                }
            }
            () = changed.notified() => locked(control).run_pppoe(),
            () = due => locked(control).run_pppoe(),
        }
    }
}
