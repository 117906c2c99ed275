//! `ipfw pipe show`, `ipfw queue show`.

use core::fmt::Write;
use core::net::IpAddr;

use super::Protocol;
use crate::api::{FirewallFlow, FirewallPipe, FirewallQueue, FirewallShape};
use crate::show::table::Table;

/// A pipe, its own queue, and the flows in that.
pub(crate) fn pipe(pipe: &FirewallPipe, flows: &[FirewallFlow], with_cpu: bool) -> String {
    let FirewallPipe { number, bandwidth, delay_ms, burst, own, scheduler, .. } = pipe;
    let exact = if pipe.exact { " exact" } else { "" };
    let bandwidth = bits_per_second(*bandwidth);
    let damage = damage(pipe);
    let mut text = format!("{number:05}: {bandwidth} {delay_ms:4} ms burst {burst}{exact}{damage}\n");
    // Writing to a String does not fail.
    let _ = writeln!(text, "   {} type {scheduler}", shape(own, flows));
    text + &rest(own, flows, with_cpu)
}

/// Prints loss and reordering of a pipe.
fn damage(pipe: &FirewallPipe) -> String {
    let FirewallPipe { reorder, reorder_by, duplicate, .. } = pipe;
    let reorder = if *reorder > 0.0 { format!(" reorder {reorder:.6}/{reorder_by}") } else { String::new() };
    let duplicate = if *duplicate > 0.0 { format!(" duplicate {duplicate:.6}") } else { String::new() };
    reorder + &duplicate
}

/// A queue, and the flows in it.
pub(crate) fn queue(queue: &FirewallQueue, flows: &[FirewallFlow], with_cpu: bool) -> String {
    let FirewallQueue { number, pipe, own, .. } = queue;
    format!("q{number:05} {} pipe {pipe} weight {}\n", shape(own, flows), own.weight)
        + &rest(own, flows, with_cpu)
}

/// Prints the limits of a queue, and its number of flows shown.
fn shape(own: &FirewallShape, flows: &[FirewallFlow]) -> String {
    let limit = if own.limit.bytes().all(|byte| byte.is_ascii_digit()) {
        format!("{:>3} sl.", own.limit)
    } else {
        format!(" {}", own.limit)
    };
    let loss = if own.loss > 0.0 { format!(" plr {:.6}", own.loss) } else { String::new() };
    let flows = match flows.len() {
        1 => "1 flow".to_owned(),
        flows => format!("{flows} flows"),
    };
    format!("{limit}{loss} {flows} {}", own.aqm.as_deref().unwrap_or("droptail"))
}

fn rest(own: &FirewallShape, flows: &[FirewallFlow], with_cpu: bool) -> String {
    let mask = if own.mask.is_empty() { String::new() } else { format!("    mask: {}\n", own.mask) };
    if flows.is_empty() {
        return mask;
    }
    let head = ["Prot", "Source IP/port", "Dest. IP/port", "Tot_pkt/bytes", "Pkt/Byte", "Drp"];
    let head: Vec<&str> = with_cpu.then_some("CPU").into_iter().chain(head).collect();
    let mut table = Table::new(&head, if with_cpu { &[0, 4, 5, 6] } else { &[3, 4, 5] });
    for flow in flows {
        table.row(with_cpu.then(|| flow.cpu.to_string()).into_iter().chain(cells(flow)));
    }
    mask + &table.text()
}

fn cells(flow: &FirewallFlow) -> [String; 6] {
    let end = |address: IpAddr, port: u16| match (address, flow.overflow) {
        (_, true) => "(others)".to_owned(),
        (address @ IpAddr::V6(_), _) => format!("[{address}]/{port}"),
        (address, _) => format!("{address}/{port}"),
    };
    [
        if flow.proto == 0 { "ip".to_owned() } else { Protocol(flow.proto).to_string() },
        end(flow.src, flow.src_port),
        end(flow.dst, flow.dst_port),
        format!("{}/{}", flow.packets, flow.bytes),
        format!("{}/{}", flow.waiting_packets, flow.waiting_bytes),
        flow.drops.to_string(),
    ]
}

