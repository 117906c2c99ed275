//! AF_XDP on veth pairs: the buffer layouts that the stack relies on, native and generic.

use std::fs::{self, DirEntry};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use dev::bpf::link::XdpMode::{Generic, Native};
use dev::bpf::link::{XdpLink, XdpMode};
use dev::bpf::{BpfError, map::XskMap, redirect};
use dev::netlink::{Rtnetlink, Veth, XdpAttachMode};
use dev::sys::xsk::{BindOptions, CopyMode, Queue};
use dev::sys::xsk_ring::Desc;
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};

use crate::support::port::{ALIGNED, Layout, ODD, Port, frame, unbound};
use crate::support::{is_root, netns, veth_up};

/// Runs `body` once per mode, in a namespace with a veth pair of this MTU whose indices it is given.
fn in_both_modes(test: &str, mtu: u32, body: impl Fn([u32; 2], XdpMode) + Sync) {
    if !is_root() {
        return;
    }
    for (mode, mark) in [(Native, "n"), (Generic, "g")] {
        let ns = netns(&format!("{test}-{mark}"));
        ns.run(|| body(veth_up(&Veth { mtu: Some(mtu), ..Veth::new("a", "b") }), mode)).unwrap();
    }
}

/// Sends frames of several lengths from `a` at odd addresses and receives them on `b`.
fn crosses_unharmed(layout: Layout, ends: [u32; 2], mode: XdpMode, longest: usize) {
    let mut a = Port::new(ends[0], mode, layout, &BindOptions::default());
    let mut b = Port::new(ends[1], mode, layout, &BindOptions::default());
    b.fill(0..64);
    let lengths = [60, 61, 590, longest];
    let frames: Vec<Vec<u8>> = (0..40).map(|i| frame(i as u64, lengths[i % 4])).collect();
    let descs: Vec<Desc> = (0..40_u64)
        .zip(&frames)
        .map(|(slot, bytes)| {
            let addr = layout.chunk(slot) + if layout.unaligned { 129 + slot } else { 0 };
            a.memory.write(addr, bytes);
            Desc { addr, len: u32::try_from(bytes.len()).unwrap(), options: 0 }
        })
        .collect();
    let completed = a.send(&descs);
    let even = |addr: u64| addr & !1; // see `CompletionRing::take`
    assert!(completed.iter().copied().map(even).eq(descs.iter().map(|d| even(d.addr))));
    let got = b.receive(40);
    assert_eq!(got.len(), 40);
    for (i, desc) in got.iter().enumerate() {
        let slot = i as u64;
        assert_eq!(desc.data(), layout.data(slot), "the kernel keeps 256 bytes before the data");
        if layout.unaligned {
            assert_eq!(desc.chunk(), layout.chunk(slot), "the chunk can be told from the descriptor");
        }
        assert_eq!(b.memory.read(*desc), frames[i]);
    }
    assert_eq!(b.socket.statistics().unwrap().rx_dropped, 0);
    assert!(!b.socket.is_zero_copy().unwrap());
}

fn chunks_at_an_odd_stride_work_in_copy_mode() {
    in_both_modes("odd", 1500, |ends, mode| crosses_unharmed(ODD, ends, mode, 1514));
}

fn a_frame_of_2048_bytes_fills_an_odd_chunk_to_its_end() {
    in_both_modes("full", 2034, |ends, mode| crosses_unharmed(ODD, ends, mode, 2048));
}

fn aligned_chunks_work_too() {
    in_both_modes("aligned", 1500, |ends, mode| crosses_unharmed(ALIGNED, ends, mode, 1514));
}

fn a_frame_longer_than_a_chunk_is_dropped_and_counted() {
    in_both_modes("long", 3000, |ends, mode| {
        let mut a = Port::new(
            ends[0],
            Generic,
            Layout { chunk_size: 4096, stride: 4096, ..ODD },
            &BindOptions::default(),
        );
        let mut b = Port::new(ends[1], mode, ODD, &BindOptions::default());
        b.fill(0..8);
        let send = |port: &mut Port, len: usize| {
            port.memory.write(64, &frame(1, len));
            port.send(&[Desc { addr: 64, len: u32::try_from(len).unwrap(), options: 0 }]);
        };
        send(&mut a, 2049);
        send(&mut a, 2048);
        assert_eq!(b.receive(1)[0].len, 2048);
        assert_eq!(b.socket.statistics().unwrap().rx_dropped, 1);
    });
}

