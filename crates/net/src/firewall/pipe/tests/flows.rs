use super::*;

fn masked(mask: FlowMask) -> QueueConfig {
    QueueConfig { mask, ..QueueConfig::default() }
}

/// Fills the pipe from so many hosts for a second; answers how many packets of each left.
fn fill(lab: &mut Lab, to: To, family: Family, hosts: u16) -> Vec<usize> {
    let end = lab.now + Duration::from_secs(1);
    while lab.now < end {
        for flow in 1..=hosts {
            while lab.send(to, Of { family, flow, number: flow.into(), ..Of::len(1250) }).is_ok() {}
        }
        lab.run(Duration::from_millis(20));
    }
    let of = |host: u16| lab.left.iter().filter(|left| left.number == u32::from(host)).count();
    (1..=hosts).map(of).collect()
}

#[test]
fn with_a_mask_every_host_has_a_pipe_of_its_own() {
    for family in FAMILIES {
        let mut lab = Lab::with(PipeConfig { queue: masked(by_source()), ..bandwidth(MBIT) });
        let sent = fill(&mut lab, ONE, family, 3);
        assert!(sent.iter().all(|sent| sent.abs_diff(100) <= 1), "{sent:?}");
        assert_eq!(lab.pipes.show().len(), 3);
        assert!(lab.pipes.show().iter().all(|pipe| pipe.key.is_ip4 == (family == Family::V4)));
    }
}

#[test]
fn with_a_mask_on_a_queue_hosts_share_the_pipe() {
    for family in FAMILIES {
        let mut lab = Lab::with(bandwidth(3 * MBIT));
        lab.queue(1, QueueConfig { pipe: Some(1), ..masked(by_source()) });
        let sent = fill(&mut lab, To::Queue(1), family, 3);
        assert!(sent.iter().all(|sent| sent.abs_diff(100) <= 1), "{sent:?}");
        assert_eq!(lab.pipes.show()[0].queues.len(), 1 + 3);
    }
}

#[test]
fn a_mask_makes_one_flow_of_what_it_does_not_tell_apart() {
    let mut lab = Lab::new();
    let pkt = packet(&mut lab.pool, Of::len(100));
    let base = info(Of::len(100));
    let key = |mask: &FlowMask, info: PktInfo| Key::of(mask, &info, &pkt);
    let net = FlowMask { src_ip: 0xffff_ff00, ..FlowMask::default() };
    let near = PktInfo { src: base.src ^ 0x80, src_port: 77, ..base };
    let far = PktInfo { src: base.src ^ 0x100, ..base };
    assert_eq!(key(&net, base), key(&net, near));
    assert_ne!(key(&net, base), key(&net, far));
    let ports = FlowMask { src_port: u16::MAX, ..FlowMask::default() };
    assert_ne!(key(&ports, base), key(&ports, near));
    let icmp = |kind| PktInfo { proto: Protocol::ICMP.0, src_port: kind, ..base };
    assert_eq!(key(&ports, icmp(0)), key(&ports, icmp(8)), "a type is no port");
    let proto = FlowMask { proto: u8::MAX, ..FlowMask::default() };
    assert_ne!(key(&proto, base), key(&proto, icmp(8)));
    lab.pool.give(pkt);
}

#[test]
fn flow_labels_are_told_apart_in_ipv6_only() {
    for family in FAMILIES {
        let mut lab = Lab::new();
        let mask = FlowMask { flow_label: 0xf_ffff, ..FlowMask::default() };
        let keys = [[0, 1, 2], [0xf, 1, 2]].map(|label| {
            let mut pkt = packet(&mut lab.pool, Of { family, ..Of::len(100) });
            pkt.head_mut()[1..4].copy_from_slice(&label);
            let key = Key::of(&mask, &info(Of { family, ..Of::len(100) }), &pkt);
            lab.pool.give(pkt);
            key
        });
        assert_eq!(keys[0] == keys[1], family == Family::V4);
    }
}

