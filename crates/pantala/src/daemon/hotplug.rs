//! Devices that go and come back: a veth that is deleted and made again, a NIC that is unplugged, a TAP that went with
//! its container.
//!
//! The kernel says when interfaces of the namespace change, and a netisr says when a device that it waits on is gone. An
//! interface without its device keeps its configuration and its place; nothing is sent by it, and routes do not lead to it.
//! When an interface of the same name is there again, it is opened as at the start.

use core::time::Duration;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use dev::netlink::{LinkChanges, LinkFlags, LinkMonitor, NetlinkError};
use dev::sys::poll::{PollFd, PollFlags, wait};
use net::tables::IfIndex;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::control::Control;
use super::device::{self, Facts};
use super::ring_placement::RingPlacement;
use super::tables::{self, Attached};
use super::{locked, log};
use crate::StackError;
use crate::api::{DeviceMode, Error};

/// Interval of the first attempt on a device that was there and could not be opened; then twice as long, each time.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Interval of checks of TAPs: a netisr that never sleeps does not see that one is gone.
const ROUND: Duration = Duration::from_secs(1);

/// The device of an interface is gone.
#[derive(Clone, Debug)]
pub(crate) struct Away {
    /// When to try again, even if nothing is heard.
    next: Instant,
    pause: Duration,
    /// The kernel's interface that could not be opened.
    tried: Option<u32>,
    /// Why; said once.
    said: String,
}

impl Away {
    fn since_now() -> Self {
        Self { next: Instant::now(), pause: FIRST_PAUSE, tried: None, said: String::new() }
    }

    /// Notes that the device could not be opened; answers whether that is news.
    fn failed(&mut self, tried: Option<u32>, why: &str) -> bool {
        self.next = Instant::now() + self.pause;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        self.tried = tried;
        let is_new = self.said != why;
        why.clone_into(&mut self.said);
        is_new
    }
}

/// Looks after devices, for ever.
pub(crate) async fn watch(control: &Arc<Mutex<Control>>) {
    let (mut monitor, lost) = {
        let mut control = locked(control);
        (control.monitor.take().and_then(watched), control.cpus.lost())
    };
    locked(control).look_after_devices(&LinkChanges::default());
    loop {
        let pause = locked(control).looks_again_in();
        let changes = tokio::select! {
            changes = heard(&mut monitor) => changes,
            () = lost.notified() => LinkChanges::default(),
            () = tokio::time::sleep(pause.unwrap_or_default()), if pause.is_some() => LinkChanges::default(),
        };
        locked(control).look_after_devices(&changes);
    }
}

#[expect(
    deprecated,
    reason = "the other constructor has a contract; what it asks for is so: the monitor owns its descriptor and keeps it"
)]
fn watched(monitor: LinkMonitor) -> Option<AsyncFd<LinkMonitor>> {
    let watched = AsyncFd::with_interest(monitor, Interest::READABLE);
    watched.inspect_err(|why| log::warning(&format!("cannot monitor the kernel's interfaces: {why}"))).ok()
}

/// The next changes that the kernel tells of.
async fn heard(monitor: &mut Option<AsyncFd<LinkMonitor>>) -> LinkChanges {
    let Some(monitor) = monitor else { return core::future::pending().await };
    loop {
        let Ok(mut ready) = monitor.readable_mut().await else { return core::future::pending().await };
        let changes = ready.get_inner_mut().changes();
        ready.clear_ready();
        if changes.any {
            return changes;
        }
    }
}

impl Control {
    /// When devices are to be looked at, even if nothing is heard.
    fn looks_again_in(&self) -> Option<Duration> {
        let now = Instant::now();
        let times = self.attached.iter().filter_map(|interface| match &interface.away {
            Some(away) if away.tried.is_some() || interface.config.device.is_made_here() => {
                Some(away.next.saturating_duration_since(now))
            }
            None if interface.config.device.is_made_here() => Some(ROUND),
            // The other end of a veth decides whether redirected frames may be sent.
            None if interface.config.offload => Some(ROUND),
            _ => None,
        });
        times.min()
    }

