//! The life of a connection: each change of state that is drawn in `docs/design/TCP-STATES.md` is made, and no other.

use core::time::Duration;

use super::super::state::{seen, transitions};
use super::super::*;
use super::lone::Lone;
use State::*;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// An end that asks in a silence whether the other one is there, so that it does not wait for ever.
fn end_in(state: State) -> Lone {
    Lone::in_state(state, Settings { keepalive: true, ..Settings::default() })
}

#[test]
fn each_change_that_is_drawn_is_made_by_a_segment_a_call_or_time_and_no_other_is() {
    seen::take();
    for state in State::ALL.into_iter().skip(1) {
        let mut end = end_in(state);
        let next = end.tcb.receive.next().since(Seq(super::lone::THEIRS));
        end.gets(&if state == SynSent {
            "R. 0:0(0) ack 1".to_owned()
        } else {
            format!("R {next}:{next}(0)")
        });
        assert_eq!(end.tcb.state(), if state == TimeWait { TimeWait } else { Closed }, "{state:?}: a reset");
        let mut end = end_in(state);
        end.waits(DAY);
        assert_eq!(end.tcb.state(), Closed, "{state:?}: a silence");
        let mut end = end_in(state);
        let _ = end.tcb.abort(end.now);
        assert_eq!(end.tcb.state(), Closed, "{state:?}: given up");
    }
    end_in(SynSent).tcb.close();
    let mut end = end_in(FinWait2);
    end.tcb.release(end.now);
    end.waits(DAY);
    for (state, text) in
        [(FinWait2, "F. 1:1(0) ack 2"), (Closing, ". 2:2(0) ack 2"), (LastAck, ". 2:2(0) ack 2")]
    {
        end_in(state).gets(text);
    }
    Lone::answers(Settings::default()).gets(". 1:1(0) ack 1");
    let drawn: Vec<_> = transitions().collect();
    let made: Vec<_> = seen::take().into_iter().filter(|(from, _, to)| from != to).collect();
    let is_missing = |change: &&(State, Event, State)| !made.contains(change);
    assert_eq!(drawn.iter().filter(is_missing).collect::<Vec<_>>(), Vec::<&(State, Event, State)>::new());
    assert!(made.iter().all(|change| drawn.contains(change)));
}
