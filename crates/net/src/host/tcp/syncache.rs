//! Half-open connections: a SYN came and was answered, and whether the other end is there is not known.
//!
//! What is kept of one is the SYN itself. When something comes, or is due, the connection is made again from it, up to
//! where it was, and goes on from there; so there is one implementation of a connection, and little memory in a flood
//! (ADR 16).

use std::sync::Arc;

use wire::tcp::{Cookie, Flags, Header};

use super::build::IpTxParams;
use super::settings::Settings;
use super::tcb::answer::usual_answer;
use super::tcb::budget::Budget;
use super::tcb::{NewTcb, Segment, Stamps, Tcb};
use crate::base::collections::timer_wheel::{HasDeadline, WheelEntry};
use crate::base::time::Instant;
use crate::host::pcb::FourTuple;

/// Largest number of SYN-ACKs without a reply (FreeBSD's `net.inet.tcp.syncache.rexmtlimit`, and
/// the first time).
const ANSWERS_MAX: u8 = 4;

/// One half-open connection.
#[derive(Clone, Debug)]
pub(super) struct SynEntry {
    pub(super) ends: FourTuple,
    pub(super) tx_params: IpTxParams,
    syn: Header,
    iss: u32,
    clock: u32,
    /// When the SYN came.
    at: Instant,
    /// Number of SYN-ACKs.
    answers: u8,
    /// Fast Open cookie in the SYN-ACK.
    pub(super) cookie: Option<Cookie>,
    /// For answers to what else comes.
    budget: Budget,
    /// Its settings, while it rests.
    settings: Option<Arc<Settings>>,
    entry: WheelEntry,
}

// docs/reference/LIMITS.md says so.
const _: () = assert!(size_of::<SynEntry>() <= 256);

impl Default for SynEntry {
    fn default() -> Self {
        let any = core::net::SocketAddr::from(([0; 4], 0));
        let options = wire::tcp::Options::NONE;
        let syn = Header {
            src_port: 0,
            dst_port: 0,
            seq: 0,
            ack: 0,
            flags: Flags::SYN,
            window: 0,
            urgent: 0,
            options,
        };
        Self::new(FourTuple::new(any, any, 0), IpTxParams::default(), &syn, 0, 0, Instant::START)
    }
}

impl HasDeadline for SynEntry {
    fn entry(&mut self) -> &mut WheelEntry {
        &mut self.entry
    }
}

impl SynEntry {
    /// Makes an entry of a SYN that came `at`, answered with `iss`; timestamps begin at `clock`.
    pub(super) fn new(
        ends: FourTuple,
        tx_params: IpTxParams,
        syn: &Header,
        iss: u32,
        clock: u32,
        at: Instant,
    ) -> Self {
        Self {
            ends,
            tx_params,
            syn: *syn,
            iss,
            clock,
            at,
            answers: 1,
            cookie: None,
            budget: Budget::default(),
            settings: None,
            entry: WheelEntry::default(),
        }
    }

    /// Returns the settings for [`Self::revive`], if the connection rests.
    pub(super) fn wake(&mut self) -> Option<Arc<Settings>> {
        self.settings.take()
    }

    /// Makes the connection again of a new one with [`Self::parameters`], as it was when the SYN had been answered for the last
    /// time.
    pub(super) fn revive(&self, tcb: &mut Tcb) {
        self.begin(tcb);
        let mut now = self.at;
        tcb.has_answered(now);
        for _ in 1..self.answers {
            now = tcb.deadline();
            tcb.expire(now);
            tcb.output(now, &mut |_| ());
        }
        tcb.budget = self.budget;
    }

    /// The connection rests until something comes, or is due.
    pub(super) fn rest(&mut self, tcb: &Tcb) {
        self.budget = tcb.budget;
        self.settings = Some(Arc::clone(tcb.settings()));
    }

    /// The answer to the SYN when it has come, and when it is due again; `None` if a connection has to be made to answer.
    pub(super) fn usual_answer(&self, settings: &Settings) -> Option<(Header, Instant)> {
        if self.cookie.is_some() {
            return None;
        }
        let ports = (self.ends.local_port, self.ends.remote_port);
        usual_answer(settings, ports, self.iss, Stamps::from(self.clock), &self.syn, self.at)
    }

    /// The connection rests from the beginning: [`Self::usual_answer`] has been sent.
    pub(super) fn rest_at_once(&mut self, settings: Arc<Settings>) {
        self.settings = Some(settings);
    }

    /// Returns the parameters of the connection.
    pub(super) fn parameters(&self, settings: Arc<Settings>) -> NewTcb {
        let ports = (self.ends.local_port, self.ends.remote_port);
        NewTcb { settings, ports, iss: self.iss, stamps: Stamps::from(self.clock), now: self.at }
    }

    /// Makes the connection of a new one with [`Self::parameters`]; its SYN is not answered yet.
    pub(super) fn begin(&self, tcb: &mut Tcb) {
        tcb.answers(&Segment { header: &self.syn, payload: &[], is_marked: false });
        if let Some(cookie) = self.cookie {
            tcb.give_cookie(cookie);
        }
    }

    /// The SYN is answered once more; `None` if that was often enough.
    pub(super) fn answered_again(&mut self) -> Option<()> {
        self.answers += 1;
        (self.answers <= ANSWERS_MAX).then_some(())
    }
}
