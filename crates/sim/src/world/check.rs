//! What must hold in every world.

use net::count::Count;
use net::time::Duration;

use super::World;
use crate::host::Host;
use crate::station::Station;

/// How long a world may need to come to rest: longer than any timeout of the stack.
const REST_MAX: Duration = Duration::from_secs(200);
/// How often CPUs are asked to turn meanwhile.
const REST_STEP: Duration = Duration::from_millis(500);

/// What is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Check {
    /// Free buffers, and those in rings, are all that there are.
    Conservation,
    /// No handle of a buffer is dropped.
    Leak,
    /// Every packet received was sent or dropped for a reason.
    Accounting,
    /// Packets are handled by the CPU that owns them.
    Ownership,
    /// Flows keep their order, and nothing arrives twice.
    Order,
    /// What flows lose was dropped somewhere, for a reason.
    Loss,
    /// Cards get what they can do, cables what they can carry.
    Device,
    /// When all is well again, everybody is reached.
    Reach,
    /// Stations hear nothing that is wrong.
    Nonsense,
}

/// Something that should hold, and does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// What.
    pub check: Check,
    /// In words.
    pub text: String,
}

impl World {
    /// Lets the world come to rest: nobody sends any more, and no packet is in the stack or on a cable. Answers
    /// whether it did.
    ///
    /// Dead buffers on their way home wake nobody, so CPUs are asked to turn now and then.
    pub fn settle(&mut self) -> bool {
        let until = self.now + REST_MAX;
        while !self.is_at_rest() && self.now < until {
            self.run_for(REST_STEP);
            for host in &self.hosts {
                (0..host.cpus.len()).for_each(|cpu| _ = host.call(cpu, |_| {}));
            }
        }
        self.is_at_rest()
    }

    /// Lets the world come to rest, and answers what is wrong with it then.
    #[must_use]
    pub fn check(&mut self) -> Vec<Broken> {
        self.settle();
        let mut broken = Vec::new();
        for host in &self.hosts {
            conservation(host, &mut broken);
            accounting(host, &mut broken);
            ownership(host, &mut broken);
            devices(host, &mut broken);
        }
        self.cables_carried_all(&mut broken);
        self.flows_kept_their_order(&mut broken);
        self.losses_have_a_reason(&mut broken);
        if !self.makes_nonsense() {
            let complaints = self.stations.iter().flat_map(|station| &station.complaints);
            complaints.for_each(|text| note(&mut broken, Check::Nonsense, text.clone()));
        }
        self.end(&mut broken);
        broken
    }

    fn is_at_rest(&self) -> bool {
        self.events.is_empty()
            && self.stations.iter().all(Station::is_idle)
            && self
                .hosts
                .iter()
                .all(|host| host.outstanding() == 0 && !host.nics.iter().any(|nic| nic.has_to_transmit()))
    }

    fn makes_nonsense(&self) -> bool {
        self.allow.nonsense || self.cables.iter().any(|cable| cable.spec.corrupt > 0)
    }

    fn cables_carried_all(&self, broken: &mut Vec<Broken>) {
        for (at, cable) in self.cables.iter().enumerate().filter(|_| !self.makes_nonsense()) {
            let oversized = cable.counts.oversized;
            if oversized > 0 {
                let text = format!("cable {at}: {oversized} frames longer than its MTU {}", cable.spec.mtu);
                note(broken, Check::Device, text);
            }
        }
    }

    fn flows_kept_their_order(&self, broken: &mut Vec<Broken>) {
        if self.allow.disorder || !self.cables.iter().all(|cable| cable.spec.is_orderly()) {
            return;
        }
        for (at, (_, to, flow)) in (0..).zip(&self.flows) {
            let tally = self.stations[to.0].tally(crate::station::FlowId(at));
            if tally.late + tally.duplicates > 0 {
                let (late, twice) = (tally.late, tally.duplicates);
                note(broken, Check::Order, format!("flow {at} to {}: {late} late, {twice} twice", flow.to));
            }
        }
    }

    /// Each datagram that is missing was lost on a cable, in a card, or was dropped by a host.
    fn losses_have_a_reason(&self, broken: &mut Vec<Broken>) {
        if self.allow.loss || self.allow.nonsense {
            return;
        }
        let missing: u64 = (0..)
            .zip(&self.flows)
            .map(|(at, (_, to, flow))| {
                let tally = self.stations[to.0].tally(crate::station::FlowId(at));
                u64::from(flow.count - tally.received)
            })
            .sum();
        let cables = self.cables.iter().map(|cable| cable.counts);
        let cables: u64 = cables.map(|counts| counts.lost + counts.oversized + counts.corrupted).sum();
        let cards = self.hosts.iter().flat_map(|host| &host.nics).map(crate::mem::Nic::counts);
        let cards: u64 =
            cards.map(|counts| counts.dropped + counts.too_long + counts.refused + counts.unplugged).sum();
        let hosts: u64 = self.hosts.iter().map(Host::dropped_in_all).sum();
        let stations: u64 = self.stations.iter().map(|station| station.lost).sum();
        if missing > cables + cards + hosts + stations {
            let known =
                format!("{cables} lost on cables, {cards} in cards, {hosts} dropped, {stations} unsent");
            note(broken, Check::Loss, format!("{missing} datagrams are missing; {known}"));
        }
    }

    fn end(&mut self, broken: &mut Vec<Broken>) {
        for host in &mut self.hosts {
            host.shut_down();
            let lost = host.outstanding();
            if lost != 0 {
                note(
                    broken,
                    Check::Conservation,
                    format!("{}: {lost} buffers missing at its end", host.spec.name),
                );
            }
        }
    }
}

fn conservation(host: &Host, broken: &mut Vec<Broken>) {
    let (name, outstanding, leaked) = (&host.spec.name, host.outstanding(), host.leaked());
    if outstanding != 0 {
        let text = format!("{name}: {outstanding} of {} buffers are nowhere at rest", host.buffers());
        note(broken, Check::Conservation, text);
    }
    if leaked != 0 {
        note(broken, Check::Leak, format!("{name}: {leaked} handles were dropped"));
    }
}

/// What came in went out or was dropped; what reassembly joined counts as one.
fn accounting(host: &Host, broken: &mut Vec<Broken>) {
    let joined = host.count(Count::Ip4FragmentsIn) + host.count(Count::Ip6FragmentsIn);
    let (received, sent) = (host.count(Count::RxPackets), host.count(Count::TxPackets));
    let dropped = host.dropped_in_all();
    let taken = host.count(Count::UdpTaken) + host.count(Count::TcpTaken);
    if received > sent + dropped + joined + taken {
        let known = format!("{sent} sent, {dropped} dropped, {joined} joined, {taken} taken");
        note(broken, Check::Accounting, format!("{}: {received} received, but {known}", host.spec.name));
    }
}

fn ownership(host: &Host, broken: &mut Vec<Broken>) {
    let strays = host.count(Count::Strays);
    if strays > 0 {
        let text =
            format!("{}: {strays} packets were handled by a CPU that does not own them", host.spec.name);
        note(broken, Check::Ownership, text);
    }
}

fn devices(host: &Host, broken: &mut Vec<Broken>) {
    for misuse in host.nics.iter().flat_map(crate::mem::Nic::misuse) {
        note(broken, Check::Device, format!("{}: {misuse}", host.spec.name));
    }
}

fn note(broken: &mut Vec<Broken>, check: Check, text: String) {
    broken.push(Broken { check, text });
}
