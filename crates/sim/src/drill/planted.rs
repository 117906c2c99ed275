//! Faults of the stack, for tests of the tests: a script must notice them.

use core::cell::Cell;

use wire::checksum::Sum;
use wire::protocol::Protocol;
use wire::{ip4, ip6};

/// A fault of the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The payload of each segment is rotated by one byte.
    PayloadsRotated,
    /// Read bytes are rotated by one.
    ReadsRotated,
    /// A bit of the last byte that is read is wrong.
    ReadsWrong,
}

thread_local! {
    static FAULT: Cell<Option<Fault>> = const { Cell::new(None) };
}

/// Runs with a fault.
pub(super) fn with<T>(fault: Fault, run: impl FnOnce() -> T) -> T {
    FAULT.set(Some(fault));
    let result = run();
    FAULT.set(None);
    result
}

/// A packet as the faulty stack sends it. Its checksum is right.
pub(super) fn sent(mut packet: Vec<u8>) -> Vec<u8> {
    if FAULT.get() != Some(Fault::PayloadsRotated) {
        return packet;
    }
    let (ip, pseudo) = if let Ok(view) = ip4::View::new(&packet) {
        let len = u16::try_from(view.payload().len()).unwrap();
        (packet.len() - view.payload().len(), Sum::pseudo_v4(view.src(), view.dst(), Protocol::TCP, len))
    } else {
        let view = ip6::View::new(&packet).unwrap();
        let len = u32::try_from(view.payload().len()).unwrap();
        (ip6::HEADER_LEN, Sum::pseudo_v6(view.src(), view.dst(), Protocol::TCP, len))
    };
    let protocol = if packet[0] >> 4 == 4 { packet[9] } else { packet[6] };
    if protocol == Protocol::TCP.0 {
        let segment = &mut packet[ip..];
        let header = usize::from(segment[12] >> 4) * 4;
        let payload = &mut segment[header..];
        payload.rotate_left(usize::from(!payload.is_empty()));
        segment[16..18].fill(0);
        let sum = pseudo.bytes(segment).checksum();
        segment[16..18].copy_from_slice(&sum.to_be_bytes());
    }
    packet
}

/// Bytes as the faulty stack gives them to a program.
pub(super) fn read(mut bytes: Vec<u8>) -> Vec<u8> {
    match FAULT.get() {
        Some(Fault::ReadsRotated) if !bytes.is_empty() => bytes.rotate_left(1),
        Some(Fault::ReadsWrong) => bytes.last_mut().into_iter().for_each(|byte| *byte ^= 1),
        _ => {}
    }
    bytes
}