#[test]
fn flows_beyond_the_bound_share_one_until_others_were_idle_for_a_second() {
    for family in FAMILIES {
        let queue = QueueConfig { buckets: Some(1), ..masked(by_source()) };
        let mut lab = Lab::with(PipeConfig { queue: queue.clone(), ..bandwidth(MBIT) });
        lab.pipe(2, bandwidth(MBIT));
        lab.queue(1, QueueConfig { pipe: Some(2), ..queue });
        let shown = |lab: &Lab| {
            let states = lab.pipes.show();
            let queues = states.iter().find(|state| state.number == 2).map_or(0, |pipe| pipe.queues.len());
            (states.iter().filter(|state| state.number == 1).count(), queues)
        };
        for flow in 1..=100 {
            // Those that share one fill it.
            let _ = lab.send(ONE, Of { family, flow, ..Of::len(100) });
            let _ = lab.send(To::Queue(1), Of { family, flow, ..Of::len(100) });
        }
        assert_eq!(shown(&lab), (16 + 1, 1 + 16 + 1), "sixteen for each bucket, and one for all others");
        lab.run(Duration::from_secs(3));
        for flow in 1001..=1008 {
            lab.send(ONE, Of { family, flow, ..Of::len(100) }).unwrap();
            lab.send(To::Queue(1), Of { family, flow, ..Of::len(100) }).unwrap();
        }
        let states = lab.pipes.show();
        let is_new = |key: &Key| key.src & 0xffff > 1000;
        assert_eq!(states.iter().filter(|state| is_new(&state.key)).count(), 8);
        let queues = states.iter().flat_map(|state| &state.queues);
        assert_eq!(queues.filter(|queue| queue.number == 1 && is_new(&queue.key)).count(), 8);
        assert!(shown(&lab).0 <= 17 && shown(&lab).1 <= 18);
    }
}

#[test]
fn a_scan_of_many_flows_leaves_tables_and_memory_bounded() {
    let queue = QueueConfig { buckets: Some(65_536), ..masked(by_source()) };
    let mut lab = Lab::with(PipeConfig { queue, ..bandwidth(GBIT) });
    for flow in 0..200_000_u32 {
        let pkt = packet(&mut lab.pool, Of::len(64));
        let info = PktInfo { src: u128::from(flow), ..info(Of::len(64)) };
        let sent = lab.pipes.enqueue(ONE, &info, pkt, 0, lab.now, &mut lab.secret);
        assert!(sent.is_ok());
        lab.now = lab.now + Duration::from_micros(5);
        lab.due(1000);
        lab.left.clear();
    }
    assert!(lab.pipes.show().len() <= per_cpu::FLOWS_MAX + 1);
    assert!(lab.pipes.held() < 10);
}

#[test]
fn what_went_through_a_pipe_or_queue_stays_counted_when_its_flows_are_forgotten() {
    let mut lab = Lab::with(PipeConfig { queue: masked(by_source()), ..bandwidth(GBIT) });
    lab.pipe(2, bandwidth(GBIT));
    lab.queue(5, QueueConfig { pipe: Some(2), ..masked(by_source()) });
    let total = |lab: &Lab, pipe, queue| {
        let totals = lab.pipes.totals();
        totals.into_iter().find(|total| (total.pipe, total.queue) == (pipe, queue)).unwrap_or_default()
    };
    for flow in 1..=40 {
        for to in [ONE, To::Queue(5)] {
            lab.send(to, Of { flow, ..Of::len(100) }).unwrap();
        }
    }
    lab.run_out();
    for (pipe, queue) in [(1, 0), (0, 5)] {
        let total = total(&lab, pipe, queue);
        assert_eq!((total.count.packets, total.count.bytes, total.flows), (40, 4000, 40));
    }
    lab.now = lab.now + Duration::from_secs(2);
    for flow in 100..200 {
        for to in [ONE, To::Queue(5)] {
            lab.send(to, Of { flow, ..Of::len(100) }).unwrap();
        }
    }
    lab.run_out();
    for (pipe, queue) in [(1, 0), (0, 5)] {
        let total = total(&lab, pipe, queue);
        assert_eq!(total.count.packets, 140);
        assert!(total.flows < 140, "some are forgotten");
    }
    lab.delete(5, true);
    assert_eq!(total(&lab, 0, 5).count.packets, 0);
}

#[test]
fn page_by_page_each_queue_is_seen_once() {
    let mut lab = Lab::with(PipeConfig { queue: masked(by_source()), ..bandwidth(MBIT) });
    for flow in 1..=100 {
        lab.send(ONE, Of { flow, ..Of::len(100) }).unwrap();
    }
    let (mut from, mut seen) = (0, std::collections::HashSet::new());
    loop {
        let (page, next) = lab.pipes.page(from, 7);
        assert!(page.len() <= 7);
        for listed in page {
            assert_eq!((listed.pipe, listed.flying, listed.queue.count.packets), (1, 1, 1));
            assert!(seen.insert(listed.flow.src));
        }
        let Some(next) = next else { break };
        from = next;
    }
    assert_eq!(seen.len(), 100);
}
