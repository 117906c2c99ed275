use proptest::prelude::*;

use super::*;

/// A step, with bytes of any kind.
fn step() -> impl Strategy<Value = Vec<u8>> {
    (any::<u8>(), proptest::collection::vec(any::<u8>(), 0..24))
        .prop_map(|(choice, bytes)| [&[choice, u8::try_from(bytes.len()).unwrap()][..], &bytes].concat())
}

/// The beginning of a session: an offer, a number, and what both want of LCP.
fn opening() -> Vec<u8> {
    [&[0, 0][..], &[1, 1, 1], &[3, 1, 0], &[6, 1, 0]].concat()
}

proptest! {
    #[test]
    fn a_client_sends_what_can_be_read_and_waits_whatever_comes(
        is_open: bool,
        steps in proptest::collection::vec(step(), 0..80),
    ) {
        let begun = if is_open { opening() } else { Vec::new() };
        pppoe(&[begun, steps.concat()].concat());
    }
}

#[test]
fn a_session_can_be_opened_by_steps() {
    let mut link = Link::new();
    link.carrier(true);
    for step in [&[0][..], &[1, 1], &[3, 0], &[6, 0], &[6, 3, 3, 6, 10, 0, 0, 1], &[3, 3]] {
        link.step(step[0], &step[1..]);
    }
    assert!(link.client.session().is_some(), "{:?}", link.client);
}
