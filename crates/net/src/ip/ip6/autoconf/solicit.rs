//! The question for routers, asked until one answers.

use core::net::Ipv6Addr;

use wire::addr::ALL_ROUTERS;

use super::speaker;
use crate::base::secret::Secret;
use crate::base::time::{Duration, Instant};
use crate::ip::ip6::nd;
use crate::link::tables::IfIndex;
use crate::turn::cpu::Cpu;

/// `MAX_RTR_SOLICITATION_DELAY`: hosts that start together do not all ask at once.
const DELAY_MAX_MS: u64 = 1000;
/// The first gap between two questions, and the longest (`IRT` and `MRT` of RFC 7559 §2).
const GAP: Duration = Duration::from_secs(4);
const GAP_MAX: Duration = Duration::from_secs(3600);

/// When to ask next.
pub(super) struct Solicit {
    pub(super) at: Instant,
    gap: Duration,
}

impl Default for Solicit {
    fn default() -> Self {
        Self { at: Instant::NEVER, gap: GAP }
    }
}

impl Solicit {
    /// The interface can speak.
    //= https://www.rfc-editor.org/rfc/rfc4861#section-6.3.7
    pub(super) fn start(&mut self, now: Instant, secret: &mut Secret) {
        *self = Self { at: now + Duration::from_millis(secret.below(DELAY_MAX_MS)), gap: GAP };
    }

    /// Stops: a router has answered, or the link is down.
    pub(super) const fn stop(&mut self) {
        self.at = Instant::NEVER;
    }

    /// Each gap is about twice as long as the one before.
    //= https://www.rfc-editor.org/rfc/rfc7559#section-2
    fn asked(&mut self, now: Instant, secret: &mut Secret) {
        let ms = u64::try_from(self.gap.as_millis()).unwrap_or(u64::MAX);
        self.at = now + Duration::from_millis(ms - ms / 10 + secret.below(ms / 5));
        self.gap = (self.gap * 2).min(GAP_MAX);
    }
}

/// Asks, if it is time.
pub(super) fn send_due(cpu: &mut Cpu, ifindex: IfIndex) {
    let Cpu { autoconf, secret, now, .. } = cpu;
    let Some(link) = autoconf.link(ifindex).filter(|link| link.solicit.at <= *now) else { return };
    link.solicit.asked(*now, secret);
    let at = link.solicit.at;
    if at < link.armed {
        link.armed = at;
        cpu.timers.set(at, crate::turn::timers::Timer::Autoconf(ifindex));
    }
    if let Some(src) = speaker(cpu, ifindex) {
        send(cpu, ifindex, src);
    }
}

fn send(cpu: &mut Cpu, ifindex: IfIndex, src: Ipv6Addr) {
    nd::solicit_routers(cpu, ifindex, nd::NdTxParams { src, dst: ALL_ROUTERS, mac: None });
}
