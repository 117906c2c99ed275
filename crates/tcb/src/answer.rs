//! The usual answer to a SYN, from what the SYN says and the settings: no connection is made for it (ADR 16).
//!
//! A SYN costs its sender nothing, so its answer has to be cheap. What is agreed on is said once, by [`Agreed::on`] and
//! [`answers_marks`], for this answer and for connections; a test holds the two answers to each other.

use wire::tcp::{Flags, Header, Options};

use super::options::{Agreed, Stamps, shift_of};
use crate::rtt::Rtt;
use crate::settings::{Ecn, Settings};
use base::time::Instant;

/// Returns the SYN-ACK of a listener's connection and when it is due again, or `None` if a connection has to be made to answer:
/// for signatures, for a SYN without options, and for user timeouts that are announced.
#[inline]
pub fn usual_answer(
    settings: &Settings,
    (src_port, dst_port): (u16, u16),
    iss: u32,
    stamps: Stamps,
    syn: &Header,
    now: Instant,
) -> Option<(Header, Instant)> {
    if settings.signs || settings.no_options || settings.uto.is_on {
        return None;
    }
    let agreed = Agreed::on(settings, &syn.options);
    let timestamps = syn.options.timestamps.filter(|_| agreed.timestamps);
    let options = Options {
        mss: Some(settings.mss),
        window_scale: agreed.is_scaled.then(|| shift_of(settings)),
        sack_permitted: agreed.sack,
        timestamps: timestamps.map(|(value, _)| (stamps.at(now), value)),
        ..Options::NONE
    };
    let marks = if answers_marks(settings, syn.flags) { Flags::ECE } else { Flags::NONE };
    let flags = Flags::SYN | Flags::ACK | marks;
    //= https://www.rfc-editor.org/rfc/rfc7323#section-2.2
    //# The window field in a segment where the SYN bit is set (i.e., a <SYN>
    //# or <SYN,ACK>) MUST NOT be scaled.
    let window = u16::try_from(settings.receive_buffer).unwrap_or(u16::MAX);
    let (seq, ack) = (iss, syn.seq.wrapping_add(1));
    let header = Header { src_port, dst_port, seq, ack, flags, window, urgent: 0, options };
    let again = now + Rtt::new(settings.rto, settings.initial_rto).rto();
    let given_up = settings.user_timeout.map_or(Instant::NEVER, |timeout| now + timeout);
    Some((header, again.min(now + settings.establish_within).min(given_up)))
}

/// Whether a SYN that came without an acknowledgment asks for congestion notification, and is granted it.
//= https://www.rfc-editor.org/rfc/rfc3168#section-6.1.1
pub(super) fn answers_marks(settings: &Settings, flags: Flags) -> bool {
    settings.ecn != Ecn::Off && flags.contains(Flags::ECE | Flags::CWR)
}