fn two_interfaces_over_one_memory_forward_by_moving_descriptors() {
    in_both_modes("shared", 1500, |ends, mode| {
        let far = veth_up(&Veth::new("c", "d"));
        let mut source = Port::new(ends[0], mode, ODD, &BindOptions::default());
        let mut near = Port::new(ends[1], mode, ODD, &BindOptions::default());
        let mut out = Port::sharing(&near, far[0], mode);
        let mut sink = Port::new(far[1], mode, ODD, &BindOptions::default());
        near.fill(0..64);
        sink.fill(0..64);
        let bytes = frame(9, 300);
        let sent: Vec<Desc> = (0..20)
            .map(|slot| {
                source.memory.write(ODD.chunk(slot), &bytes);
                Desc { addr: ODD.chunk(slot), len: 300, options: 0 }
            })
            .collect();
        source.send(&sent);
        // Half as the kernel gave them, with the offset in the upper bits; half as plain addresses.
        let moved: Vec<Desc> = near
            .receive(20)
            .into_iter()
            .enumerate()
            .map(|(i, d)| if i % 2 == 0 { d } else { Desc { addr: d.data(), ..d } })
            .collect();
        let completed = out.send(&moved);
        assert_eq!(completed, moved.iter().map(|d| d.addr).collect::<Vec<_>>());
        for desc in sink.receive(20) {
            assert_eq!(sink.memory.read(desc), bytes);
        }
    });
}

fn a_second_interface_over_one_memory_receives_into_its_own_fill_ring() {
    in_both_modes("shared-rx", 1500, |ends, mode| {
        let far = veth_up(&Veth::new("c", "d"));
        let near = Port::new(ends[1], mode, ODD, &BindOptions::default());
        let mut other = Port::sharing(&near, far[0], mode);
        let mut source = Port::new(far[1], mode, ODD, &BindOptions::default());
        other.fill(70..74);
        source.memory.write(64, &frame(3, 100));
        source.send(&[Desc { addr: 64, len: 100, options: 0 }]);
        let got = other.receive(1);
        assert_eq!(got[0].chunk(), ODD.chunk(70));
        assert_eq!(near.memory.read(got[0]), frame(3, 100));
    });
}

fn a_jumbo_frame_comes_in_pieces_with_an_odd_stride() {
    if !is_root() {
        return;
    }
    let ns = netns("jumbo");
    ns.run(|| {
        let ends = veth_up(&Veth { mtu: Some(9000), ..Veth::new("a", "b") });
        let options = BindOptions { multi_buffer: true, ..BindOptions::default() };
        let mut a = Port::new(ends[0], Native, ODD, &options);
        let mut b = Port::new(ends[1], Native, ODD, &options);
        b.fill(0..64);
        let bytes = frame(5, 9014);
        let pieces: Vec<&[u8]> = bytes.chunks(2048).collect();
        let descs: Vec<Desc> = pieces
            .iter()
            .zip(0_u64..)
            .map(|(piece, slot)| {
                let addr = ODD.data(slot);
                a.memory.write(addr, piece);
                let last = slot + 1 == pieces.len() as u64;
                Desc { addr, len: u32::try_from(piece.len()).unwrap(), options: u32::from(!last) }
            })
            .collect();
        a.send(&descs);
        let got = b.receive(5);
        assert_eq!(got.iter().map(|d| d.continues()).collect::<Vec<_>>(), [true, true, true, true, false]);
        assert_eq!(got.iter().map(|d| d.len).collect::<Vec<_>>(), [2048, 2048, 2048, 2048, 822]);
        assert_eq!(
            got.iter().map(|d| d.chunk()).collect::<Vec<_>>(),
            (0..5).map(|s| ODD.chunk(s)).collect::<Vec<_>>()
        );
        assert_eq!(got.iter().flat_map(|d| b.memory.read(*d)).collect::<Vec<_>>(), bytes);
    })
    .unwrap();
}

