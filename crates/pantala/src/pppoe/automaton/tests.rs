use super::*;

/// A protocol with one option of one byte, of which values up to `most` are acceptable.
struct One {
    value: u8,
    most: u8,
}

impl Protocol for One {
    fn wanted(&self) -> Vec<u8> {
        option(1, &[self.value])
    }

    fn judge(&mut self, options: Options<'_>) -> Verdict {
        match options.iter().find(|(kind, _)| *kind != 1) {
            Some((kind, value)) => Verdict::Reject(option(kind, value)),
            None if options.get(1).is_some_and(|value| value > &[self.most][..]) => {
                Verdict::Nak(option(1, &[self.most]))
            }
            None => Verdict::Ack,
        }
    }

    fn nak(&mut self, options: Options<'_>) -> bool {
        self.value = options.get(1).and_then(|value| value.first()).copied().unwrap_or(self.value);
        true
    }

    fn reject(&mut self, _: Options<'_>) -> bool {
        false
    }
}

fn view(bytes: &[u8]) -> View<'_> {
    View::parse(bytes).unwrap()
}

/// Brings what one has sent to the other until both are silent; returns the events of both.
fn talk(
    a: (&mut Automaton, &mut One),
    b: (&mut Automaton, &mut One),
    mut to_b: Vec<Vec<u8>>,
    mut to_a: Vec<Vec<u8>>,
) -> [Vec<Event>; 2] {
    let mut events = [Vec::new(), Vec::new()];
    while !to_a.is_empty() || !to_b.is_empty() {
        for bytes in core::mem::take(&mut to_b) {
            let reaction = b.0.arrived(&view(&bytes), b.1, 0);
            to_a.extend(reaction.send);
            events[1].extend(reaction.events);
        }
        for bytes in core::mem::take(&mut to_a) {
            let reaction = a.0.arrived(&view(&bytes), a.1, 0);
            to_b.extend(reaction.send);
            events[0].extend(reaction.events);
        }
    }
    events
}

#[test]
fn two_automata_agree_on_what_both_accept() {
    let (mut a, mut b) = (Automaton::default(), Automaton::default());
    let (mut one, mut other) = (One { value: 9, most: 5 }, One { value: 7, most: 5 });
    let (first, second) = (a.open(&one, 0).send, b.open(&other, 0).send);
    let events = talk((&mut a, &mut one), (&mut b, &mut other), first, second);
    assert_eq!(events, [[Event::Up], [Event::Up]]);
    assert_eq!((one.value, other.value), (5, 5));
    assert!(a.is_open() && b.is_open() && a.at == u64::MAX);
}

#[test]
fn a_request_is_sent_ten_times_and_then_the_peer_is_given_up() {
    let (mut own, one) = (Automaton::default(), One { value: 1, most: 1 });
    let mut sent = own.open(&one, 0).send.len();
    let (events, now) = loop {
        let now = own.at;
        let reaction = own.due(now);
        sent += reaction.send.len();
        if !reaction.events.is_empty() {
            break (reaction.events, now);
        }
    };
    assert_eq!((sent, now), (10, 30_000));
    assert_eq!((events, own.state), (vec![Event::Finished(Why::Timeout)], State::Stopped));
}

#[test]
fn what_is_not_acceptable_time_and_again_is_rejected() {
    let (mut own, mut one) = (Automaton::default(), One { value: 1, most: 1 });
    own.open(&one, 0);
    let answers: Vec<u8> = (0..7)
        .map(|id| {
            let request = packet(code::CONFIGURE_REQUEST, id, &option(1, &[200]));
            own.arrived(&view(&request), &mut one, 0).send[0][0]
        })
        .collect();
    assert_eq!(answers, [3, 3, 3, 3, 3, 4, 4]);
    let request = packet(code::CONFIGURE_REQUEST, 9, &[option(1, &[1]), option(7, &[])].concat());
    let answer = own.arrived(&view(&request), &mut one, 0).send;
    assert_eq!(answer, [packet(code::CONFIGURE_REJECT, 9, &option(7, &[]))], "an unknown option");
}

#[test]
fn only_an_answer_to_the_last_request_with_its_options_is_believed() {
    let (mut own, mut one) = (Automaton::default(), One { value: 1, most: 1 });
    let request = own.open(&one, 0).send.remove(0);
    let id = request[1];
    for (code, id, data) in [
        (code::CONFIGURE_ACK, id.wrapping_add(1), option(1, &[1])),
        (code::CONFIGURE_ACK, id, option(1, &[2])),
        (code::CONFIGURE_NAK, id.wrapping_sub(1), option(1, &[1])),
    ] {
        assert_eq!(own.arrived(&view(&packet(code, id, &data)), &mut one, 0), Reaction::default());
        assert_eq!(own.state, State::ReqSent);
    }
    own.arrived(&view(&packet(code::CONFIGURE_ACK, id, &option(1, &[1]))), &mut one, 0);
    assert_eq!(own.state, State::AckRcvd);
}

#[test]
fn a_terminated_layer_is_begun_again_by_the_peer_and_one_that_was_closed_is_not() {
    let (mut a, mut b) = (Automaton::default(), Automaton::default());
    let (mut one, mut other) = (One { value: 1, most: 1 }, One { value: 1, most: 1 });
    let (first, second) = (a.open(&one, 0).send, b.open(&other, 0).send);
    talk((&mut a, &mut one), (&mut b, &mut other), first, second);
    let ended = a.arrived(&view(&packet(code::TERMINATE_REQUEST, 3, &[])), &mut one, 0);
    assert_eq!(ended.send, [packet(code::TERMINATE_ACK, 3, &[])]);
    assert_eq!(ended.events, [Event::Finished(Why::Terminated)]);
    let request = packet(code::CONFIGURE_REQUEST, 4, &option(1, &[1]));
    let again = a.arrived(&view(&request), &mut one, 0);
    assert_eq!((again.send.len(), a.state), (2, State::AckSent), "its own request, and the answer");
    a.close();
    let refused = a.arrived(&view(&request), &mut one, 0);
    assert_eq!((refused.send, a.state), (vec![packet(code::TERMINATE_ACK, 4, &[])], State::Closed));
}
