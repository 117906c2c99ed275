use std::collections::VecDeque;

use wire::Mac;

use super::*;

/// Bridges, and the links between their ports. Units take their time, in no order between links.
struct Net {
    trees: Vec<Tree>,
    /// The ends of each link: bridge and port.
    links: Vec<Vec<(usize, usize)>>,
    /// Units under way on each link.
    under_way: Vec<VecDeque<(usize, Bpdu)>>,
    states: Vec<Vec<State>>,
    is_up: Vec<bool>,
    flushed: Vec<usize>,
    seed: u64,
    /// Whether two ways between bridges were open at once.
    had_loop: bool,
}

fn mac(bridge: usize) -> Mac {
    Mac([2, 0, 0, 0, 0, u8::try_from(bridge + 1).unwrap()])
}

impl Net {
    fn new(settings: &[Settings], links: Vec<Vec<(usize, usize)>>, seed: u64) -> Self {
        let ports = |bridge: usize| {
            let used = links.iter().flatten().filter(|(of, _)| *of == bridge);
            used.map(|(_, port)| port + 1).max().unwrap_or(0)
        };
        let point_to_point = |bridge: usize, port: usize| {
            links.iter().find(|link| link.contains(&(bridge, port))).is_none_or(|link| link.len() <= 2)
        };
        let of_port = |bridge, port| PortSettings {
            is_point_to_point: point_to_point(bridge, port),
            ..PortSettings::default()
        };
        let tree = |(bridge, settings): (usize, &Settings)| {
            let ports: Vec<_> = (0..ports(bridge)).map(|port| of_port(bridge, port)).collect();
            Tree::new(mac(bridge), *settings, &ports)
        };
        let trees: Vec<_> = settings.iter().enumerate().map(tree).collect();
        let states = trees.iter().map(|tree| vec![State::Discarding; tree.ports.len()]).collect();
        let count = links.len();
        Self {
            trees,
            under_way: vec![VecDeque::new(); count],
            is_up: vec![false; count],
            links,
            states,
            flushed: vec![0; settings.len()],
            seed: seed.wrapping_mul(2).wrapping_add(1),
            had_loop: false,
        }
    }

    fn random(&mut self, below: usize) -> usize {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        usize::try_from(self.seed % u64::try_from(below.max(1)).unwrap()).unwrap()
    }

    fn set_link(&mut self, link: usize, is_up: bool) {
        self.is_up[link] = is_up;
        self.under_way[link].clear();
        for (bridge, port) in self.links[link].clone() {
            self.trees[bridge].enable(port, is_up);
            self.take_effects(bridge);
        }
        self.deliver();
    }

    fn take_effects(&mut self, bridge: usize) {
        let effects: Vec<_> = self.trees[bridge].effects().collect();
        for effect in effects {
            match effect {
                Effect::State(port, state) => {
                    self.states[bridge][port] = state;
                    self.had_loop |= self.has_loop();
                }
                Effect::Flush(_) => self.flushed[bridge] += 1,
                Effect::Send(port, bpdu) => {
                    let link = self.links.iter().position(|link| link.contains(&(bridge, port)));
                    if let Some(link) = link.filter(|link| self.is_up[*link]) {
                        self.under_way[link].push_back((bridge * 100 + port, bpdu));
                    }
                }
            }
        }
    }

    /// Delivers all units, those of a link in their order.
    fn deliver(&mut self) {
        for _ in 0..100_000 {
            let busy: Vec<_> =
                (0..self.links.len()).filter(|link| !self.under_way[*link].is_empty()).collect();
            if busy.is_empty() {
                return;
            }
            let link = busy[self.random(busy.len())];
            let Some((from, bpdu)) = self.under_way[link].pop_front() else { continue };
            for (bridge, port) in self.links[link].clone() {
                // A bridge of the older protocol does not know the units of the other one.
                let is_known = !self.trees[bridge].settings.is_stp || !matches!(bpdu, Bpdu::Rst(_));
                if bridge * 100 + port != from && is_known {
                    self.trees[bridge].receive(port, bpdu);
                    self.take_effects(bridge);
                }
            }
        }
        panic!("units without end");
    }

