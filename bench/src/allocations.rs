//! No packet, no connection and no request to the web server asks for memory, once there is as much of everything as is used
//! at a time. The allocator of these tests counts what each thread asks for.

use core::time::Duration;

use allocation_counter::{AllocationInfo, measure};

use crate::cable::Kind;
use crate::frames::Family;
use crate::router::Router;
use crate::short::{Behind, PORT, Pace, Pairs, Serves, Wanted};

const FAMILIES: [Family; 2] = [Family::Ip4, Family::Ip6];
const CONCURRENT: usize = 16;
/// Turns of 50 µs until what ended first is forgotten and its place is used again, and as many that are counted.
const TURNS: usize = 10_000;

/// Counts the allocations of this thread.
fn asked(what: impl FnOnce()) -> u64 {
    let AllocationInfo { count_total, .. } = measure(what);
    count_total
}

fn pairs(family: Family, behind: Behind, serves: Serves) -> Pairs {
    let (msl, span) = (Duration::from_millis(20), Duration::from_micros(50));
    let pace = Pace::Concurrent(CONCURRENT);
    let wanted = Wanted { family, cpus: 1, cable: Kind::Plain, pace, behind, serves, port: PORT, msl, span };
    Pairs::new(&wanted).unwrap()
}

/// Answers that came in so many turns, and how often memory was asked for.
fn answered(pairs: &mut Pairs) -> (usize, u64) {
    pairs.cpus[0].seen();
    let asked = asked(|| pairs.turn(TURNS, |server, now| _ = server.turn(now)));
    (pairs.cpus[0].seen().answered, asked)
}

#[test]
fn to_forward_a_packet_asks_for_no_memory() {
    for family in FAMILIES {
        let mut router = Router::new(family).unwrap();
        router.forward(10, 256);
        let asked = asked(|| assert_eq!(router.forward(100, 256), 110 * 256));
        assert_eq!(asked, 0, "{family:?}");
    }
}

#[test]
fn requests_on_connections_that_stay_ask_for_no_memory() {
    no_answer_asks(Behind::Ask);
}

#[test]
fn connections_that_come_and_go_ask_for_no_memory() {
    no_answer_asks(Behind::Close);
}

fn no_answer_asks(behind: Behind) {
    for family in FAMILIES {
        for serves in [Serves::Least, Serves::Web] {
            let mut pairs = pairs(family, behind, serves);
            answered(&mut pairs);
            let (count, asked) = answered(&mut pairs);
            assert!(count > 1000, "{count}");
            assert_eq!(asked, 0, "of {count} answers: {family:?}, {serves:?}, {behind:?}");
        }
    }
}
