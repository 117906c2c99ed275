//! The prefix list of a link: whose addresses are neighbours.

use crate::base::time::Instant;
use crate::fib::Prefix;

use super::addresses::lifetime;

/// Prefixes of a link at the most; a newcomer to a full list is refused.
pub const PREFIXES_MAX: usize = 16;

/// Prefixes that routers say are on the link.
#[derive(Default)]
pub(super) struct Prefixes {
    list: Vec<PrefixStatus>,
}

/// A prefix that is on the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefixStatus {
    /// Which one.
    pub prefix: Prefix,
    /// Until when; never, if for ever.
    pub expires: Instant,
}

/// The list is full.
pub(super) struct Full;

impl Prefixes {
    /// A router says that a prefix is on the link.
    //= https://www.rfc-editor.org/rfc/rfc4861#section-6.3.4
    pub(super) fn advertised(&mut self, said: &wire::nd::Prefix, now: Instant) -> Result<(), Full> {
        let Some(prefix) = Prefix::new(said.addr.into(), said.len).filter(|_| said.on_link) else {
            return Ok(());
        };
        let expires = lifetime(now, said.valid_s);
        if said.valid_s == 0 {
            self.list.retain(|known| known.prefix != prefix);
        } else if let Some(known) = self.list.iter_mut().find(|known| known.prefix == prefix) {
            known.expires = expires;
        } else if self.list.len() >= PREFIXES_MAX {
            return Err(Full);
        } else {
            self.list.push(PrefixStatus { prefix, expires });
        }
        Ok(())
    }

    /// Forgets all, and returns how many there were.
    pub(super) fn clear(&mut self) -> usize {
        self.list.drain(..).count()
    }

    pub(super) fn expire(&mut self, now: Instant) {
        self.list.retain(|known| known.expires > now);
    }

    pub(super) fn due(&self) -> Instant {
        self.list.iter().map(|known| known.expires).min().unwrap_or(Instant::NEVER)
    }

    pub(super) fn prefixes(&self) -> Vec<Prefix> {
        self.list.iter().map(|known| known.prefix).collect()
    }

    pub(super) fn status(&self) -> Vec<PrefixStatus> {
        self.list.clone()
    }
}
