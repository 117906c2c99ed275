use ipfw::command::QueueLimit;

use super::*;
use crate::firewall::pipe::shared_rate::CHUNK;

/// CPUs that share a configuration, turned in the order of a seed.
struct Cpus {
    labs: Vec<Lab>,
    dice: Secret,
}

impl Cpus {
    fn new(cpus: u16, seed: u128, config: PipeConfig) -> Self {
        let mut labs: Vec<Lab> = (0..cpus).map(|id| Lab::of(CpuId(id), cpus)).collect();
        labs[0].config.set_pipe(1, &config).unwrap();
        let shared = labs[0].config.clone();
        for lab in &mut labs {
            lab.config = shared.clone();
            lab.configure();
        }
        Self { labs, dice: Secret::new(seed) }
    }

    /// Lets all CPUs run for `span`: each for a few microseconds, one after another, in another order each time. Those
    /// of them that are `busy` always have packets waiting.
    fn run(&mut self, span: Duration, busy: usize, of: impl Fn(usize) -> Of) {
        let end = self.labs[0].now + span;
        while self.labs[0].now < end {
            let until = self.labs[0].now + Duration::from_micros(5 + self.dice.below(100));
            for at in self.order() {
                if at < busy {
                    while self.labs[at].send(ONE, of(at)).is_ok() {}
                }
                self.labs[at].run_to(until);
            }
        }
    }

    /// All CPUs in any order.
    fn order(&mut self) -> Vec<usize> {
        let mut order: Vec<_> = (0..self.labs.len()).map(|at| (self.dice.draw(), at)).collect();
        order.sort_unstable();
        order.into_iter().map(|(_, at)| at).collect()
    }

    /// Bytes that left each CPU.
    fn bytes(&self) -> Vec<u64> {
        self.labs.iter().map(|lab| lab.left.iter().map(|left| left.len as u64).sum()).collect()
    }
}

const SPAN: Duration = Duration::from_millis(50);

/// Bytes of a bandwidth in [`SPAN`].
fn wanted(bandwidth: u64) -> u64 {
    bandwidth / 8 / 20
}

#[test]
fn however_many_cpus_share_a_pipe_they_send_its_bandwidth_and_no_more() {
    for (cpus, bandwidth) in [(1, GBIT), (2, GBIT), (8, GBIT), (8, 10 * MBIT), (2, 5 * GBIT)] {
        for seed in 0..2 {
            for family in FAMILIES {
                let limit = Some(QueueLimit::Bytes(200_000));
                let queue = QueueConfig { limit, ..QueueConfig::default() };
                let mut all = Cpus::new(cpus, seed, PipeConfig { queue, ..super::bandwidth(bandwidth) });
                let lens = [1500, 64, 700];
                all.run(SPAN, cpus.into(), |at| Of { family, ..Of::len(lens[at % 3]) });
                let sent: u64 = all.bytes().iter().sum();
                // A chunk of time and a packet for each CPU; and the last run may have been longer than the span.
                let slack = u64::from(cpus) * (bandwidth / 8 * CHUNK / 1_000_000_000 + 1500);
                let run_on = bandwidth / 8 / 10_000 * 2;
                assert!(sent <= wanted(bandwidth) + slack + run_on, "{cpus} CPUs sent {sent}");
                let least = wanted(bandwidth) * 95 / 100;
                assert!(
                    sent >= least.min(wanted(bandwidth).saturating_sub(slack)),
                    "{cpus} CPUs sent {sent}"
                );
            }
        }
    }
}

#[test]
fn what_idle_cpus_do_not_use_a_busy_one_has() {
    for busy in [1, 2, 7] {
        let mut all = Cpus::new(8, 5, bandwidth(GBIT));
        all.run(SPAN, busy, |_| Of::len(1500));
        let bytes = all.bytes();
        let sent: u64 = bytes.iter().sum();
        assert!(sent > wanted(GBIT) * 98 / 100, "{bytes:?}");
        let (least, most) = (bytes[..busy].iter().min().unwrap(), bytes[..busy].iter().max().unwrap());
        assert!(*least * 2 > *most, "busy ones have about the same: {bytes:?}");
    }
}

