//! Captures of the running stack.

use std::sync::Arc;

use net::capture::{self, Buffer, CAPTURES_MAX, CaptureId, Counts, Place, Places, Record, Selection};
use net::tables::IfIndex;
use wire::bpf::{Insn, Program};
use wire::ether::HEADER_LEN;
use wire::pcap::{self, Direction, Statistics};

use super::super::control::Control;
use crate::api::wall_ns;
use crate::api::{CaptureBatch, CapturePlace, CaptureRequest, Error, ErrorKind};

/// Captures that run, and traces.
#[derive(Default)]
pub(in super::super) struct Captures {
    list: Vec<Running>,
    last: u32,
    /// Packets that are still to be traced, while any is.
    pub(super) tracing: Option<u32>,
}

/// A capture.
struct Running {
    id: u32,
    /// When the stack's clock began, nanoseconds since 1970.
    start_ns: u64,
    /// For each CPU, the buffer that is not being filled.
    spares: Vec<Buffer>,
    /// Whether packets without a link header get one of zeros.
    with_link_header: bool,
    /// The interfaces that have been described, in their order in the file, and their link types.
    interfaces: Vec<(IfIndex, u16)>,
    /// Blocks that have not been read yet.
    head: Vec<u8>,
    /// Whether dropped packets are captured.
    wants_drops: bool,
}

impl Captures {
    /// Whether one of them captures dropped packets.
    pub(in super::super) fn want_drops(&self) -> bool {
        self.list.iter().any(|running| running.wants_drops)
    }
}

impl Control {
    /// Attaches a capture to all netisrs.
    pub(super) fn attach_capture(&mut self, request: &CaptureRequest) -> Result<u32, Error> {
        if self.captures.list.len() >= CAPTURES_MAX {
            let busy = Error::new(ErrorKind::Busy, format!("{CAPTURES_MAX} captures are running"));
            return Err(busy.hint("end one of them"));
        }
        let selection = Arc::new(self.selection(request)?);
        // 0 is that of samples.
        self.captures.last = self.captures.last.checked_add(1).unwrap_or(1);
        let (id, cpus) = (self.captures.last, self.cpus.iter().count());
        let bytes = usize::try_from(request.buffer_kib).unwrap_or(usize::MAX).saturating_mul(1024);
        let start_ns = self.started_at();
        let indexes = selection.interfaces.clone().unwrap_or_else(|| self.devices());
        let mut running = Running {
            id,
            start_ns,
            spares: Vec::new(),
            with_link_header: request.with_link_header,
            interfaces: Vec::new(),
            head: Vec::new(),
            wants_drops: false,
        };
        pcap::section(&mut running.head);
        for index in indexes {
            running.interface(index, || self.described_as(index));
        }
        if running.interfaces.is_empty() {
            return Err(Error::new(ErrorKind::NotFound, "there is no interface to capture on"));
        }
        running.spares.resize_with(cpus, || Buffer::new(bytes));
        running.wants_drops = selection.places.drops;
        self.captures.list.push(running);
        self.hand_up_dropped();
        for cpu in 0..cpus {
            let (selection, store) = (Arc::clone(&selection), Buffer::new(bytes));
            let attach = move |netisr: &mut net::netisr::Netisr| {
                capture::attach(&mut netisr.cpu, CaptureId(id), selection, store)
            };
            let attached = self.cpus.call(cpu, attach).and_then(|attached| {
                attached.map_err(|capture::TooMany| Error::new(ErrorKind::Busy, "too many captures"))
            });
            if let Err(why) = attached {
                self.detach_capture(id);
                return Err(why);
            }
        }
        Ok(id)
    }

    fn selection(&self, request: &CaptureRequest) -> Result<Selection, Error> {
        let indexes = request.interfaces.iter().map(|name| self.captured(name));
        let indexes = indexes.collect::<Result<Vec<_>, _>>()?;
        let insns = request.filter.iter().map(|&(code, jt, jf, k)| Insn { code, jt, jf, k });
        let insns: Box<[Insn]> = insns.collect();
        let filter = if insns.is_empty() { None } else { Some(Program::new(insns)) };
        let filter =
            filter.transpose().map_err(|why| Error::new(ErrorKind::Invalid, format!("filter: {why}")))?;
        let has = |place| request.places.contains(&place);
        Ok(Selection {
            interfaces: (!indexes.is_empty()).then_some(indexes),
            places: Places {
                rx: has(CapturePlace::In),
                tx: has(CapturePlace::Out),
                drops: has(CapturePlace::Drop),
            },
            snap_len: usize::try_from(request.snap_len).unwrap_or(usize::MAX),
            filter,
            sampling: None,
        })
    }

    /// Name and link type of an interface. One that is gone has neither.
    fn described_as(&self, index: IfIndex) -> (String, u16) {
        let is_bare = self.tables.ifnet(index).is_some_and(|ifnet| ifnet.kind.is_point_to_point());
        let link_type = if is_bare { pcap::RAW } else { pcap::ETHERNET };
        (self.name_of(index).unwrap_or_default(), link_type)
    }

