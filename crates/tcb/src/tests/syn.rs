//! SYNs: what they offer, when they are sent again, and for how long.

use core::time::Duration;

use proptest::prelude::*;
use wire::tcp::Options;

use super::super::*;
use super::lone::Lone;
use crate::rtt::Bounds;
use crate::settings::{Ecn, Extensions, Uto};

/// Returns the headers of unanswered SYNs, each with the milliseconds since the first.
fn syns(settings: Settings) -> Vec<(u128, Header)> {
    let now = Instant::from_ns(1_000_000);
    let mut tcb = Tcb::connect(settings, (4000, 80), 1, Stamps::from(0), now);
    let (mut at, mut sent) = (now, Vec::new());
    while at != Instant::NEVER {
        tcb.expire(at);
        tcb.output(at, &mut |out| sent.push((at.since(now).as_millis(), out.header)));
        at = tcb.deadline();
    }
    assert_eq!(tcb.ended(), Some(Ended::TimedOut));
    sent
}

#[test]
fn a_syn_is_sent_again_after_a_second_and_then_twice_as_long_each_time_with_some_slack() {
    let at = |seconds| {
        let settings = Settings { establish_within: Duration::from_secs(seconds), ..Settings::default() };
        syns(settings).iter().map(|(at, _)| *at).collect::<Vec<_>>()
    };
    assert_eq!(at(5), [0, 1000, 3200]);
    assert_eq!(
        at(363),
        [0, 1000, 3200, 7400, 15_600, 31_800, 64_000, 128_000, 192_000, 256_000, 320_000],
        "at most 64 seconds"
    );
}

#[test]
fn an_unanswered_syn_is_retried_for_three_minutes() {
    let all = syns(Settings::default());
    assert_eq!(all.last().map(|(at, _)| *at), Some(128_000), "the next would be behind the third minute");
    let mut end = Lone::begins(Settings::default());
    end.waits(Duration::from_secs(179));
    assert_eq!(end.tcb.ended(), None);
    end.waits(Duration::from_secs(1));
    assert_eq!(end.tcb.ended(), Some(Ended::TimedOut));
}

#[test]
fn marks_are_asked_for_with_the_first_and_as_often_again_as_is_wanted() {
    for ecn_retries in 0..3 {
        let settings = Settings { ecn: Ecn::Active, ecn_retries, ..Settings::default() };
        let asking =
            syns(settings).iter().filter(|(_, syn)| syn.flags.contains(Flags::ECE | Flags::CWR)).count();
        assert_eq!(asking, usize::from(ecn_retries) + 1);
    }
}

#[test]
fn a_syn_that_stays_unanswered_may_leave_its_offers_out() {
    let mss = Options { mss: Some(1460), ..Options::NONE };
    for drops_options in [false, true] {
        let syns = syns(Settings { drops_options, ..Settings::default() });
        let is_plain: Vec<_> = syns.iter().map(|(_, syn)| syn.options == mss).collect();
        assert_eq!(is_plain[..3], [false; 3]);
        assert!(is_plain[3..].iter().all(|is_plain| *is_plain == drops_options));
    }
    let settings = Settings { no_options: true, ..Settings::default() };
    assert!(syns(settings).iter().all(|(_, syn)| syn.options == Options::NONE));
}

#[test]
fn an_option_not_offered_is_not_accepted() {
    let mut end = Lone::connects(Settings { no_options: true, ..Settings::default() });
    let all =
        Options { window_scale: Some(7), sack_permitted: true, timestamps: Some((1, 0)), ..Options::NONE };
    assert_eq!(end.gets_with("S. 0:0(0) ack 1", all), [". 1:1(0) ack 1 win 65535"]);
    assert!(!end.tcb.agreed.timestamps && !end.tcb.agreed.sack && end.tcb.agreed.shift == (0, 0));
}

