//! Initial sequence numbers, and those that are cookies: what is to be remembered of a SYN when there is no room, in the
//! number that the other end must send back.

use core::hash::Hasher;

use wire::tcp::{Flags, Header, Options};

use super::seq::Seq;
use crate::base::secret::Secret;
use crate::base::time::{Duration, Instant};
use crate::host::pcb::FourTuple;

/// Least lifetime of a cookie, and half of its most.
pub(super) const EPOCH: Duration = Duration::from_secs(16);
/// Segment lengths that a cookie can say: what links have, less the headers (Ethernet, with PPPoE, tunnels, the minimum
/// of both families).
const LENGTHS: [u16; 8] = [216, 536, 1200, 1360, 1400, 1440, 1452, 1460];
/// Shifts of the window that a cookie can say; the first is that windows are not scaled.
const SHIFTS: [Option<u8>; 8] = [None, Some(0), Some(1), Some(2), Some(4), Some(6), Some(7), Some(9)];
/// Distance of the new ISN behind a connection in TIME-WAIT, if the clock is not there yet: the reach of an old segment of
/// the usual window.
const AHEAD: u32 = 1 << 16;
/// Bits of a cookie that tell what is remembered; the others are the proof.
const FACTS: u32 = 0xff;

/// The number that a connection between `ends` begins with, and what its timestamps begin with (RFC 7323 §5.4).
//= https://www.rfc-editor.org/rfc/rfc6528#section-3
//# ISN = M + F(localip, localport, remoteip, remoteport, secretkey)
pub(super) fn beginnings(secret: &Secret, ends: &FourTuple, now: Instant) -> (u32, u32) {
    let hash = hash(secret, ends, 0);
    (low(hash).wrapping_add(low(now.ns() / 4000)), low(hash >> 32))
}

/// Returns it for ends whose former connection has sent up to `behind`, and is in TIME-WAIT: a fast one was ahead of the clock.
//= https://www.rfc-editor.org/rfc/rfc9293#section-3.6.1
//# assigns its initial sequence number for the new
//# connection to be larger than the largest sequence number it
//# used on the previous connection incarnation
pub(super) fn beginnings_behind(secret: &Secret, ends: &FourTuple, behind: Seq, now: Instant) -> (u32, u32) {
    let (iss, clock) = beginnings(secret, ends, now);
    if Seq(iss).is_after(behind) { (iss, clock) } else { ((behind + AHEAD).0, clock) }
}

/// The number that answers `syn` and says what it said.
pub(super) fn bake(secret: &Secret, ends: &FourTuple, syn: &Header, now: Instant) -> u32 {
    let mss = syn.options.mss.unwrap_or(LENGTHS[1]);
    let length = LENGTHS.iter().rposition(|length| *length <= mss).unwrap_or(0);
    let asked = syn.options.window_scale;
    let shift = SHIFTS.iter().rposition(|shift| *shift <= asked).unwrap_or(0);
    let epoch = epoch(now);
    let facts = low(epoch & 1) << 7 | u32::from(syn.options.sack_permitted) << 6;
    let facts = facts | u32::try_from(shift << 3 | length).unwrap_or(0);
    proof(secret, ends, syn.seq, epoch, facts) | facts
}

/// The SYN that was answered with what `ack` acknowledges, if it was one of ours and not too long ago.
pub(super) fn open(secret: &Secret, ends: &FourTuple, ack: &Header, now: Instant) -> Option<Header> {
    let (iss, irs) = (ack.ack.wrapping_sub(1), ack.seq.wrapping_sub(1));
    let facts = iss & FACTS;
    let epoch = epoch(now);
    let baked = if epoch & 1 == u64::from(facts >> 7) { epoch } else { epoch.checked_sub(1)? };
    if proof(secret, ends, irs, baked, facts) != iss & !FACTS {
        return None;
    }
    let options = Options {
        mss: Some(LENGTHS[(facts & 7) as usize]),
        window_scale: SHIFTS[(facts >> 3 & 7) as usize],
        sack_permitted: facts >> 6 & 1 != 0,
        timestamps: ack.options.timestamps.map(|(value, _)| (value, 0)),
        ..Options::NONE
    };
    Some(Header { seq: irs, ack: 0, flags: Flags::SYN, options, ..*ack })
}

fn epoch(now: Instant) -> u64 {
    now.ns() / u64::try_from(EPOCH.as_nanos()).unwrap_or(u64::MAX)
}

