//! The traffic generator and the sink, on a veth pair.

use dev::netlink::Veth;
use testbed::flood::{FRAME_LEN, Flood, Frames, Pace, Varied};
use testbed::sink::Sink;

use crate::support::port::until;
use crate::support::{is_root, netns, veth_up};

/// An IPv4 datagram from nowhere, which is all that the sink looks at.
fn frames() -> Frames {
    let mut template = [0; FRAME_LEN];
    (template[12], template[13], template[14], template[23]) = (8, 0, 0x45, 17);
    Frames { template, flow: Varied { at: 34, complement_at: 42 }, to: Varied { at: 32, complement_at: 28 } }
}

fn what_is_sent_arrives_at_the_pace_that_is_set() {
    if !is_root() {
        return;
    }
    netns("flood")
        .run(|| {
            let [a, b] = veth_up(&Veth::new("a", "b"));
            // A veth is sent to by programs only if it has one itself.
            let (_needed, sink) = (Sink::attach(a).unwrap(), Sink::attach(b).unwrap());
            let flood = Flood::new(a, &frames()).unwrap();
            flood.run(1000, 64).unwrap();
            assert_eq!(flood.sent().unwrap(), 0, "no pace was set");
            let mut due = 0;
            for (share, of_8192) in [(Pace::ALL, 8192), (Pace::ALL / 2, 4096), (1, 2)] {
                flood.set_pace(Pace { share, flows: 0xff, to: 0xf }).unwrap();
                flood.run(8192, 64).unwrap();
                due += of_8192;
                assert_eq!(flood.sent().unwrap(), due);
            }
            until(|| sink.received().unwrap() == due);
        })
        .unwrap();
}

harness::tests![what_is_sent_arrives_at_the_pace_that_is_set];
