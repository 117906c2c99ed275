//! The user timeout option (RFC 5482): each end's timeout, announced to the other as advice.
//!
//! What is told here stands in our SYN and in the first segment behind it, and again when the program changes it. What the
//! peer announces is kept within bounds of ours, and lengthens or shortens our timeout. Both only where a setting has
//! switched it on.

use wire::tcp::{Flags, UserTimeout};

use super::{Out, State, Tcb};
use base::time::{Duration, Instant};

/// The announced timeout, and the one to be announced.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Advice {
    /// The peer's last announcement: `REMOTE_UTO`.
    remote: Option<UserTimeout>,
    /// Ours is to be told with the next segment, if there is something to tell.
    pub(super) is_due: bool,
}

/// Bytes of the option.
const UTO_LEN: u32 = 4;

impl Advice {
    /// Returns the peer's timeout.
    pub(super) fn heard(&self) -> Option<Duration> {
        self.remote.map(|remote| Duration::from_secs(remote.secs().into()))
    }
}

impl Tcb {
    /// Returns the timeout to be announced: `ADV_UTO`, if any.
    pub(super) fn advice_to_give(&self) -> Option<UserTimeout> {
        if !self.settings.uto.is_on {
            return None;
        }
        let told = self.settings.uto.told.or(self.settings.user_timeout)?;
        UserTimeout::of_secs(told.as_secs() + u64::from(told.subsec_nanos() > 0))
    }

    /// The other end has told how long it waits; what it told before does not count any more.
    pub(super) fn take_advice(&mut self, advice: Option<UserTimeout>) {
        if self.settings.uto.is_on && advice.is_some() {
            self.advice.remote = advice;
        }
    }

    /// Returns our timeout as adapted to the peer's, if it is: within our bounds, whatever it announces
    /// (RFC 5482 §6), and no shorter than what is sent again takes to be answered.
    ///
    /// That holds while the connection is established and the option is enabled: before, and when its program has gone, it is
    /// not the other end that says how long we remember it.
    //= https://www.rfc-editor.org/rfc/rfc5482#section-3.1
    //# USER_TIMEOUT = min(U_LIMIT, max(ADV_UTO, REMOTE_UTO, L_LIMIT))
    pub(super) fn adopted(&self) -> Option<Duration> {
        let remote = self.advice.heard()?;
        let uto = &self.settings.uto;
        if !uto.is_on || !uto.is_changeable || self.state < State::Established || self.is_released {
            return None;
        }
        let ours = uto.told.or(self.settings.user_timeout).unwrap_or_default();
        Some(remote.max(ours).max(uto.least).min(uto.most).max(self.rtt.rto()))
    }

    /// When we give up what has waited since `since`, where the other end has told us how long it waits. A window that it
    /// keeps closed is none of that as long as it answers.
    pub(super) fn gives_up(&self, since: Instant) -> Option<Instant> {
        let Some(adopted) = self.adopted() else {
            return self.settings.user_timeout.map(|timeout| since + timeout);
        };
        let is_shut_out = !self.right_edge.is_after(self.sent.first());
        let since = if is_shut_out { since.max(self.keep.heard) } else { since };
        Some(since + adopted)
    }

    /// Tells the other end how long we wait, before anything else is sent.
    //= https://www.rfc-editor.org/rfc/rfc5482#section-3
    pub(super) fn advise(&mut self, now: Instant, wire: &mut dyn FnMut(&Out<'_>)) {
        if !(State::Established..State::TimeWait).contains(&self.state) {
            return;
        }
        self.advice.is_due = false;
        let Some(advice) = self.advice_to_give().filter(|_| !self.settings.no_options) else { return };
        let mut header = self.acknowledging(Flags::ACK, self.sent.behind(), now);
        header.options.user_timeout = Some(advice);
        if !header.options.has_room_for_user_timeout() {
            // What is missing matters more, but for its last block.
            let all = core::mem::take(&mut header.options.sack);
            for block in all.as_slice().iter().take(self.blocks_beside(UTO_LEN)) {
                header.options.sack.push(*block);
            }
        }
        self.tally.sent(1, false, false);
        wire(&Out { header, payload: [&[], &[]], cut: 0, may_be_marked: false });
    }
}
