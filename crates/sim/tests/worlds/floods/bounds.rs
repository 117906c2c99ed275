//! Translation and pipes at their bounds: whatever comes, nothing panics, the bound is kept, the memory comes back, and others
//! live on.

use super::calls::Call;
use super::*;

/// Datagrams of an attack.
const MANY: u32 = 20_000;

/// A number that follows from `n`, and looks like another.
fn mix(n: u32) -> u32 {
    (n ^ n >> 15).wrapping_mul(0x9e37_79b9).rotate_left(13)
}

/// Sends what `packet` makes from one of the stations, in portions.
fn pour(pair: &mut Pair, from_a: bool, packet: impl Fn(u32) -> Vec<u8>) {
    for n in 0..MANY {
        let station = if from_a { pair.a } else { pair.b };
        pair.world.at(station).send(packet(n));
        if n % 100 == 99 {
            pair.world.run_for(STEP);
            [pair.a, pair.b].into_iter().for_each(|station| pair.world.at(station).heard.clear());
        }
    }
}

/// A call of a family, from one station's host 2 to the other's.
fn call(family: Family, number: u16) -> Call {
    Call::new(family.addr(1, 2), family.addr(2, 2), number)
}

#[test]
fn a_packet_that_nat_turns_back_inside_is_turned_once_and_never_circles() {
    // The outside address is redirected to itself, and to a host inside that is it again.
    const RULES: &str = "nat 1 config if mem1 redirect_port tcp 10.0.2.1:80 80 redirect_port udp 10.0.2.1:53 53 \
         redirect_port tcp 10.0.1.2:81 81\n\
         add nat 1 ip4 from any to any via mem1\nadd nat 1 ip4 from any to 10.0.2.1 in not recv mem1\n\
         add allow ip from any to any\n";
    let outside = Family::V4.addr(2, 1);
    for cpus in [1, 2, 8] {
        let (mut pair, _) = guarded("hairpins", cpus, RULES, Settings::default());
        for from_a in [true, false] {
            pour(&mut pair, from_a, |n| {
                let [kind, port, ..] = mix(n).to_le_bytes();
                // Also in the router's own name, and from the end that it goes to.
                let src = [outside, Family::V4.addr(1, 2), Family::V4.addr(2, 2)][usize::from(kind % 3)];
                let ports =
                    [53 + u16::from(port % 4), [53, 80, 81, 1024 + u16::from(port)][usize::from(kind / 64)]];
                match kind % 2 {
                    0 => builder::udp(Ip::new(src, outside), ports, b"and back"),
                    _ => segment(src, outside, ports, Flags::SYN, n, 0),
                }
            });
        }
        pair.world.run_for(SECOND);
        let turned = count(&mut pair, Count::NatHairpins) + count(&mut pair, Count::NatRedirected);
        let forwarded = count(&mut pair, Count::Ip4Forwarded);
        assert!(turned > 0 && turned <= 4 * u64::from(MANY), "{turned}");
        assert!(forwarded <= 2 * u64::from(MANY), "{forwarded}");
        assert!(call(Family::V4, 1).gets_in(&mut pair, |_| ()), "{}", pair.world.drops());
        pair.world.run_for(7500 * SECOND);
        assert_eq!(bindings(&mut pair).0, 0);
        assert_eq!(pair.world.of(pair.router).outstanding(), 0);
        pair.world.finish();
    }
}

#[test]
fn forged_icmp_errors_do_not_pass_nat() {
    const RULES: &str = "nat 1 config ip 10.0.2.1\nadd nat 1 ip4 from any to any via mem1\n\
         add allow ip from any to any\n";
    for cpus in [1, 2, 8] {
        let (mut pair, _) = guarded("forged_errors", cpus, RULES, Settings::default());
        let mut open = call(Family::V4, 1);
        assert!(open.gets_in(&mut pair, |_| ()));
        let before = count(&mut pair, Count::NatErrors);
        for _ in 0..2 {
            for n in 0..MANY {
                // A quote of the open connection's remote end, and of a port and number that are guessed.
                let [a, b, c, d] = mix(n).to_le_bytes();
                let ports = [u16::from_le_bytes([a, b]), if c < 128 { open.port } else { 9 }];
                let quoted = segment(Family::V4.addr(2, 1), Family::V4.addr(2, 2), ports, Flags::ACK, n, 0);
                let message = [&[3, d % 16, 0, 0, 0, 0, 2, 40], &quoted[..28]].concat();
                let message = with_checksum(message);
                let ip = Ip::new(Family::V4.addr(2, 77), Family::V4.addr(2, 1));
                pair.world.at(pair.b).send(builder::packet(ip, Protocol::ICMP, &message));
                if n % 100 == 99 {
                    pair.world.run_for(STEP);
                }
            }
        }
        let through = count(&mut pair, Count::NatErrors) - before;
        // Of 65,536 ports one is right, and both of these say so of the right remote port.
        assert!(through <= 4, "{through} of {}", 2 * MANY);
        assert!(open.goes_on(&mut pair), "an error ends no flow");
        assert_eq!(bindings(&mut pair).0, 1, "and makes none");
        pair.world.run_for(7500 * SECOND);
        assert_eq!(bindings(&mut pair).0, 0);
        pair.world.finish();
    }
}