    fn tick(&mut self) {
        let first = self.random(self.trees.len());
        for at in 0..self.trees.len() {
            let bridge = (first + at) % self.trees.len();
            self.trees[bridge].tick();
            self.take_effects(bridge);
        }
        self.deliver();
    }

    /// Edges between bridges and links by which frames go.
    fn open(&self) -> Vec<(usize, usize)> {
        let ends = self.links.iter().enumerate().filter(|(link, _)| self.is_up[*link]);
        let ends = ends.flat_map(|(link, ends)| ends.iter().map(move |end| (link, *end)));
        let open = ends.filter(|(_, (bridge, port))| self.states[*bridge][*port] == State::Forwarding);
        open.map(|(link, (bridge, _))| (bridge, self.trees.len() + link)).collect()
    }

    /// Groups of bridges and links that edges connect, and whether there is a loop among them.
    fn groups(&self, edges: &[(usize, usize)]) -> (Vec<usize>, bool) {
        let mut group: Vec<usize> = (0..self.trees.len() + self.links.len()).collect();
        let mut has_loop = false;
        for (a, b) in edges {
            let (a, b) = (group[*a], group[*b]);
            has_loop |= a == b;
            group.iter_mut().filter(|one| **one == b).for_each(|one| *one = a);
        }
        (group, has_loop)
    }

    fn has_loop(&self) -> bool {
        self.groups(&self.open()).1
    }

    /// Whether frames reach all bridges that links connect, by one way each.
    fn is_tree(&self) -> bool {
        let all = self.links.iter().enumerate().filter(|(link, _)| self.is_up[*link]);
        let all = all
            .flat_map(|(link, ends)| ends.iter().map(move |(bridge, _)| (*bridge, self.trees.len() + link)));
        let (wanted, _) = self.groups(&all.collect::<Vec<_>>());
        let (open, has_loop) = self.groups(&self.open());
        let bridges = 0..self.trees.len();
        let is_reached = |a: usize, b: usize| wanted[a] != wanted[b] || open[a] == open[b];
        !has_loop && bridges.clone().all(|a| bridges.clone().all(|b| is_reached(a, b)))
    }

    /// Seconds until it is a tree, and stays one.
    fn converges_within(&mut self, most: usize) -> Option<usize> {
        let mut since = None;
        for second in 0..=most + 10 {
            since = if self.is_tree() { since.or(Some(second)) } else { None };
            self.tick();
        }
        since.filter(|since| *since <= most)
    }

    fn describe(&self) -> String {
        let bridge = |(at, tree): (usize, &Tree)| {
            let ports = (0..tree.ports.len()).filter_map(|port| tree.port(port));
            let ports: Vec<_> = ports.map(|port| format!("{:?}/{:?}", port.role, port.state)).collect();
            format!("{at}: root {:?} {}", tree.root(), ports.join(" "))
        };
        self.trees.iter().enumerate().map(bridge).collect::<Vec<_>>().join("\n")
    }
}

/// A ring of bridges.
fn ring(bridges: usize) -> Vec<Vec<(usize, usize)>> {
    (0..bridges).map(|at| vec![(at, 0), ((at + 1) % bridges, 1)]).collect()
}

/// Some links between bridges, and a LAN that several share.
fn mesh(bridges: usize, seed: u64) -> Vec<Vec<(usize, usize)>> {
    let mut ports = vec![0; bridges];
    let mut end = |bridge: usize| {
        ports[bridge] += 1;
        (bridge, ports[bridge] - 1)
    };
    let mut links: Vec<_> = (1..bridges).map(|at| vec![end(at), end(at / 2)]).collect();
    let mut seed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for _ in 0..bridges {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        let pick = |shift: u32| usize::try_from((seed >> shift) % u64::try_from(bridges).unwrap()).unwrap();
        links.push(vec![end(pick(3)), end(pick(23))]);
    }
    links.push((0..bridges.min(4)).map(end).collect());
    links
}