    /// Gives up devices that are gone, and takes up those that are back.
    fn look_after_devices(&mut self, changes: &LinkChanges) {
        let indices: Vec<IfIndex> = self.attached.iter().map(|interface| interface.index).collect();
        for index in indices {
            if self.has_lost_its_device(index, changes)
                && let Err(why) = self.give_up(index)
            {
                log::error(&why.error);
            }
            self.take_up(index);
        }
        self.look_at_carriers();
        self.pppoe.changed.notify_one();
        for interface in self.attached.iter().filter(|interface| interface.away.is_none()) {
            self.workshop.offload.look_again(interface);
        }
        if changes.any {
            self.share_addresses();
        }
        self.mirror_twins();
    }

    /// Takes ports of bridges whose wires do not carry out of their trees, and back in. Behind a wire that carries again may be
    /// another link.
    fn look_at_carriers(&mut self) {
        let Self { attached, workshop, .. } = self;
        let (mut has_news, mut back) = (false, Vec::new());
        for interface in attached.iter_mut().filter(|interface| interface.away.is_none()) {
            let Some((host, _)) = &interface.facts.host else { continue };
            let Ok(link) = workshop.netlink.link(host) else { continue };
            let has_carrier = link.flags.contains(LinkFlags::RUNNING);
            let is_news = core::mem::replace(&mut interface.has_carrier, has_carrier) != has_carrier;
            if is_news && has_carrier {
                back.push(interface.config.name.clone());
            }
            if is_news && interface.config.is_port {
                has_news = true;
                let name = &interface.config.name;
                log::info(&format!(
                    "interface {name}: {}",
                    if has_carrier { "carrier" } else { "no carrier" }
                ));
            }
        }
        if has_news && let Err(why) = self.publish() {
            log::error(&why.error);
        }
        back.iter().for_each(|name| self.is_reattached(name));
    }

    /// Asks about what was leased on an interface, and on those over it, whose link may be another one.
    fn is_reattached(&mut self, name: &str) {
        let is_over = |own: &&Attached| {
            own.config.name == name
                || tables::device_below(own, &self.attached).is_some_and(|below| below.config.name == name)
        };
        let all: Vec<_> = self.attached.iter().filter(is_over).map(|own| own.config.name.clone()).collect();
        all.iter().for_each(|name| self.dhcp6_is_reattached(name));
    }

    fn has_lost_its_device(&mut self, index: IfIndex, changes: &LinkChanges) -> bool {
        let Some(interface) = self.attached.iter().find(|interface| interface.index == index) else {
            return false;
        };
        match &interface.facts {
            _ if interface.away.is_some() => false,
            Facts { mode: DeviceMode::Tap | DeviceMode::Tun, .. } => is_cut_off(interface),
            Facts { mode: DeviceMode::Native | DeviceMode::Generic, host: Some((name, number)), .. } => {
                match self.workshop.netlink.link(name) {
                    Ok(link) => link.index != *number || changes.deleted.contains(number),
                    Err(why) => matches!(why, NetlinkError::NoSuchLink(_)),
                }
            }
            _ => false,
        }
    }

    /// Takes an interface whose device is gone out of all that is forwarded, and closes its rings.
    fn give_up(&mut self, index: IfIndex) -> Result<(), Error> {
        let Some(interface) = self.attached_mut(index) else { return Ok(()) };
        interface.away = Some(Away::since_now());
        // Nothing else has it: a reload, which does for a moment, is over.
        if let Some(hold) = Arc::get_mut(&mut interface.hold) {
            hold.forsake();
        }
        let gone = format!("interface {}: {} is gone", interface.config.name, interface.config.device);
        let published = self.publish();
        self.workshop.offload.remove(index);
        let closed = self.cpus.detach(index);
        if let Some(interface) = self.attached_mut(index) {
            interface.placement = RingPlacement::default();
            interface.waiters.clear();
            // The program is detached, and sockets are closed, when the rings are.
            interface.hold = Arc::default();
        }
        log::warning(&format!("{gone}; it will be opened again when it returns"));
        published.and(closed)
    }