/// Completes the checksum of ICMP.
fn with_checksum(mut message: Vec<u8>) -> Vec<u8> {
    let sum: u32 =
        message.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0))).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let [_, _, high, low] = (!((folded & 0xffff) + (folded >> 16))).to_be_bytes();
    message[2..4].copy_from_slice(&[high, low]);
    message
}

#[test]
fn nptv6_keeps_no_memory_per_flow() {
    const RULES: &str = "nptv6 out create int_prefix 2001:db8:1:: ext_prefix 2001:db8:99:: prefixlen 48\n\
         add nptv6 out ip6 from any to any via mem1\nadd allow ip from any to any\n";
    for cpus in [1, 2, 8] {
        let (mut pair, _) = guarded("prefixes", cpus, RULES, Settings::default());
        for from_a in [true, false] {
            pour(&mut pair, from_a, |n| {
                let spread = u128::from(mix(n)) << 32 | u128::from(mix(!n));
                let inside = 0x2001_0db8_0001_u128 << 80 | u128::from(n % 3 == 0) << 64 | spread;
                let outside = 0x2001_0db8_0099_u128 << 80 | u128::from(mix(n) & 0xffff) << 64 | spread;
                let far = Family::V6.addr(2, 2);
                let (src, dst) = if from_a { (v6(inside), far) } else { (far, v6(outside)) };
                builder::udp(Ip::new(src, dst), [1, 2], b"whoever you are")
            });
        }
        assert!(call(Family::V6, 1).gets_in(&mut pair, |_| ()), "{}", pair.world.drops());
        pair.world.run_for(60 * SECOND);
        assert_eq!(states(&mut pair).map(States::memory).max(), states(&mut pair).map(States::memory).min());
        assert_eq!(bindings(&mut pair).0, 0);
        assert_eq!(pair.world.of(pair.router).outstanding(), 0);
        pair.world.finish();
    }
}

fn v6(bits: u128) -> core::net::IpAddr {
    core::net::Ipv6Addr::from_bits(bits).into()
}

#[test]
fn flows_of_a_masked_pipe_are_bounded_and_other_traffic_continues() {
    const RULES: &str = "pipe 1 config bw 1Mbit/s delay 1000 mask src-ip 0xffffffff src-ip6 /128\n\
         add 100 pipe 1 udp from any to any in recv mem0\nadd allow ip from any to any\n";
    /// Flows of a masked pipe without `buckets`, and the one that all others share.
    const FLOWS: usize = 16 * 64 + 1;
    for cpus in [1, 2, 8] {
        let (mut pair, _) = guarded("masked_pipe", cpus, RULES, Settings::default());
        let mut open = Family::BOTH.map(|family| call(family, family as u16));
        assert!(open.iter().all(|call| call.gets_in(&mut pair, |_| ())));
        let mut most = (0, 0);
        for round in 0..10 {
            pour(&mut pair, true, |n| {
                let spread = mix(n + round * MANY);
                let family = Family::BOTH[n as usize % 2];
                let src = match family {
                    Family::V4 => {
                        core::net::Ipv4Addr::from_bits(0x0a00_0000 | spread & 0xffff | 0x40_0000).into()
                    }
                    Family::V6 => v6(0x2001_0db8_0001_u128 << 80 | u128::from(spread)),
                };
                builder::udp(Ip::new(src, family.addr(2, 2)), [1, 2], &[0; 100])
            });
            assert!(open.iter_mut().all(|call| call.goes_on(&mut pair)), "{}", pair.world.drops());
            let firewalls = pair.world.of(pair.router).firewalls();
            let now = firewalls.map(|firewall| (firewall.pipes().show().len(), firewall.pipes().held()));
            most = now.fold(most, |most, now| (most.0.max(now.0), most.1.max(now.1)));
        }
        assert!(most.0 > 500 && most.0 <= FLOWS + 1, "{} flows", most.0);
        assert!(most.1 > 500 && most.1 <= 4096 / 2, "{} of 4096 buffers", most.1);
        pair.world.run_for(200 * SECOND);
        let held: usize =
            pair.world.of(pair.router).firewalls().map(|firewall| firewall.pipes().held()).sum();
        assert_eq!((held, pair.world.of(pair.router).outstanding()), (0, 0));
        pair.world.finish();
    }
}