#[test]
fn rings_of_three_to_eight_bridges_become_trees_within_seconds_and_never_loop() {
    for bridges in 3..=8 {
        for seed in 0..40 {
            let mut net = Net::new(&vec![Settings::default(); bridges], ring(bridges), seed);
            (0..bridges).for_each(|link| net.set_link(link, true));
            let within = net.converges_within(4);
            assert!(within.is_some(), "{bridges} bridges, seed {seed}\n{}", net.describe());
            assert!(!net.had_loop, "{bridges} bridges, seed {seed}");
            let blocked = net.states.iter().flatten().filter(|state| **state != State::Forwarding).count();
            assert_eq!(blocked, 1, "one port of a ring is blocked");
        }
    }
}

#[test]
fn a_link_that_fails_is_replaced_at_once_and_stations_are_forgotten() {
    for bridges in 3..=8 {
        for failing in 0..bridges {
            for seed in 0..10 {
                let mut net = Net::new(&vec![Settings::default(); bridges], ring(bridges), seed);
                (0..bridges).for_each(|link| net.set_link(link, true));
                (0..60).for_each(|_| net.tick());
                let was_used = net.open().iter().filter(|(_, link)| *link == bridges + failing).count() == 2;
                let before = net.flushed.clone();
                net.set_link(failing, false);
                let within = net.converges_within(1);
                assert!(within.is_some(), "{bridges}, link {failing}, seed {seed}\n{}", net.describe());
                assert!(!net.had_loop);
                let flushed = net.flushed.iter().zip(before).filter(|(now, then)| *now > then).count();
                assert!(!was_used || flushed >= 2, "{flushed} bridges have flushed");
                net.set_link(failing, true);
                assert!(net.converges_within(8).is_some(), "it comes back\n{}", net.describe());
                assert!(!net.had_loop);
            }
        }
    }
}

#[test]
fn meshes_with_shared_lans_and_failing_links_end_as_trees() {
    for bridges in 3..=8 {
        for seed in 0..30 {
            let mut net = Net::new(&vec![Settings::default(); bridges], mesh(bridges, seed), seed);
            let links = net.links.len();
            (0..links).for_each(|link| net.set_link(link, true));
            assert!(net.converges_within(60).is_some(), "{bridges}, seed {seed}\n{}", net.describe());
            for _ in 0..12 {
                let link = net.random(links);
                let is_up = net.is_up[link];
                net.set_link(link, !is_up);
                net.tick();
            }
            assert!(net.converges_within(80).is_some(), "{bridges}, seed {seed}\n{}", net.describe());
        }
    }
}

#[test]
fn bridges_of_stp_and_rstp_find_one_tree_and_each_port_speaks_what_its_peer_does() {
    let stp = Settings { is_stp: true, ..Settings::default() };
    for bridges in 3..=6 {
        for which in 0..1usize << bridges {
            let settings: Vec<_> =
                (0..bridges).map(|at| if which >> at & 1 == 0 { Settings::default() } else { stp }).collect();
            let mut net = Net::new(&settings, ring(bridges), 7);
            (0..bridges).for_each(|link| net.set_link(link, true));
            assert!(net.converges_within(60).is_some(), "{bridges}, {which:b}\n{}", net.describe());
            for (link, ends) in net.links.iter().enumerate() {
                let all_rapid = ends.iter().all(|(bridge, _)| !settings[*bridge].is_stp);
                let speaks =
                    |(bridge, port): &(usize, usize)| net.trees[*bridge].port(*port).unwrap().is_rapid;
                assert!(ends.iter().all(|end| speaks(end) == all_rapid), "{bridges}, {which:b}, link {link}");
            }
        }
    }
}