/// As dummynet writes it: three digits behind the point, of the largest unit that is not larger.
#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
fn bits_per_second(bandwidth: u64) -> String {
    match bandwidth {
        0 => "unlimited     ".to_owned(),
        1_000_000_000.. => format!("{:7.3} Gbit/s", bandwidth as f64 / 1e9),
        1_000_000.. => format!("{:7.3} Mbit/s", bandwidth as f64 / 1e6),
        1000.. => format!("{:7.3} Kbit/s", bandwidth as f64 / 1e3),
        _ => format!("{:7.3} bit/s ", bandwidth as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(src: &str, packets: u64) -> FirewallFlow {
        FirewallFlow {
            pipe: 1,
            queue: 0,
            cpu: 3,
            overflow: false,
            proto: 0,
            src: src.parse().unwrap(),
            src_port: 0,
            dst: "0.0.0.0".parse().unwrap(),
            dst_port: 0,
            flow_label: 0,
            packets,
            bytes: packets * 1000,
            drops: 4,
            waiting_packets: 5,
            waiting_bytes: 5000,
            flying: 0,
        }
    }

    #[test]
    fn a_pipe_is_shown_with_its_shape_and_its_flows() {
        let own = FirewallShape {
            limit: "50".into(),
            weight: 1,
            mask: "src-ip 0xffffffff".into(),
            flows: 2,
            ..FirewallShape::default()
        };
        let one = FirewallPipe {
            number: 1,
            bandwidth: 10_000_000,
            delay_ms: 20,
            scheduler: "fifo".into(),
            own,
            ..FirewallPipe::default()
        };
        assert_eq!(
            pipe(&one, &[flow("10.0.0.1", 7), flow("10.0.0.22", 100)], false),
            "00001:  10.000 Mbit/s   20 ms burst 0\n\
             \x20   50 sl. 2 flows droptail type fifo\n\
             \x20   mask: src-ip 0xffffffff\n\
             Prot  Source IP/port  Dest. IP/port  Tot_pkt/bytes  Pkt/Byte  Drp\n\
             ip    10.0.0.1/0      0.0.0.0/0             7/7000    5/5000    4\n\
             ip    10.0.0.22/0     0.0.0.0/0         100/100000    5/5000    4\n"
        );
        let text = pipe(&one, &[flow("2001:db8::1", 7)], true);
        assert!(text.contains("\nCPU  Prot  Source"), "{text}");
        assert!(text.contains("\n  3  ip    [2001:db8::1]/0 "), "{text}");
        let text = pipe(&FirewallPipe { bandwidth: 0, exact: true, ..one }, &[], false);
        assert!(text.starts_with("00001: unlimited        20 ms burst 0 exact\n"), "{text}");
        let bad = FirewallPipe { reorder: 0.25, reorder_by: 3, duplicate: 0.5, ..FirewallPipe::default() };
        let text = pipe(&bad, &[], false);
        assert!(text.contains(" burst 0 reorder 0.250000/3 duplicate 0.500000\n"), "{text}");
    }

    #[test]
    fn a_queue_is_shown_with_its_pipe_and_its_weight() {
        let own = FirewallShape {
            limit: "10Kbytes".into(),
            weight: 30,
            loss: 0.25,
            aqm: Some("codel target 5000us interval 100000us noecn".into()),
            ..FirewallShape::default()
        };
        let one = FirewallQueue { number: 7, pipe: 1, own, ..FirewallQueue::default() };
        let shape = "10Kbytes plr 0.250000 0 flows codel target 5000us interval 100000us noecn";
        assert_eq!(queue(&one, &[], false), format!("q00007  {shape} pipe 1 weight 30\n"));
    }

    #[test]
    fn bandwidths_have_the_unit_that_fits() {
        for (bandwidth, text) in [
            (999, "999.000 bit/s "),
            (1000, "  1.000 Kbit/s"),
            (1_500_000, "  1.500 Mbit/s"),
            (40_000_000_000, " 40.000 Gbit/s"),
        ] {
            assert_eq!(bits_per_second(bandwidth), text);
        }
    }
}
