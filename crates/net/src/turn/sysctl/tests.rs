use core::net::SocketAddr;
use core::time::Duration;

use super::*;
use crate::base::count::Count;
use crate::host::tcp::congestion::Algorithm;
use crate::host::tcp::{self, Connect, IpTxParams, Listen};
use crate::testkit::{Bench, addr4, addr6, build};

fn named(name: &str) -> &'static Variable {
    Variable::named(name).unwrap()
}

#[test]
fn variables_are_sorted_and_each_can_be_read_written_and_said() {
    assert!(VARIABLES.is_sorted_by(|a, b| a.name < b.name));
    for variable in VARIABLES {
        let mut all = Sysctls::default();
        assert_eq!(variable.parse(&variable.text(variable.default())), Ok(variable.default()));
        assert!(variable.range.contains(&variable.default()), "{}", variable.name);
        let (least, most) = (*variable.range.start(), *variable.range.end());
        for value in [least, most.min(least + 1)] {
            match variable.parse(&variable.text(value)) {
                Ok(value) => variable.write(&mut all, value),
                Err(wrong) => assert!(matches!(wrong, Wrong::Fixed(_)), "{}: {wrong}", variable.name),
            }
            let says = if variable.is_fixed() { variable.default() } else { value };
            assert_eq!(variable.read(&all), says, "{}", variable.name);
        }
        let default = |other: &&Variable| other.read(&all) == other.default();
        let changed = VARIABLES.iter().filter(|other| !default(other)).count();
        assert!(changed <= 1, "{}: it is one thing that changes", variable.name);
    }
}

#[test]
fn what_no_variable_can_be_is_explained() {
    for (name, text, says) in [
        ("net.inet.tcp.delacktime", "500", "is a number from 1 to 499"),
        ("net.inet.tcp.delacktime", "soon", "is a number from 1 to 499"),
        ("net.inet.tcp.cc.algorithm", "vegas", "is one of newreno, cubic"),
        ("net.inet.tcp.blackhole", "2", "is always 0 here"),
    ] {
        assert_eq!(named(name).parse(text).unwrap_err().to_string(), says, "{name}={text}");
    }
    assert_eq!(named("net.inet.tcp.cc.algorithm").parse("newreno"), Ok(0));
}

#[test]
fn what_a_listener_accepts_follows_unless_its_program_has_said_otherwise_and_what_stands_stays() {
    for addr in [core::net::IpAddr::from(addr4(1, 1)), addr6(1, 1).into()] {
        let mut bench = Bench::new(1);
        let remote: SocketAddr = (addr, 80).into();
        let settings = Settings { keep_count: 3, ..bench.cpu().sysctls.tcp };
        let tx_params = IpTxParams::default();
        let wants = Listen {
            addr: remote,
            zone: 0,
            only_v6: false,
            backlog: 8,
            is_shared: false,
            settings,
            tx_params,
        };
        let listener = tcp::listen(bench.cpu(), &wants).unwrap();
        let accept = |bench: &mut Bench| {
            let to = Connect { remote, local: None, port: None, zone: 0, settings, tx_params };
            tcp::connect(bench.cpu(), &to).unwrap();
            bench.run();
            tcp::accept(bench.cpu(), listener).unwrap().id
        };
        let before = accept(&mut bench);
        for (name, value) in [("cc.algorithm", "newreno"), ("keepcnt", "20"), ("delacktime", "7")] {
            let variable = named(&format!("net.inet.tcp.{name}"));
            set(bench.cpu(), variable, variable.parse(value).unwrap());
        }
        let after = accept(&mut bench);
        let algorithm = |bench: &mut Bench, id| tcp::connection(bench.cpu(), id).unwrap().1.info().algorithm;
        assert_eq!(algorithm(&mut bench, before), Algorithm::Cubic);
        assert_eq!(algorithm(&mut bench, after), Algorithm::NewReno);
        let kept = bench.cpu().tcp.as_mut().unwrap();
        let mut listening = Vec::new();
        kept.listeners.each(|settings| listening.push(*settings));
        assert_eq!((listening[0].keep_count, listening[0].delayed_ack), (3, Duration::from_millis(7)));
        assert_eq!(bench.cpu().sysctls.tcp.keep_count, 20);
    }
}

#[test]
fn a_turn_rings_as_often_as_the_thresholds_say() {
    for [src, dst] in [[addr4(1, 2).into(), addr4(2, 2).into()], [addr6(1, 2).into(), addr6(2, 2).into()]] {
        let mut bench = Bench::new(2);
        let datagram = build::frame_from(1, src, &build::udp(src, dst, (1, 2), &[7]));
        bench.inject(1, datagram.clone());
        bench.run();
        // Chunks of 64 packets; fewer than either threshold wait for the end of the turn.
        for (packets, bytes, rung) in [(16, 1500, 3), (256, 16 << 20, 1), (256, 1500, 3), (64, 16 << 20, 3)] {
            set(bench.cpu(), named("net.link.stage_cntmax"), packets);
            set(bench.cpu(), named("net.link.stage_bytemax"), bytes);
            let before = bench.counted(Count::Doorbells);
            (0..3 * 64).for_each(|_| bench.inject(1, datagram.clone()));
            bench.run();
            assert_eq!(bench.counted(Count::Doorbells) - before, rung, "{packets} packets, {bytes} bytes");
        }
    }
}