#[test]
fn a_burst_is_shared_too() {
    let burst = PipeConfig { burst: Some(15_000), ..bandwidth(MBIT) };
    let mut all = Cpus::new(4, 1, burst);
    for lab in &mut all.labs {
        (0..20).for_each(|_| lab.send(ONE, Of::len(1500)).unwrap());
        lab.due(1000);
    }
    let left: usize = all.labs.iter().map(|lab| lab.left.len()).sum();
    assert!((10..=14).contains(&left), "ten, and what one packet for each CPU is paid ahead: {left}");
}

#[test]
fn flows_of_a_masked_pipe_are_shared_flow_by_flow() {
    for family in FAMILIES {
        let queue = QueueConfig { mask: by_source(), ..QueueConfig::default() };
        let mut all = Cpus::new(4, 9, PipeConfig { queue, ..bandwidth(100 * MBIT) });
        // The first two CPUs have packets of one host, the others of another.
        all.run(SPAN, 4, |at| Of { family, flow: u16::try_from(at / 2).unwrap(), ..Of::len(1000) });
        let bytes = all.bytes();
        for host in [bytes[0] + bytes[1], bytes[2] + bytes[3]] {
            assert!(host.abs_diff(wanted(100 * MBIT)) < wanted(100 * MBIT) / 50, "{bytes:?}");
        }
    }
}

#[test]
fn an_exact_pipe_is_on_one_cpu_and_the_others_are_told_which() {
    for mask in [FlowMask::default(), by_source()] {
        let queue = QueueConfig { mask, ..QueueConfig::default() };
        let mut all = Cpus::new(4, 1, PipeConfig { exact: true, queue, ..bandwidth(MBIT) });
        let mut owners = std::collections::BTreeSet::new();
        for flow in 1..=32 {
            let of = Of { flow, ..Of::len(100) };
            let mut owner = None;
            for lab in &mut all.labs {
                let pkt = packet(&mut lab.pool, of);
                let sent = lab.pipes.enqueue(ONE, &info(of), pkt, 7, lab.now, &mut lab.secret);
                let cpu = match sent {
                    Ok(()) => lab.pipes.own.id,
                    Err(Refused::Elsewhere { cpu, pkt, ticket: 7 }) => {
                        lab.pool.give(pkt);
                        cpu
                    }
                    Err(_) => panic!("neither here nor elsewhere"),
                };
                assert!(owner.replace(cpu).is_none_or(|owner| owner == cpu), "all say the same");
            }
            owners.extend(owner);
        }
        assert_eq!(owners.len(), if mask == by_source() { 4 } else { 1 }, "flows are spread, pipes are not");
    }
}

#[test]
fn one_cpu_alone_owns_an_exact_pipe() {
    let mut lab = Lab::with(PipeConfig { exact: true, ..bandwidth(MBIT) });
    lab.send(ONE, Of::len(100)).unwrap();
    lab.run_out();
    assert_eq!(lab.left.len(), 1);
}

#[test]
fn a_change_of_the_bandwidth_holds_for_all_cpus() {
    let mut all = Cpus::new(4, 3, bandwidth(8000));
    all.run(SPAN, 4, |_| Of::len(1500));
    all.labs[0].config.set_pipe(1, &bandwidth(GBIT)).unwrap();
    let config = all.labs[0].config.clone();
    for lab in &mut all.labs {
        lab.config = config.clone();
        lab.configure();
    }
    all.labs.iter_mut().for_each(|lab| lab.left.clear());
    all.run(Duration::from_secs(10), 0, |_| Of::len(1500));
    all.labs.iter_mut().for_each(|lab| lab.left.clear());
    all.run(SPAN, 4, |_| Of::len(1500));
    let sent: u64 = all.bytes().iter().sum();
    assert!(sent.abs_diff(wanted(GBIT)) < wanted(GBIT) / 20, "{sent}");
}
