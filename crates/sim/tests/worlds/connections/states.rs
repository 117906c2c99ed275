//! States of connections, observed at both hosts again and again: SYN cache entries, connections, and
//! TIME-WAIT entries, one after the other on the CPU that owns them.

use std::collections::{BTreeMap, BTreeSet};

use State::*;
use net::tcp::tcb::{State, transitions};

use super::*;

/// State transitions of an orderly life.
const LIFE: [(State, State); 13] = [
    (Closed, SynSent),
    (Closed, SynReceived),
    (SynSent, Established),
    (SynReceived, Established),
    (Established, FinWait1),
    (Established, CloseWait),
    (FinWait1, FinWait2),
    (FinWait1, Closing),
    (FinWait2, TimeWait),
    (Closing, TimeWait),
    (CloseWait, LastAck),
    (LastAck, Closed),
    (TimeWait, Closed),
];

/// A connection on one host: the host, the CPU, and its addresses.
type Key = (usize, usize, SocketAddr, SocketAddr);

/// The observer.
#[derive(Default)]
struct Watcher {
    last: BTreeMap<Key, State>,
    seen: BTreeSet<(State, State)>,
}

impl Watcher {
    fn look(&mut self, talks: &mut Talks) {
        let mut now = BTreeMap::new();
        for (number, host) in [talks.client, talks.server].into_iter().enumerate() {
            for (at, cpu) in talks.world.of(host).cpus.iter().enumerate() {
                let pcbs = cpu.netisr.cpu.tcp.as_ref();
                let all = pcbs.map(|pcbs| pcbs.page(0, tcp::PER_PAGE, None)).unwrap_or_default();
                assert_eq!(all.1, None, "few enough for one page");
                now.extend(
                    all.0.iter().map(|it| ((number, at, it.ends.local(), it.ends.remote()), it.state)),
                );
            }
        }
        for key in self.last.keys().chain(now.keys()).copied().collect::<BTreeSet<_>>() {
            let [from, to] = [&self.last, &now].map(|all| all.get(&key).copied().unwrap_or(Closed));
            if from != to {
                // Where there is a listener, a copy of a SYN may come behind the end of its connection.
                let is_anew = key.0 == 1 && to == SynReceived && leads(from, Closed);
                assert!(leads(from, to) || is_anew, "{key:?} went from {from:?} to {to:?}");
                self.seen.insert((from, to));
            }
        }
        self.last = now;
    }
}

/// Whether one or more changes that are drawn lead from one state to the other. What has ended does not begin again.
fn leads(from: State, to: State) -> bool {
    let mut reached = BTreeSet::from([from]);
    loop {
        let starts = |state: &State| reached.contains(state) && (*state == from || *state != Closed);
        let more: BTreeSet<_> = transitions().filter(|(of, ..)| starts(of)).map(|(.., to)| to).collect();
        if more.is_subset(&reached) {
            return reached.contains(&to);
        }
        reached.extend(more);
    }
}

#[test]
fn connections_of_whole_hosts_go_by_the_states_that_are_drawn_and_by_no_others() {
    let mut watcher = Watcher::default();
    for (shape, seed) in
        Shape::doubling().into_iter().flat_map(|shape| seeds(2).map(move |seed| (shape, seed)))
    {
        let (delay, loss, odd) = (2 * MS, 20_000, 10_000);
        let spec = cable::Spec { delay, loss, duplicate: odd, reorder: odd, ..cable::Spec::default() };
        let mut talks = Talks::new("states", seed, shape, spec);
        for number in 0..16 {
            let amounts = [(0, 0), (1, 60_000), (60_000, 1), (2000, 2000)];
            talks.begin(number, Family::BOTH[number % 2], amounts[number / 2 % 4]);
        }
        let is_over =
            |talks: &Talks| talks.talks.values().all(|talk| talk.client.is_none() && talk.server.is_none());
        let until = talks.world.now() + Duration::from_secs(300);
        while talks.world.now() < until && !(is_over(&talks) && watcher.last.is_empty()) {
            let step = if is_over(&talks) { 100 * MS } else { MS / 4 };
            talks.world.run_for(step);
            talks.pump();
            watcher.look(&mut talks);
        }
        assert!(watcher.last.is_empty(), "{:?}", watcher.last);
        talks.end();
    }
    let missed: Vec<_> = LIFE.into_iter().filter(|change| !watcher.seen.contains(change)).collect();
    assert!(missed.is_empty(), "never seen: {missed:?}");
}