/// Copies of the descriptors of all links of this process.
fn copies_of_links() -> Vec<OwnedFd> {
    let own = pidfd_open(getpid(), PidfdFlags::empty()).unwrap();
    let number = |entry: io::Result<DirEntry>| {
        let entry = entry.ok()?;
        let is_link = fs::read_link(entry.path()).ok()? == Path::new("anon_inode:bpf_link");
        entry.file_name().to_str()?.parse().ok().filter(|_| is_link)
    };
    let numbers = fs::read_dir("/proc/self/fd").unwrap().filter_map(number);
    numbers.filter_map(|number| pidfd_getfd(&own, number, PidfdGetfdFlags::empty()).ok()).collect()
}

fn the_program_is_on_the_interface_until_it_is_dropped() {
    in_both_modes("attach", 1500, |ends, mode| {
        let attached = || Rtnetlink::open().unwrap().link("b").unwrap().xdp.map(|x| x.mode);
        let map = XskMap::new(1).unwrap();
        let program = redirect::load(&map, false).unwrap();
        let link = XdpLink::attach(&program, ends[1], mode).unwrap();
        assert!(link.ends_with_process());
        let expected = if mode == Native { XdpAttachMode::Native } else { XdpAttachMode::Generic };
        assert_eq!(attached(), Some(expected));
        let second = XdpLink::attach(&program, ends[1], mode).unwrap_err();
        assert!(matches!(second, BpfError::Busy { .. }), "{second}");
        // As a child process has them between `fork` and `exec`.
        let copies = copies_of_links();
        assert!(!copies.is_empty());
        drop(link);
        assert_eq!(attached(), None);
    });
}

fn a_program_attached_by_netlink_stays_until_it_is_detached() {
    in_both_modes("nl-attach", 1500, |ends, mode| {
        let mut nl = Rtnetlink::open().unwrap();
        let program = redirect::load(&XskMap::new(1).unwrap(), false).unwrap();
        nl.attach_xdp(ends[1], &program, if mode == Native { 4 } else { 2 }).unwrap();
        drop(program);
        assert!(nl.link("b").unwrap().xdp.is_some());
        nl.detach_xdp(ends[1]).unwrap();
        assert_eq!(nl.link("b").unwrap().xdp, None);
    });
}

fn what_a_driver_cannot_do_and_what_is_taken_is_said() {
    in_both_modes("refusals", 1500, |ends, mode| {
        let options = BindOptions::default();
        let bind = |ifindex, queue, options| {
            let (socket, rings, memory) = unbound(ODD);
            let result = socket.bind(Queue { ifindex, queue }, options);
            drop((socket, rings, memory));
            result.unwrap_err().to_string()
        };
        let zero_copy = BindOptions { copy: CopyMode::ZeroCopy, ..options };
        let what = bind(ends[1], 0, &zero_copy);
        assert!(what.ends_with("queue 0: the driver does not support zero-copy"), "{what}");
        let _port = Port::new(ends[1], mode, ODD, &options);
        let what = bind(ends[1], 0, &options);
        assert!(what.contains("is used by another AF_XDP socket; stop the program"), "{what}");
        let what = bind(ends[1], 7, &options);
        assert!(what.contains("Invalid argument"), "there is no queue 7: {what}");
    });
}

fn the_transmit_budget_has_limits_and_busy_polling_is_accepted() {
    in_both_modes("budget", 1500, |ends, mode| {
        let port = Port::new(ends[1], mode, ODD, &BindOptions::default());
        port.socket.prefer_busy_poll(20, 64).unwrap();
        port.socket.set_tx_budget(128).unwrap();
        let beyond = port.socket.set_tx_budget(129).unwrap_err();
        assert!(beyond.to_string().contains("32 to the size of the transmit ring"), "{beyond}");
    });
}

harness::tests![
    chunks_at_an_odd_stride_work_in_copy_mode,
    a_frame_of_2048_bytes_fills_an_odd_chunk_to_its_end,
    aligned_chunks_work_too,
    a_frame_longer_than_a_chunk_is_dropped_and_counted,
    two_interfaces_over_one_memory_forward_by_moving_descriptors,
    a_second_interface_over_one_memory_receives_into_its_own_fill_ring,
    a_jumbo_frame_comes_in_pieces_with_an_odd_stride,
    the_program_is_on_the_interface_until_it_is_dropped,
    a_program_attached_by_netlink_stays_until_it_is_detached,
    what_a_driver_cannot_do_and_what_is_taken_is_said,
    the_transmit_budget_has_limits_and_busy_polling_is_accepted,
];
