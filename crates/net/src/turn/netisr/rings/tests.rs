use core::any::Any;

use pkt::PktVec;

use crate::base::drop::DropReason;
use crate::base::time::Instant;
use crate::link::driver::Sink;
use crate::testkit::{Bench, addr4, addr6, build};

/// Counts.
struct Tally {
    frames: usize,
    bytes: usize,
}

impl Sink for Tally {
    fn frames(&mut self, _now: Instant, frames: &PktVec) {
        self.frames += frames.len();
        self.bytes += frames.iter().map(|pkt| pkt.len()).sum::<usize>();
    }
}

fn tallied(bench: &Bench) -> (usize, usize) {
    let sink = bench.netisrs[0].sinks(1).next().expect("there is a sink");
    let tally = (sink as &dyn Any).downcast_ref::<Tally>().expect("it is ours");
    (tally.frames, tally.bytes)
}

fn frames() -> [Vec<u8>; 2] {
    let v4 = build::udp(addr4(1, 2).into(), addr4(2, 2).into(), (1, 2), &[0; 18]);
    let v6 = build::udp(addr6(1, 2).into(), addr6(2, 2).into(), (1, 2), &[0; 18]);
    [build::frame(1, &v4), build::frame(1, &v6)]
}

#[test]
fn a_sink_sees_every_frame_and_the_stack_none() {
    let mut bench = Bench::new(2);
    bench.netisrs[0].set_sinks(1, || Some(Box::new(Tally { frames: 0, bytes: 0 })));
    let bytes = frames().map(|frame| frame.len()).iter().sum();
    frames().into_iter().for_each(|frame| bench.inject(1, frame));
    bench.run();
    assert_eq!(tallied(&bench), (2, bytes));
    assert_eq!((bench.dropped(DropReason::Monitor), bench.sent(2).len()), (2, 0));
    assert_eq!(bench.buffers_out(), 0);
}

#[test]
fn without_its_sink_an_interface_forwards_again() {
    let mut bench = Bench::new(2);
    bench.netisrs[0].set_sinks(1, || Some(Box::new(Tally { frames: 0, bytes: 0 })));
    bench.netisrs[0].set_sinks(1, || None);
    assert_eq!(bench.netisrs[0].sinks(1).count(), 0);
    frames().into_iter().for_each(|frame| bench.inject(1, frame));
    bench.run();
    assert_eq!((bench.dropped(DropReason::Monitor), bench.sent(2).len()), (0, 2));
}