fn proof(secret: &Secret, ends: &FourTuple, irs: u32, epoch: u64, facts: u32) -> u32 {
    low(hash(secret, ends, 2 ^ u64::from(irs) << 32 ^ epoch << 10 ^ u64::from(facts) << 2)) & !FACTS
}

/// A hash that depends on a conversation and on `what` it is for.
fn hash(secret: &Secret, ends: &FourTuple, what: u64) -> u64 {
    let mut hasher = secret.hasher();
    // In one piece: what is written word by word takes twice as long.
    let [a, b, c, d, e] = ends.words();
    hasher.write([a, b, c, d, e, what].map(u64::to_le_bytes).as_flattened());
    hasher.finish()
}

#[expect(clippy::cast_possible_truncation, reason = "of a number that runs round the lower half counts")]
const fn low(number: u64) -> u32 {
    number as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(port: u16) -> [FourTuple; 2] {
        let at = |addr: &str| addr.parse().unwrap();
        [
            FourTuple::new(at("10.0.1.1:80"), (at("10.0.1.9:1").ip(), port).into(), 0),
            FourTuple::new(at("[2001:db8::1]:80"), (at("[2001:db8::9]:1").ip(), port).into(), 0),
        ]
    }

    fn syn(mss: Option<u16>, window_scale: Option<u8>, sack_permitted: bool) -> Header {
        let options = Options { mss, window_scale, sack_permitted, ..Options::NONE };
        Header {
            src_port: 5000,
            dst_port: 80,
            seq: u32::MAX,
            ack: 0,
            flags: Flags::SYN,
            window: 1,
            urgent: 0,
            options,
        }
    }

    fn ack(cookie: u32) -> Header {
        Header { seq: 0, ack: cookie.wrapping_add(1), flags: Flags::ACK, ..syn(None, None, false) }
    }

    #[test]
    fn a_cookie_says_what_the_syn_said_or_a_little_less() {
        let (secret, now) = (Secret::new(7), Instant::from_ns(100_000_000_000));
        for ends in ends(5000) {
            for (mss, scale, sack, said) in [
                (Some(1460), Some(6), true, (1460, Some(6))),
                (Some(9000), Some(14), true, (1460, Some(9))),
                (Some(1300), Some(8), false, (1200, Some(7))),
                (Some(10), Some(0), false, (216, Some(0))),
                (None, None, true, (536, None)),
            ] {
                let cookie = bake(&secret, &ends, &syn(mss, scale, sack), now);
                let options = open(&secret, &ends, &ack(cookie), now).unwrap().options;
                assert_eq!((options.mss.unwrap(), options.window_scale), said);
                assert_eq!(options.sack_permitted, sack);
            }
        }
    }

    #[test]
    fn a_cookie_holds_for_a_while_for_one_conversation_and_cannot_be_changed() {
        let (secret, now) = (Secret::new(7), Instant::from_ns(100_000_000_000));
        for (ends, others) in ends(5000).into_iter().zip(ends(5001)) {
            let cookie = bake(&secret, &ends, &syn(Some(1460), Some(6), true), now);
            let opens = |secret: &Secret, ends: &FourTuple, ack: &Header, later| {
                open(secret, ends, ack, now + later).is_some()
            };
            assert!(opens(&secret, &ends, &ack(cookie), EPOCH));
            assert!(!opens(&secret, &ends, &ack(cookie), 2 * EPOCH));
            assert!(!opens(&secret, &ends, &ack(cookie), 3 * EPOCH));
            assert!(!opens(&secret, &others, &ack(cookie), Duration::ZERO));
            assert!(!opens(&Secret::new(8), &ends, &ack(cookie), Duration::ZERO));
            let another = Header { seq: 1, ..ack(cookie) };
            assert!(!opens(&secret, &ends, &another, Duration::ZERO));
            for bit in 0..32 {
                assert!(!opens(&secret, &ends, &ack(cookie ^ 1 << bit), Duration::ZERO), "bit {bit}");
            }
        }
    }

    #[test]
    fn numbers_begin_elsewhere_for_each_conversation_and_grow() {
        let (secret, now) = (Secret::new(7), Instant::from_ns(100_000_000_000));
        let [a, b] = [ends(5000)[0], ends(5001)[0]];
        let later = now + Duration::from_secs(1);
        let [(iss, clock), (iss_later, clock_later)] = [now, later].map(|at| beginnings(&secret, &a, at));
        assert_eq!((iss_later.wrapping_sub(iss), clock_later), (250_000, clock));
        let (other_iss, other_clock) = beginnings(&secret, &b, now);
        assert!(other_iss != iss && other_clock != clock && iss != clock);
    }
}
