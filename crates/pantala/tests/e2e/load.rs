//! Overload: goodput, latency of replies, and doorbells.

use core::time::Duration;
use std::time::Instant;

use sim::builder::{self, Ip};
use testbed::flood::{FRAME_LEN, Flood, Frames, Pace, Varied};
use testbed::sink::Sink;
use wire::ether::{EtherType, Header, Mac};

use crate::lab::{Attach, Family, Host, Lab, Link};
use crate::socket::ping;
use crate::wait::{until, until_right};

/// Frames that a ring of the AF_XDP driver lends to the kernel at the most.
const RING_LEN: u64 = 2048;

/// A generator at the first host, and a sink at the second, for one family.
struct Load<'l> {
    from: &'l Host,
    flood: Flood,
    sink: Sink,
    /// A veth takes frames from programs only if it has one itself.
    _needed: Sink,
}

/// Frames sent and received.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    sent: u64,
    came: u64,
}

impl<'l> Load<'l> {
    fn new(lab: &'l Lab, family: Family) -> Self {
        let (from, to) = lab.pair();
        // Now everybody knows everybody.
        assert_eq!(ping(&from.netns, to.addr(family), 1), 1);
        let index = |host: &Host| host.netns.netlink().unwrap().link(&host.inside()).unwrap().index;
        let sink_at = |host: &Host| host.netns.run(|| Sink::attach(index(host))).unwrap().unwrap();
        let (needed, sink) = (sink_at(from), sink_at(to));
        let flood = Flood::new(index(from), &frames(lab, family)).unwrap();
        let load = Self { from, flood, sink, _needed: needed };
        load.pace(Pace::ALL);
        load
    }

    fn pace(&self, share: u16) {
        self.flood.set_pace(Pace { share, flows: 0, to: 0 }).unwrap();
    }

    /// Makes `frames` frames, of which as many are sent as the pace says.
    fn send(&self, frames: u32) {
        self.from.netns.run(|| self.flood.run(frames, 64)).unwrap().unwrap();
    }

    fn counts(&self) -> Counts {
        Counts { sent: self.flood.sent().unwrap(), came: self.sink.received().unwrap() }
    }

    /// Sends for a while; answers what came of it.
    fn send_for(&self, time: Duration) -> Outcome {
        let (before, begun) = (self.counts(), Instant::now());
        while begun.elapsed() < time {
            self.send(200_000);
        }
        let (after, took) = (self.counts(), begun.elapsed());
        let came = after.came - before.came;
        Outcome { sent: after.sent - before.sent, came, rate: came as f64 / took.as_secs_f64() }
    }
}

/// The result of a load.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    sent: u64,
    came: u64,
    /// Frames that came, for each second.
    rate: f64,
}

/// Small datagrams from the first host to the second.
fn frames(lab: &Lab, family: Family) -> Frames {
    let (from, to) = lab.pair();
    let mut router = lab.router.netlink().unwrap();
    let mac = |link: dev::netlink::Link| Mac(link.mac.unwrap());
    let header = Header {
        dst: mac(router.link(&from.outside()).unwrap()),
        src: mac(from.netns.netlink().unwrap().link(&from.inside()).unwrap()),
        ethertype: family.pick(EtherType::IPV4, EtherType::IPV6),
    };
    let payload = FRAME_LEN - 14 - family.pick(20, 40) - 8;
    let packet = builder::udp(Ip::new(from.addr(family), to.addr(family)), [9, 9], &vec![0; payload]);
    let mut template = [0; FRAME_LEN];
    template[..14].copy_from_slice(&header.to_bytes());
    template[14..].copy_from_slice(&packet);
    // Nothing varies: what is written there is 0 and its complement, in the data, whose checksum is not verified.
    let still = Varied { at: 62, complement_at: 62 };
    Frames { template, flow: still, to: still }
}

fn doorbells(lab: &Lab) -> u64 {
    lab.pantala().interface("if2").counters.doorbells
}

fn a_doorbell_serves_many_packets_under_load_and_one_where_there_is_one() {
    const SINGLES: u64 = 20;
    let links = [Attach::Native, Attach::Native].map(Link::new);
    let Some(lab) =
        Lab::start("load::a_doorbell_serves_many_packets_under_load_and_one_where_there_is_one", &links)
    else {
        return;
    };
    lab.both(|family| {
        let load = Load::new(&lab, family);
        let (rung, before) = (doorbells(&lab), load.counts().came);
        for single in 1..=SINGLES {
            load.send(1);
            until("one arrives", || (load.counts().came == before + single).then_some(()));
        }
        // Neighbours may have been asked whether they are still there.
        let rings = doorbells(&lab) - rung;
        assert!((SINGLES..=SINGLES + 2).contains(&rings), "{rings} doorbells for {SINGLES} packets");
        let rung = doorbells(&lab);
        let many = load.send_for(Duration::from_millis(300));
        let rings = doorbells(&lab) - rung;
        assert!(many.came > 1000 && rings * 16 <= many.came, "{rings} doorbells for {many:?}");
        assert!(many.came <= many.sent);
    });
}

fn overload_bends_the_rate_and_breaks_nothing() {
    let links = [Attach::Native, Attach::Native].map(Link::new);
    let Some(lab) = Lab::start("load::overload_bends_the_rate_and_breaks_nothing", &links) else { return };
    lab.both(|family| {
        let load = Load::new(&lab, family);
        let lighter = [32, 16, 8, 4, 2].map(|part| {
            load.pace(Pace::ALL / part);
            load.send_for(Duration::from_millis(150))
        });
        load.pace(Pace::ALL);
        let all = std::thread::scope(|scope| {
            let flood = scope.spawn(|| [(); 3].map(|()| load.send_for(Duration::from_millis(200))));
            let other = &lab.hosts[1];
            assert_eq!(ping(&other.netns, other.router(family), 3), 3, "control answers meanwhile");
            flood.join().unwrap()
        });
        // A broken router delivers next to nothing; a machine that others use too may well be three times slower for a while.
        let best = |outcomes: &[Outcome]| outcomes.iter().map(|outcome| outcome.rate).fold(0.0, f64::max);
        assert!(best(&all) > best(&lighter) / 4.0, "{all:?}, and with less {lighter:?}");
        everything_is_well_afterwards(&lab, &load);
    });
}

/// A low load now arrives, and all buffers are free or with the kernel.
fn everything_is_well_afterwards(lab: &Lab, load: &Load<'_>) {
    let rings = RING_LEN * lab.hosts.len() as u64;
    let pools = || -> Vec<pantala::api::Pool> { lab.pantala().pools() };
    until_right("all buffers are back", pools, |pools| {
        let sum = |read: fn(&pantala::api::Pool) -> u64| pools.iter().map(read).sum::<u64>();
        sum(|pool| pool.free + pool.in_rings) == sum(|pool| pool.buffers)
            && sum(|pool| pool.in_rings) <= rings
    });
    let before = load.counts();
    load.send(640);
    until_right(
        "a few more arrive",
        || load.counts(),
        |now| now.came - before.came == 640 && now.sent - before.sent == 640,
    );
}

harness::tests![
    a_doorbell_serves_many_packets_under_load_and_one_where_there_is_one,
    overload_bends_the_rate_and_breaks_nothing,
];
