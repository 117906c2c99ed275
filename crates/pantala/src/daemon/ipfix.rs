//! Export of flows: the control thread reads the firewall's states once a second, and tells a collector.
//!
//! Without `[ipfix]` it waits for a reload, and does nothing else.

use core::convert::Infallible;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::time::Duration;
use std::collections::HashMap;
use std::io;
use std::net::UdpSocket;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::sync::Notify;
use tokio::time::{MissedTickBehavior, interval};

use super::control::Control;
use super::{locked, log};
use crate::api::firewall::Filter as _;
use crate::api::{Error, IpfixStatus};
use crate::config::Ipfix;
use crate::ipfix::exporter::{Counts, Exporter, FLOWS_MAX, Key};
use crate::ipfix::message::PostNat;

const PERIOD: Duration = Duration::from_secs(1);
/// States that a netisr is asked for at once.
const ROWS: usize = 1000;

/// The exporter, as the control thread knows it.
#[derive(Default)]
pub(super) struct IpfixService {
    /// Told of another configuration.
    pub(super) changed: Arc<Notify>,
    counts: Counts,
}

impl Control {
    /// Returns the exporter's collector and counters, if there is one.
    pub(super) fn ipfix_status(&self) -> Option<IpfixStatus> {
        let Counts { flows, records, messages, lost, passed_over } = self.ipfix.counts;
        let collector = self.config.ipfix?.collector;
        Some(IpfixStatus { collector, flows, records, messages, lost, passed_over })
    }

    /// Flows behind NAT, by what they are before it.
    fn translations(&mut self) -> Result<HashMap<Key, PostNat>, Error> {
        let mut all = HashMap::new();
        let numbers: Vec<u16> = self.firewall.config.nat.keys().copied().collect();
        for number in numbers {
            let mut after = None;
            loop {
                let page = self.firewall_bindings(number, after.as_deref(), ROWS)?;
                for one in &page.bindings {
                    let IpAddr::V4(_) = one.inside else { continue };
                    let key = (one.proto, one.inside, one.inside_port, one.remote.into(), one.remote_port);
                    let nat = PostNat {
                        src: one.outside.octets(),
                        dst: one.remote.octets(),
                        src_port: one.outside_port,
                        dst_port: one.remote_port,
                    };
                    all.insert(key, nat);
                }
                after = page.next;
                if after.is_none() || all.len() >= FLOWS_MAX {
                    break;
                }
            }
        }
        Ok(all)
    }
}

/// An exporter and its socket.
struct Running {
    exporter: Exporter,
    socket: UdpSocket,
}

impl Running {
    fn open(settings: Ipfix) -> io::Result<Self> {
        let any: IpAddr = match settings.collector {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((any, 0))?;
        socket.set_nonblocking(true)?;
        Ok(Self { exporter: Exporter::new(settings), socket })
    }

    /// Looks at all states, page by page; others use the control thread between two pages.
    async fn look(&mut self, control: &Arc<Mutex<Control>>) -> Result<(), Error> {
        let translations = locked(control).translations()?;
        self.exporter.begin_round();
        let mut after = None;
        loop {
            let page = locked(control).firewall_states(after.as_deref(), ROWS, true)?;
            let now = now_ms();
            for state in &page.states {
                self.exporter.see(now, state, |key| translations.get(key).copied());
            }
            after = page.next;
            if after.is_none() {
                break;
            }
            tokio::task::yield_now().await;
        }
        self.exporter.end_round(now_ms());
        Ok(())
    }

    fn send(&mut self, control: &Arc<Mutex<Control>>) {
        let (socket, collector) = (&self.socket, self.exporter.settings().collector);
        self.exporter.send(now_ms(), |message| socket.send_to(message, collector).is_ok());
        locked(control).ipfix.counts = self.exporter.counts;
    }
}

/// Exports flows while the configuration says so.
pub(super) async fn serve(control: &Arc<Mutex<Control>>) -> Infallible {
    let changed = Arc::clone(&locked(control).ipfix.changed);
    let mut running: Option<Running> = None;
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let wanted = locked(control).config.ipfix;
        if running.as_ref().map(|running| *running.exporter.settings()) != wanted {
            if let Some(mut before) = running.take() {
                before.exporter.end_all();
                before.send(control);
            }
            running = wanted.and_then(open);
        }
        let Some(exports) = &mut running else {
            changed.notified().await;
            continue;
        };
        tokio::select! {
            () = changed.notified() => continue,
            _ = ticks.tick() => {}
        }
        if let Err(why) = exports.look(control).await {
            log::warning(&format!("IPFIX: states cannot be read: {}", why.error));
        }
        exports.send(control);
    }
}

fn open(settings: Ipfix) -> Option<Running> {
    log::info(&format!("flows are exported to {}", settings.collector));
    let opened = Running::open(settings);
    opened.inspect_err(|why| log::warning(&format!("IPFIX to {}: {why}", settings.collector))).ok()
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
