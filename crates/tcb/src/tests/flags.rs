//! All flags in all states, before, in and behind the window, with old, new and impossible acknowledgments: a connection goes
//! only where RFC 9293 §3.3.2 lets it go.

use wire::tcp::Options;

use super::super::*;
use super::lone::{Lone, OURS, THEIRS};
use State::*;

const STATES: [State; 9] =
    [SynSent, SynReceived, Established, CloseWait, FinWait1, FinWait2, Closing, LastAck, TimeWait];

/// Whether a segment with these flags may take a connection from one state to another.
fn may_go(from: State, to: State, flags: Flags) -> bool {
    let (syn, ack, fin, rst) = (flags.syn(), flags.ack(), flags.fin(), flags.rst());
    match (from, to) {
        (from, to) if from == to => true,
        (TimeWait, _) => false,
        (_, Closed) => rst || from == LastAck && ack && !syn,
        (SynSent, SynReceived) => syn && !ack && !rst,
        (SynSent, Established) => syn && ack && !rst,
        (SynSent, CloseWait) => syn && ack && fin && !rst,
        (SynReceived, Established) | (FinWait1, FinWait2) | (Closing, TimeWait) => ack && !rst,
        (SynReceived | Established, CloseWait) | (FinWait1 | FinWait2, TimeWait) => fin && ack && !rst,
        (FinWait1, Closing) => fin && ack && !rst,
        _ => false,
    }
}

#[test]
fn no_flags_take_a_connection_where_it_must_not_go() {
    for state in STATES {
        let mut gone = 0;
        for flags in (0..=u8::MAX).map(Flags) {
            for (seq, ack) in
                [0, 1, 2, 10, 70_000].into_iter().flat_map(|seq| [0, 1, 2, 9000].map(|ack| (seq, ack)))
            {
                let mut end = Lone::in_state(state, Settings::default());
                let (seq, ack) = (THEIRS.wrapping_add(seq), OURS.wrapping_add(ack));
                let ack = if flags.ack() { ack } else { 0 };
                let options = Options::NONE;
                let header =
                    Header { src_port: 80, dst_port: 4000, seq, ack, flags, window: 9, urgent: 3, options };
                let segment = Segment { header: &header, payload: &[], is_marked: false };
                let answer = end.tcb.arrive(&segment, end.now);
                let after = end.tcb.state();
                assert!(may_go(state, after, flags), "{state:?} to {after:?} by {flags} {seq} {ack}");
                let sent = end.sends().len() + usize::from(answer == Reply::Reset);
                assert!(sent <= 1, "{sent} answers to {flags} in {state:?}");
                assert!(!flags.rst() || sent == 0, "a reset is answered: {state:?} {flags}");
                gone += usize::from(after != state);
            }
        }
        assert_eq!(gone > 0, state != TimeWait, "{state:?}");
    }
}
