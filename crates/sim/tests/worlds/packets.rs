//! Programs with packet sockets on each CPU, over cables that lose and reorder.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use net::count::Count;
use net::drop::DropReason;
use net::packet::{self, Id, Open};
use net::time::Duration;
use sim::cable;
use sim::host::{Host, Port, Spec, ifindex};
use sim::world::{HostId, World};

use crate::common::{BOOT, Shape, seeds};

/// An Ethernet type for experiments.
const EXPERIMENT: [u8; 2] = [0x88, 0xb5];
/// Frames that each CPU sends.
const COUNT: u16 = 100;

fn two_hosts(seed: u64, shape: Shape) -> (World, [HostId; 2]) {
    let mut world = World::new("packets", seed);
    let cable = world.cable(cable::Spec { loss: 30_000, reorder: 30_000, ..cable::Spec::default() });
    let hosts = [1, 2].map(|host| {
        let port = Port::new(cable, 1, host).rings(shape.rings, shape.rss);
        world.host(Spec::host(&format!("host{host}")).cpus(shape.cpus).port(port))
    });
    world.run_for(BOOT);
    (world, hosts)
}

fn sockets(host: &mut Host, wanted: &Open) -> Vec<Id> {
    host.cpus.iter_mut().map(|cpu| packet::open(&mut cpu.netisr.cpu, wanted.clone()).unwrap()).collect()
}

/// A frame to everybody, with the sender's CPU and a number.
fn frame(cpu: usize, seq: u16) -> Vec<u8> {
    let source = [2, 0, 0, 0, 0x77, u8::try_from(cpu).unwrap()];
    [&[0xff; 6][..], &source, &EXPERIMENT, &seq.to_be_bytes(), &[7; 60]].concat()
}

/// The frames of [`frame`] that have come, on whichever CPU: the sender's CPU and the number.
fn read(host: &mut Host, ids: &[Id]) -> Vec<(u8, u16)> {
    let mut all = Vec::new();
    for (cpu, id) in host.cpus.iter_mut().zip(ids) {
        let mut into = [0; 2000];
        while let Ok(got) = packet::recv(&mut cpu.netisr.cpu, *id, &mut into) {
            if into[12..14] == EXPERIMENT {
                assert_eq!((got.len, &into[16..76]), (76, &[7; 60][..]));
                all.push((into[11], u16::from_be_bytes([into[14], into[15]])));
            }
        }
    }
    all.sort_unstable();
    all
}

#[test]
fn each_frame_is_shown_once_on_whichever_cpu_it_comes_and_taken_or_not() {
    for shape in Shape::doubling() {
        for (takes, seed) in
            [false, true].into_iter().flat_map(|takes| seeds(1).map(move |seed| (takes, seed)))
        {
            let (mut world, [a, b]) = two_hosts(seed, shape);
            let wanted = Open { ifindex: ifindex(0), queue_bytes: 2 << 20, ..Open::default() };
            let senders = sockets(world.of(a), &Open { rx: false, ..wanted.clone() });
            let receivers = sockets(world.of(b), &Open { takes, ..wanted });
            for seq in 0..COUNT {
                for (at, id) in senders.iter().copied().enumerate() {
                    world.of(a).call(at, move |netisr| {
                        packet::send(&mut netisr.cpu, id, &frame(at, seq)).unwrap();
                    });
                }
                world.run_for(Duration::from_micros(200));
            }
            world.run_for(Duration::from_secs(1));
            let sent = senders.len() * usize::from(COUNT);
            assert_eq!(world.of(a).count(Count::PacketSocketOut), sent as u64);
            let came = read(world.of(b), &receivers);
            assert!(came.len() * 10 > sent * 8 && came.len() <= sent, "{} of {sent}", came.len());
            assert!(came.windows(2).all(|pair| pair[0] < pair[1]), "one is shown twice");
            let taken = world.of(b).count(Count::PacketSocketTaken);
            let refused = world.of(b).dropped(DropReason::EtherUnknownType);
            let all = came.len() as u64;
            if takes {
                assert!((taken, refused) >= (all, 0) && refused == 0, "{taken} {refused} {all}");
            } else {
                assert_eq!((taken, refused), (0, all));
            }
            world.finish();
        }
    }
}