    /// Interfaces that have frames of their own.
    fn devices(&self) -> Vec<IfIndex> {
        let devices = self.tables.ifnets().filter(|ifnet| ifnet.kind.is_device());
        devices.map(|ifnet| ifnet.index).collect()
    }

    /// The index of an interface by which packets come and go.
    fn captured(&self, name: &str) -> Result<IfIndex, Error> {
        let index = self.interface(name).ok_or_else(|| self.no_interface(name))?.index;
        if self.tables.ifnet(index).is_some_and(|ifnet| ifnet.kind.is_loopback()) {
            let error = format!("no packet comes or goes by `{name}`");
            let hint = "capture where packets to its addresses arrive, with a filter";
            return Err(Error::new(ErrorKind::Unsupported, error).hint(hint));
        }
        Ok(index)
    }

    /// Returns what was captured since the last call.
    pub(super) fn take_captured(&mut self, id: u32) -> Result<CaptureBatch, Error> {
        let missing = || Error::new(ErrorKind::NotFound, "there is no such capture");
        let at = self.captures.list.iter().position(|running| running.id == id).ok_or_else(missing)?;
        // Before buffers are taken: what was seen until then is in them.
        let read_ns = wall_ns();
        let mut counts = Counts::default();
        let mut taken = Vec::new();
        for cpu in 0..self.captures.list[at].spares.len() {
            let mut empty = core::mem::take(&mut self.captures.list[at].spares[cpu]);
            empty.clear();
            let swap =
                move |netisr: &mut net::netisr::Netisr| capture::swap(&mut netisr.cpu, CaptureId(id), empty);
            let (buffer, here) = self.cpus.call(cpu, swap)?.ok_or_else(missing)?;
            counts.matched += here.matched;
            counts.lost += here.lost;
            taken.push(buffer);
        }
        let mut running = self.captures.list.swap_remove(at);
        let batch = self.described(&mut running, &taken, (read_ns, counts));
        running.spares = taken;
        self.captures.list.push(running);
        Ok(batch)
    }

    /// Writes the packets of all CPUs as blocks, in the order of their times.
    fn described(
        &self,
        running: &mut Running,
        taken: &[Buffer],
        (read_ns, counts): (u64, Counts),
    ) -> CaptureBatch {
        let mut packets: Vec<(&Record, &[u8])> = taken.iter().flat_map(Buffer::packets).collect();
        packets.sort_by_key(|(record, _)| record.at);
        for (record, bytes) in packets {
            let (interface, link_type) =
                running.interface(record.ifindex, || self.described_as(record.ifindex));
            let at_ns = running.start_ns + record.at.ns();
            let reason = match record.place {
                Place::Drop(reason) => format!("dropped: {} ({})", reason.sentence(), reason.name()),
                Place::In | Place::Out => String::new(),
            };
            let direction = match record.place {
                Place::In => Some(Direction::In),
                Place::Out => Some(Direction::Out),
                Place::Drop(_) => None,
            };
            let skip = if link_type == pcap::RAW { HEADER_LEN } else { 0 };
            let len = record.len.saturating_sub(u32::try_from(skip).unwrap_or(0));
            let bytes = bytes.get(skip..).unwrap_or_default();
            let packet = pcap::Packet { interface, at_ns, len, bytes, direction, comment: &reason };
            pcap::packet(&mut running.head, &packet);
        }
        let counts = Statistics { accepted: counts.matched, lost: counts.lost };
        pcap::statistics(&mut running.head, read_ns, counts);
        let is_filling = taken.iter().any(Buffer::is_filling);
        CaptureBatch { pcapng: core::mem::take(&mut running.head), is_filling }
    }

    /// Ends a capture, if it is there.
    pub(super) fn detach_capture(&mut self, id: u32) {
        self.captures.list.retain(|running| running.id != id);
        for cpu in 0..self.cpus.iter().count() {
            // A netisr that does not answer is about to end. The memory of its buffer is given back here.
            let _ = self.cpus.call(cpu, move |netisr| capture::detach(&mut netisr.cpu, CaptureId(id)));
        }
        self.hand_up_dropped();
    }

    /// Lets drivers hand up what XDP programs drop, while a capture wants to see it.
    fn hand_up_dropped(&self) {
        let on = self.captures.want_drops();
        self.attached.iter().for_each(|interface| interface.hold.hand_up_dropped(on));
    }
}

impl Running {
    /// The number of an interface in the file, where it is described if it is not yet, and its link type.
    fn interface(&mut self, index: IfIndex, described: impl FnOnce() -> (String, u16)) -> (u32, u16) {
        let known = self.interfaces.iter().position(|(known, _)| *known == index);
        let at = known.unwrap_or_else(|| {
            let (name, own) = described();
            let link_type = if self.with_link_header { pcap::ETHERNET } else { own };
            pcap::interface(&mut self.head, link_type, &name);
            self.interfaces.push((index, link_type));
            self.interfaces.len() - 1
        });
        let link_type = self.interfaces.get(at).map_or(pcap::ETHERNET, |(_, link_type)| *link_type);
        (u32::try_from(at).unwrap_or(0), link_type)
    }
}