#[test]
fn the_best_identifier_is_the_root_and_cost_then_bridge_then_port_decide_the_way() {
    let low = Settings { priority: 0x1000, ..Settings::default() };
    let mut net = Net::new(&[Settings::default(), Settings::default(), low], ring(3), 1);
    (0..3).for_each(|link| net.set_link(link, true));
    (0..5).for_each(|_| net.tick());
    let root = net.trees[2].id();
    assert!(net.trees.iter().all(|tree| tree.root().0 == root));
    assert_eq!(net.trees[0].root(), (root, COST, Some(1)), "directly");
    // Two links between two bridges: the lower port of the other end.
    let mut net = Net::new(&[Settings::default(); 2], vec![vec![(0, 1), (1, 0)], vec![(0, 0), (1, 1)]], 1);
    (0..2).for_each(|link| net.set_link(link, true));
    (0..5).for_each(|_| net.tick());
    assert_eq!(net.trees[1].root().2, Some(1));
    let role = |port| net.trees[1].port(port).unwrap().role;
    assert_eq!([role(0), role(1)], [Role::Alternate, Role::Root]);
    // Two ports on one LAN: the higher one is a backup.
    let mut net = Net::new(&[Settings::default()], vec![vec![(0, 0), (0, 1)]], 1);
    net.set_link(0, true);
    (0..5).for_each(|_| net.tick());
    let role = |port| net.trees[0].port(port).unwrap().role;
    assert_eq!([role(0), role(1)], [Role::Designated, Role::Backup]);
}

#[test]
fn received_information_is_classified_as_in_the_standard() {
    let id = |n: u8| BridgeId { priority: 0x8000, mac: Mac([2, 0, 0, 0, 0, n]) };
    let own = Vector { root: id(3), cost: 10, bridge: id(5), port: 0x8002 };
    let usual = bridge_times(&Settings::default());
    let port = Port { port_priority: own, port_times: usual, ..Port::default() };
    let config =
        |vector, times, role| Bpdu::Rst(Config { flags: Flags::default().with_role(role), vector, times });
    let designated = |vector| config(vector, usual, Said::Designated);
    let other_times = Times { max_age: 10 * SECOND, ..usual };
    let (better, worse) = (Vector { cost: 9, ..own }, Vector { bridge: id(6), ..own });
    let table = [
        (designated(Vector { root: id(2), ..own }), Info::SuperiorDesignated),
        (designated(better), Info::SuperiorDesignated),
        (designated(Vector { bridge: id(4), ..own }), Info::SuperiorDesignated),
        (designated(Vector { port: 0x8001, ..own }), Info::SuperiorDesignated),
        (designated(Vector { cost: 99, ..own }), Info::SuperiorDesignated),
        (designated(Vector { root: id(9), ..own }), Info::SuperiorDesignated),
        (config(own, other_times, Said::Designated), Info::SuperiorDesignated),
        (designated(own), Info::RepeatedDesignated),
        (designated(worse), Info::InferiorDesignated),
        (designated(Vector { port: 0x8003, ..own }), Info::InferiorDesignated),
        (config(worse, usual, Said::Root), Info::InferiorRootAlternate),
        (config(own, usual, Said::AlternateOrBackup), Info::InferiorRootAlternate),
        (config(better, usual, Said::Root), Info::Other),
        (config(worse, usual, Said::Unknown), Info::Other),
        (
            Bpdu::Config(Config { vector: better, times: usual, ..Config::default() }),
            Info::SuperiorDesignated,
        ),
        (Bpdu::Tcn, Info::Other),
    ];
    for (bpdu, info) in table {
        assert_eq!(port.clone().rcv_info(&bpdu), info, "{bpdu:?}");
    }
}

