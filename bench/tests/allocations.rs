//! No packet and no connection asks for memory, once there is as much of everything as is used at a time; of the web server's
//! requests each asks for what is named here. Alone in this program, because its allocator counts.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use core::time::Duration;

use allocation_counter::{AllocationInfo, measure};
use bench::cable::Kind;
use bench::frames::Family;
use bench::router::Router;
use bench::short::{Behind, PORT, Pace, Pairs, Serves, Wanted};

const FAMILIES: [Family; 2] = [Family::Ip4, Family::Ip6];
const CONCURRENT: usize = 16;
/// Turns of 50 µs until what ended first is forgotten and its place is used again, and as many that are counted.
const TURNS: usize = 10_000;

/// How often a request to the web server asks for memory: the name of the file thrice (decoded, in parts, put together), the
/// head of the answer twice (it grows), the date of the file, its tag twice, and the record of what is being sent.
const WEB_REQUEST: u64 = 9;
/// How often one on a connection of its own does: the head does not grow, but the ring of what is sent is made for the head,
/// and made anew for what follows.
const WEB_CONNECTION: u64 = 10;
/// The date of answers, which is made anew each second: as many pass while it is counted, and as many may begin.
const WEB_SECONDS: u64 = 2;

/// How often memory may be asked for.
fn allowed(serves: Serves, each: u64, count: usize) -> u64 {
    match serves {
        Serves::Web => each * u64::try_from(count + CONCURRENT).unwrap() + WEB_SECONDS,
        Serves::Least | Serves::Stream => 0,
    }
}

/// How often memory was asked for, by this thread.
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
    each_asks_for_no_more_than(WEB_REQUEST, Behind::Ask);
}

#[test]
fn connections_that_come_and_go_ask_for_no_memory() {
    each_asks_for_no_more_than(WEB_CONNECTION, Behind::Close);
}

/// What a server that does the least asks for is nothing; the web server is allowed `web` for each answer.
fn each_asks_for_no_more_than(web: u64, behind: Behind) {
    for family in FAMILIES {
        for serves in [Serves::Least, Serves::Web] {
            let mut pairs = pairs(family, behind, serves);
            answered(&mut pairs);
            let (count, asked) = answered(&mut pairs);
            assert!(count > 1000, "{count}");
            assert!(
                asked <= allowed(serves, web, count),
                "{asked} for {count} answers: {family:?}, {serves:?}, {behind:?}"
            );
        }
    }
}
