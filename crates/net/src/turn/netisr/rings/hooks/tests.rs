use pkt::Pkt;

use crate::base::drop::DropReason;
use crate::link::driver::{FrameProgram, Occasion, Verdict};
use crate::testkit::{Bench, addr4, addr6, build};

/// Decides by the last byte of the destination port, which is the same place from the end in both families.
struct ByPort;

impl FrameProgram for ByPort {
    fn run(&mut self, occasion: &Occasion, frame: &mut Pkt) -> Verdict {
        assert_eq!((occasion.ifindex, occasion.queue), (1, 0));
        let at = frame.len() - 18 - 5;
        match frame.head()[at] {
            1 => Verdict::Drop,
            2 => Verdict::Aborted,
            3 => Verdict::Tx,
            4 => Verdict::Redirect(2),
            5 => Verdict::Redirect(77),
            _ => Verdict::Pass,
        }
    }
}

/// The frames of both families to one port.
fn frames(port: u16) -> [Vec<u8>; 2] {
    let v4 = build::udp(addr4(1, 2).into(), addr4(2, 2).into(), (1, port), &[0; 18]);
    let v6 = build::udp(addr6(1, 2).into(), addr6(2, 2).into(), (1, port), &[0; 18]);
    [build::frame(1, &v4), build::frame(1, &v6)]
}

fn bench() -> Bench {
    let mut bench = Bench::new(2);
    bench.netisrs[0].set_program(1, 0, Some(Box::new(ByPort)));
    bench
}

#[test]
fn a_program_decides_about_each_frame_before_the_stack() {
    let mut bench = bench();
    (1..=6).flat_map(frames).for_each(|frame| bench.inject(1, frame));
    bench.run();
    assert_eq!(bench.dropped(DropReason::XdpDrop), 2);
    assert_eq!(bench.dropped(DropReason::XdpAborted), 2);
    assert_eq!(bench.dropped(DropReason::XdpRedirect), 2, "there is no interface 77");
    assert_eq!(bench.sent(1), frames(3), "back as they came");
    let sent = bench.sent(2);
    assert_eq!(sent.len(), 4, "two by the program, two by the stack");
    assert!(frames(4).iter().all(|frame| sent.contains(frame)), "redirected as they came");
    assert_eq!(bench.buffers_out(), 0);
}

#[test]
fn without_its_program_an_interface_forwards_again() {
    let mut bench = bench();
    bench.netisrs[0].set_program(1, 0, None);
    frames(1).into_iter().for_each(|frame| bench.inject(1, frame));
    bench.run();
    assert_eq!((bench.dropped(DropReason::XdpDrop), bench.sent(2).len()), (0, 2));
}
