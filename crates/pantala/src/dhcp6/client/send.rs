//! Messages that a client sends, and the times between them (RFC 8415 §15).

use core::net::Ipv6Addr;

use wire::dhcp6::{Kind, option};

use super::{Act, CONFIRM, Client, DECLINE, INFORMATION, Pace, RENEW, REQUEST, SOLICIT, State};
use crate::dhcp6::lease::{Entry, Lease};
use crate::dhcp6::message::Builder;

/// Options that are asked for.
const REQUESTED: [u16; 4] = [option::DNS, option::SEARCH, option::SNTP, option::SOL_MAX_RT];
const INFORMATION_REQUESTED: [u16; 5] =
    [option::DNS, option::SEARCH, option::SNTP, option::REFRESH_TIME, option::INF_MAX_RT];

impl Client {
    pub(super) fn begin(&mut self, state: State, now: u64, delay: u64) {
        // Each exchange has its own number.
        self.xid = u32::try_from(self.draw(1 << 24)).unwrap_or_default();
        (self.state, self.begun, self.pause, self.attempts, self.at) = (state, now, 0, 0, now + delay);
    }

    pub(super) fn solicit(&mut self, now: u64) -> Act {
        let pace = Pace { longest: self.longest[0], ..SOLICIT };
        let message = self.message(Kind::Solicit, now);
        let message = if self.wants_address() {
            message.with_association(option::IA_NA, self.iaid, &[])
        } else {
            message
        };
        let hint = self.settings.prefix.filter(|_| self.wants_prefix());
        let message = match hint {
            // A prefix of zeros asks for a length alone (§18.2.4).
            Some(len) if len > 0 => {
                message.with_association(option::IA_PD, self.iaid, &[(Ipv6Addr::UNSPECIFIED, len)])
            }
            Some(_) => message.with_association(option::IA_PD, self.iaid, &[]),
            None => message,
        };
        let message =
            if self.settings.rapid_commit { message.with(option::RAPID_COMMIT, &[]) } else { message };
        self.send(message, pace, u64::MAX, now)
    }

    pub(super) fn request(&mut self, now: u64) -> Act {
        let (server, entries) = self
            .offer
            .as_ref()
            .map(|offer| (offer.server.clone(), offer.entries.clone()))
            .unwrap_or_default();
        let message = self.message(Kind::Request, now).with(option::SERVER_ID, &server);
        let message = self.with_entries(message, &entries);
        self.send(message, REQUEST, u64::MAX, now)
    }

    /// Asks whether addresses are still of this link; prefixes are rebound (§18.2.3, §18.2.5).
    pub(super) fn confirm(&mut self, now: u64) -> Act {
        let entries = self.entries();
        let message = if self.has_prefixes() {
            let message = self.message(Kind::Rebind, now);
            self.with_entries(message, &entries)
        } else {
            let addrs = leased(&entries, true);
            self.message(Kind::Confirm, now).with_association(option::IA_NA, self.iaid, &addrs)
        };
        self.send(message, CONFIRM, self.begun + super::CONFIRM_FOR, now)
    }

    pub(super) fn renew(&mut self, now: u64) -> Act {
        let server = self.lease.as_ref().map(|lease| lease.server.clone()).unwrap_or_default();
        let until = self.lease.as_ref().map_or(now, |lease| lease.rebind);
        let message = self.message(Kind::Renew, now).with(option::SERVER_ID, &server);
        let message = self.with_entries(message, &self.entries());
        self.send(message, RENEW, until, now)
    }

    pub(super) fn rebind(&mut self, now: u64) -> Act {
        let until = self.lease.as_ref().map_or(now, Lease::expires);
        let message = self.message(Kind::Rebind, now);
        let message = self.with_entries(message, &self.entries());
        self.send(message, RENEW, until, now)
    }

    pub(super) fn decline(&mut self, addr: Ipv6Addr, now: u64) -> Act {
        let server = self.lease.as_ref().map(|lease| lease.server.clone()).unwrap_or_default();
        let message = self.message(Kind::Decline, now).with(option::SERVER_ID, &server);
        let message = message.with_association(option::IA_NA, self.iaid, &[(addr, 128)]);
        self.send(message, DECLINE, u64::MAX, now)
    }