    /// Opens the device of an interface again, if it is there and it is time to try.
    fn take_up(&mut self, index: IfIndex) {
        let Some(interface) = self.attached.iter().find(|interface| interface.index == index) else { return };
        let Some(away) = &interface.away else { return };
        let host = interface.config.device.host().map(str::to_owned);
        let there = host.and_then(|host| self.workshop.netlink.link(&host).ok()).map(|link| link.index);
        let is_tried = there.is_some() && there == away.tried;
        if (there.is_none() && !interface.config.device.is_made_here())
            || (is_tried && Instant::now() < away.next)
        {
            return;
        }
        if there.is_none() && Instant::now() < away.next {
            return;
        }
        let name = interface.config.name.clone();
        match self.open_again(index) {
            Ok(description) => {
                log::info(&format!("interface {name} is back: {description}"));
                self.is_reattached(&name);
            }
            Err(why) => {
                let why = why.to_string();
                let news = self
                    .attached_mut(index)
                    .and_then(|interface| interface.away.as_mut())
                    .is_some_and(|away| away.failed(there, &why));
                if news {
                    log::error(&format!("{why}; retrying"));
                }
            }
        }
    }

    /// Opens the device; answers what it is now.
    fn open_again(&mut self, index: IfIndex) -> Result<String, StackError> {
        let netisr = |why: Error| StackError::Netisr(why.error);
        let Some(interface) = self.attached.iter().find(|interface| interface.index == index) else {
            return Ok(String::new());
        };
        let (config, unit) = (interface.config.clone(), interface.unit);
        // Others wait for the control thread meanwhile: it does not wait, and tries again.
        let opened = self.workshop.without_waiting(|workshop| device::open(&config, unit, workshop))?;
        let count = opened.rings.len();
        let placement = RingPlacement::of(&self.workshop.map(unit, count), count);
        let waiters = opened.rings.iter().map(|ring| ring.waiter.clone()).collect();
        self.cpus.attach(index, opened.rings, &opened.hold, &placement).map_err(netisr)?;
        if self.captures.want_drops() {
            opened.hold.hand_up_dropped(true);
        }
        let offload = self.workshop.offload.clone();
        let Some(interface) = self.attached_mut(index) else { return Ok(String::new()) };
        (interface.facts, interface.hold, interface.placement) =
            (opened.facts, Arc::new(opened.hold), placement);
        (interface.waiters, interface.away) = (waiters, None);
        let (monitor, description) = (interface.monitor, interface.description());
        offload.add(interface);
        if monitor {
            self.watch(index, true).map_err(netisr)?;
        }
        self.publish().map_err(netisr)?;
        Ok(description)
    }

    fn attached_mut(&mut self, index: IfIndex) -> Option<&mut Attached> {
        self.attached.iter_mut().find(|interface| interface.index == index)
    }
}

/// Whether the other end of a TAP is gone, in whichever namespace it was.
fn is_cut_off(interface: &Attached) -> bool {
    interface.waiters.iter().any(|waiter| {
        let Some(queue) = waiter.descriptor() else { return true };
        let mut fds = [PollFd::new(&queue, PollFlags::IN)];
        wait(&mut fds, Some(Duration::ZERO)).is_ok_and(|ready| ready > 0)
            && fds[0].revents().intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_cannot_be_opened_is_tried_less_and_less_often_and_its_reason_said_once() {
        let mut away = Away::since_now();
        assert!(away.failed(Some(3), "no queue"));
        assert!(!away.failed(Some(3), "no queue"));
        assert!(away.failed(Some(3), "too long"));
        (0..20).for_each(|_| _ = away.failed(Some(3), "too long"));
        assert_eq!(away.pause, LONGEST_PAUSE);
        assert!(away.next > Instant::now() + LONGEST_PAUSE / 2);
    }
}