/// Bounds of retransmission timeouts.
fn bounds() -> impl Strategy<Value = Bounds> {
    (0..500_u64, 0..3000_u64, 1..90_000_u64).prop_map(|(slop, min, max)| Bounds {
        slop: Duration::from_millis(slop),
        min: Duration::from_millis(min),
        max: Duration::from_millis(max),
    })
}

/// All settings that the answer to a SYN depends on.
fn settings() -> impl Strategy<Value = Settings> {
    let extensions = prop_oneof![
        Just(Extensions::Off),
        Just(Extensions::Both),
        Just(Extensions::Scale),
        Just(Extensions::Stamps)
    ];
    let ecn = prop_oneof![Just(Ecn::Off), Just(Ecn::Passive), Just(Ecn::Active)];
    let buffers = (1..300_000_u32, 1..5_000_000_u32, any::<u16>());
    let waits = (bounds(), 0..3000_u64, 0..3000_u64, proptest::option::of(0..3000_u64));
    let rare = (0..8_u8, any::<bool>());
    (extensions, ecn, buffers, waits, rare).prop_map(|(extensions, ecn, buffers, waits, (rare, sack))| {
        let (receive_buffer, receive_buffer_max, mss) = buffers;
        let (rto, initial_rto, establish_within, user_timeout) = waits;
        let ms = Duration::from_millis;
        Settings {
            extensions,
            ecn,
            receive_buffer,
            receive_buffer_max,
            mss,
            rto,
            initial_rto: ms(initial_rto),
            establish_within: ms(establish_within),
            user_timeout: user_timeout.map(ms),
            sack,
            signs: rare == 0,
            no_options: rare == 1,
            uto: Uto { is_on: rare == 2, ..Uto::default() },
            ..Settings::default()
        }
    })
}

/// A SYN with any options.
fn any_syn() -> impl Strategy<Value = Header> {
    let options = (
        proptest::option::of(any::<u16>()),
        proptest::option::of(any::<u8>()),
        any::<bool>(),
        proptest::option::of(any::<(u32, u32)>()),
        proptest::option::of(0..10_000_u64),
    );
    (any::<(u32, u16)>(), any::<u8>(), options).prop_map(|((seq, window), flags, options)| {
        let (mss, window_scale, sack_permitted, timestamps, user_timeout) = options;
        let user_timeout = user_timeout.and_then(wire::tcp::UserTimeout::of_secs);
        let options =
            Options { mss, window_scale, sack_permitted, timestamps, user_timeout, ..Options::NONE };
        let flags = Flags(flags & !(Flags::ACK.0 | Flags::RST.0)) | Flags::SYN;
        Header { src_port: 4000, dst_port: 80, seq, ack: 0, flags, window, urgent: 0, options }
    })
}

proptest! {
    /// [`answer::usual_answer`] against a connection.
    #[test]
    fn the_usual_answer_to_a_syn_is_that_of_a_connection_and_due_again_when_that_is(
        settings in settings(),
        syn in any_syn(),
        (iss, clock, at) in any::<(u32, u32, u32)>(),
    ) {
        let (now, ports, stamps) = (Instant::from_ns(at.into()), (80, 4000), Stamps::from(clock));
        let segment = Segment { header: &syn, payload: &[], is_marked: false };
        let mut tcb = Tcb::answer(settings, ports, iss, stamps, &segment, now);
        let mut sent = Vec::new();
        tcb.output(now, &mut |out| sent.push((out.header, out.payload.concat().len(), out.may_be_marked)));
        let usual = answer::usual_answer(&settings, ports, iss, stamps, &syn, now);
        let is_usual = !settings.signs && !settings.no_options && !settings.uto.is_on;
        prop_assert_eq!(usual.is_some(), is_usual);
        if let Some((header, deadline)) = usual {
            prop_assert_eq!(sent, [(header, 0, false)]);
            prop_assert_eq!(deadline, tcb.deadline());
        }
    }
}