#[test]
fn a_port_without_a_bridge_forwards_after_the_migration_time_and_an_edge_port_at_once() {
    let ports = [
        PortSettings::default(),
        PortSettings { is_edge: true, ..PortSettings::default() },
        PortSettings { may_be_edge: false, ..PortSettings::default() },
    ];
    let mut tree = Tree::new(mac(0), Settings::default(), &ports);
    (0..3).for_each(|port| tree.enable(port, true));
    let states = |tree: &Tree| [0, 1, 2].map(|port| tree.port(port).unwrap().state);
    assert_eq!(states(&tree), [State::Discarding, State::Forwarding, State::Discarding]);
    (0..3).for_each(|_| tree.tick());
    assert_eq!(states(&tree)[0], State::Forwarding, "nothing was heard");
    (0..18).for_each(|_| tree.tick());
    assert_eq!(states(&tree)[2], State::Learning, "the maximum age has passed");
    (0..2).for_each(|_| tree.tick());
    assert_eq!(
        states(&tree)[2],
        State::Forwarding,
        "and the forward delay of the rapid protocol, a hello time"
    );
    let worse = BridgeId { priority: 0xf000, mac: mac(9) };
    let vector = Vector { root: worse, cost: 0, bridge: worse, port: 1 };
    let flags = Flags(Flags::PROPOSAL).with_role(Said::Designated);
    tree.receive(1, Bpdu::Rst(Config { flags, vector, times: bridge_times(&Settings::default()) }));
    assert!(!tree.port(1).unwrap().is_edge, "a bridge is there");
}

#[test]
fn no_more_units_are_sent_than_the_hold_count_allows_and_a_root_that_is_silent_is_forgotten() {
    let mut tree = Tree::new(mac(5), Settings::default(), &[PortSettings::default()]);
    tree.enable(0, true);
    let sent = |tree: &mut Tree| tree.effects().filter(|effect| matches!(effect, Effect::Send(..))).count();
    for round in 0u16..40 {
        // Ever another root, each a proposal.
        let root = BridgeId { priority: 0x4000 - round, mac: mac(1) };
        let vector = Vector { root, cost: 0, bridge: root, port: 1 };
        let flags = Flags(Flags::PROPOSAL).with_role(Said::Designated);
        tree.receive(0, Bpdu::Rst(Config { flags, vector, times: bridge_times(&Settings::default()) }));
    }
    assert!(sent(&mut tree) <= 6);
    assert_eq!(tree.root().2, Some(0));
    (0..5).for_each(|_| tree.tick());
    assert_eq!(tree.root().2, Some(0));
    (0..1).for_each(|_| tree.tick());
    assert_eq!(tree.root(), (tree.id(), 0, None), "three hello times");
    assert!(sent(&mut tree) <= 12);
}

#[test]
fn units_of_the_bridge_itself_and_old_ones_are_ignored() {
    let mut tree = Tree::new(mac(5), Settings::default(), &[PortSettings::default()]);
    tree.enable(0, true);
    let root = BridgeId { priority: 0, mac: mac(1) };
    let usual = bridge_times(&Settings::default());
    let config = |times| Config {
        vector: Vector { root, cost: 0, bridge: root, port: 1 },
        times,
        ..Config::default()
    };
    tree.receive(0, Bpdu::Config(config(Times { message_age: 20 * SECOND, ..usual })));
    assert_eq!(tree.root().2, None, "as old as the maximum");
    let own = Vector { root, cost: 0, bridge: tree.id(), port: 0x8001 };
    tree.receive(0, Bpdu::Config(Config { vector: own, ..config(usual) }));
    assert_eq!(tree.root().2, None, "its own");
    tree.receive(0, Bpdu::Config(config(usual)));
    assert_eq!(tree.root().2, Some(0));
}

#[test]
fn times_must_fit_each_other() {
    assert!(Settings::default().are_consistent());
    assert!(Settings { hello: 1, max_age: 6, forward_delay: 4, ..Settings::default() }.are_consistent());
    for wrong in [
        Settings { max_age: 29, ..Settings::default() },
        Settings { hello: 10, ..Settings::default() },
        Settings { forward_delay: 4, ..Settings::default() },
    ] {
        assert!(!wrong.are_consistent(), "{wrong:?}");
    }
}