    pub(super) fn inform(&mut self, now: u64) -> Act {
        let pace = Pace { longest: self.longest[1], ..INFORMATION };
        let message = self.message(Kind::InformationRequest, now);
        self.send(message, pace, u64::MAX, now)
    }

    /// Gives everything back, once: an answer is not waited for.
    pub(crate) fn release(&mut self, now: u64) -> Vec<Act> {
        let Some(lease) = self.lease.take() else { return Vec::new() };
        self.begin(State::Idle, now, 0);
        let message = self.message(Kind::Release, now).with(option::SERVER_ID, &lease.server);
        let given = |code, is_address, message: Builder| match leased(&lease.entries, is_address) {
            none if none.is_empty() => message,
            all => message.with_association(code, self.iaid, &all),
        };
        let message = given(option::IA_PD, false, given(option::IA_NA, true, message));
        self.at = u64::MAX;
        self.counts.sent += 1;
        vec![Act::Send(message.into_bytes()), Act::Use]
    }

    fn entries(&self) -> Vec<Entry> {
        self.lease.as_ref().map(|lease| lease.entries.clone()).unwrap_or_default()
    }

    /// Adds associations: those that are there, and empty ones of what is wanted besides.
    fn with_entries(&self, message: Builder, entries: &[Entry]) -> Builder {
        let kinds =
            [(option::IA_NA, true, self.wants_address()), (option::IA_PD, false, self.wants_prefix())];
        kinds.into_iter().fold(message, |message, (code, is_address, is_wanted)| {
            let all = leased(entries, is_address);
            if all.is_empty() && !is_wanted {
                message
            } else {
                message.with_association(code, self.iaid, &all)
            }
        })
    }

    fn message(&self, kind: Kind, now: u64) -> Builder {
        let hundredths = if self.attempts == 0 { 0 } else { now.saturating_sub(self.begun) / 10 };
        let elapsed = u16::try_from(hundredths).unwrap_or(u16::MAX).to_be_bytes();
        let message =
            Builder::new(kind, self.xid).with(option::CLIENT_ID, &self.duid).with(option::ELAPSED, &elapsed);
        let requested = match kind {
            Kind::Release | Kind::Decline | Kind::Confirm => &[][..],
            Kind::InformationRequest => &INFORMATION_REQUESTED,
            _ => &REQUESTED,
        };
        let codes: Vec<u8> = requested.iter().flat_map(|code| code.to_be_bytes()).collect();
        message.with_some(option::REQUESTED, &codes)
    }

    /// Sends a message, and sets the time for the next: at `until`, if that comes first.
    fn send(&mut self, message: Builder, pace: Pace, until: u64, now: u64) -> Act {
        //= https://www.rfc-editor.org/rfc/rfc8415#section-15
        let doubled = self.pause * 2;
        let base = match self.pause {
            0 => pace.first,
            _ if pace.longest > 0 && doubled > pace.longest => pace.longest,
            _ => doubled,
        };
        // A tenth more or less; the first solicitation is not followed too soon (§18.2.1).
        let is_first_solicit = self.state == State::Soliciting && self.attempts == 0;
        let spread = self.draw(base / 5 + 1);
        self.pause = if is_first_solicit { base + spread / 2 + 1 } else { base - base / 10 + spread };
        self.at = (now + self.pause).min(until.max(now + 1));
        self.attempts += 1;
        self.counts.sent += 1;
        Act::Send(message.into_bytes())
    }

    /// A number below `bound`, of a sequence that the seed says (xorshift64*).
    pub(super) fn draw(&mut self, bound: u64) -> u64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        (self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16) % bound.max(1)
    }
}

/// The addresses, or the prefixes, as a message lists them.
fn leased(entries: &[Entry], is_address: bool) -> Vec<(Ipv6Addr, u8)> {
    let all = entries.iter().filter(|entry| entry.is_address() == is_address);
    all.map(|entry| (entry.net.addr(), entry.net.prefix_len())).collect()
}
