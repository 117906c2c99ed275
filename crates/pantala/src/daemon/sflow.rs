//! Export of samples: a capture of one in so many received frames, which the control thread reads once a second, and counters of
//! interfaces.
//!
//! Without `[sflow]` it waits for a reload, and does nothing else.

use core::convert::Infallible;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::time::Duration;
use std::collections::HashMap;
use std::io;
use std::net::UdpSocket;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use net::capture::{self, Buffer, CaptureId, Counts, Places, Selection};
use net::logical::Kind;
use net::tables::{IfIndex, Ifnet};
use tokio::sync::Notify;
use tokio::time::{MissedTickBehavior, interval};
use wire::ether::HEADER_LEN;

use super::control::Control;
use super::{locked, log};
use crate::api::{Error, ErrorKind, Interface, InterfaceFlag, SflowStatus};
use crate::config::Sflow;
use crate::sflow::datagram::{CountersSample, FlowSample, Sample, Stream};

const PERIOD: Duration = Duration::from_secs(1);
/// The number of the capture; those of users count from 1.
const SAMPLES: CaptureId = CaptureId(0);
/// Bytes of samples that a netisr keeps until they are taken.
const STORE: usize = 256 << 10;

/// The exporter, as the control thread knows it.
#[derive(Default)]
pub(super) struct SflowService {
    /// Told of another configuration.
    pub(super) changed: Arc<Notify>,
    counts: Option<SflowStatus>,
}

impl Control {
    /// Returns the exporter's collector and counters, if there is one.
    pub(super) fn sflow_status(&self) -> Option<SflowStatus> {
        self.sflow.counts.clone()
    }

    /// Attaches the capture of samples to all netisrs.
    fn begin_samples(&self, settings: &Sflow) -> Result<(), Error> {
        let selection = Arc::new(Selection {
            interfaces: None,
            places: Places { rx: true, ..Places::default() },
            snap_len: usize::try_from(settings.header).unwrap_or(usize::MAX),
            filter: None,
            sampling: Some(settings.sampling),
        });
        for cpu in 0..self.cpus.iter().count() {
            let (selection, store) = (Arc::clone(&selection), Buffer::new(STORE));
            let attached = self
                .cpus
                .call(cpu, move |netisr| capture::attach(&mut netisr.cpu, SAMPLES, selection, store))?;
            if let Err(capture::TooMany) = attached {
                self.end_samples();
                let help = "end one of the captures that run, and reload";
                return Err(Error::new(ErrorKind::Busy, "too many captures").hint(help));
            }
        }
        Ok(())
    }

    fn end_samples(&self) {
        for cpu in 0..self.cpus.iter().count() {
            // A netisr that does not answer is about to end. The memory of its buffer is given back here.
            let _ = self.cpus.call(cpu, |netisr| capture::detach(&mut netisr.cpu, SAMPLES));
        }
    }

    /// Returns what was sampled since the last call.
    fn take_samples(&self) -> Result<(Vec<Buffer>, Counts), Error> {
        let (mut taken, mut counts) = (Vec::new(), Counts::default());
        for cpu in 0..self.cpus.iter().count() {
            let empty = Buffer::new(STORE);
            let swapped =
                self.cpus.call(cpu, move |netisr| capture::swap(&mut netisr.cpu, SAMPLES, empty))?;
            let missing = || Error::new(ErrorKind::NotFound, "there is no capture of samples");
            let (buffer, here) = swapped.ok_or_else(missing)?;
            counts.matched += here.matched;
            counts.lost += here.lost;
            taken.push(buffer);
        }
        Ok((taken, counts))
    }
}

/// An exporter and its socket.
struct Running {
    settings: Sflow,
    stream: Stream,
    socket: UdpSocket,
    begun: Instant,
    polled: Option<Instant>,
    status: SflowStatus,
}

impl Running {
    fn open(settings: Sflow, control: &Arc<Mutex<Control>>) -> Result<Self, String> {
        let (socket, agent) = socket(&settings).map_err(|why| why.to_string())?;
        locked(control).begin_samples(&settings).map_err(|why| why.error)?;
        Ok(Self {
            settings,
            stream: Stream::new(agent),
            socket,
            begun: Instant::now(),
            polled: None,
            status: SflowStatus {
                collector: settings.collector,
                flow_samples: 0,
                counter_samples: 0,
                datagrams: 0,
                lost: 0,
                dropped: 0,
            },
        })
    }

    /// Takes what was sampled, asks for counters where it is time for them, and sends both.
    fn report(&mut self, control: &Arc<Mutex<Control>>) -> Result<(), Error> {
        let (taken, counts, interfaces, raw) = {
            let mut control = locked(control);
            let (taken, counts) = control.take_samples()?;
            let reports = control.cpus.reports()?;
            let is_raw = |ifnet: &&Ifnet| ifnet.kind == Kind::RawIp;
            let raw: Vec<IfIndex> = control.tables.ifnets().filter(is_raw).map(|ifnet| ifnet.index).collect();
            (taken, counts, control.interfaces_by(&reports), raw)
        };
        self.status.dropped = counts.lost;
        let mut samples = self.flows(&taken, &interfaces, &raw);
        let period = Duration::from_secs(self.settings.polling_s.into());
        if self.polled.is_none_or(|polled| polled.elapsed() >= period) {
            self.polled = Some(Instant::now());
            samples.extend(interfaces.iter().map(counters));
        }
        self.send(&samples);
        locked(control).sflow.counts = Some(self.status.clone());
        Ok(())
    }

    /// Makes samples; packets of the interfaces in `raw` have no link header.
    fn flows(&self, taken: &[Buffer], interfaces: &[Interface], raw: &[IfIndex]) -> Vec<Sample> {
        let received: HashMap<u32, &Interface> =
            interfaces.iter().map(|interface| (interface.index, interface)).collect();
        let sample = |(record, bytes): (&capture::Record, &[u8])| {
            let interface = received.get(&u32::from(record.ifindex));
            let is_ethernet = !raw.contains(&record.ifindex);
            let (bytes, len) = told(bytes, record.len, is_ethernet);
            Sample::Flow(FlowSample {
                ifindex: record.ifindex.into(),
                rate: self.settings.sampling.get(),
                pool: interface.map_or(0, |interface| interface.counters.rx_packets),
                drops: self.status.dropped,
                is_ethernet,
                len,
                bytes: bytes.to_vec(),
            })
        };
        taken.iter().flat_map(Buffer::packets).map(sample).collect()
    }

    fn send(&mut self, samples: &[Sample]) {
        let uptime_ms = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        let mut rest = samples;
        while !rest.is_empty() {
            let before = rest;
            let datagram = self.stream.datagram(uptime_ms, &mut rest);
            let told = &before[..before.len() - rest.len()];
            if self.socket.send_to(&datagram, self.settings.collector).is_err() {
                self.status.lost += told.len() as u64;
                continue;
            }
            let flows = told.iter().filter(|sample| matches!(sample, Sample::Flow(_))).count() as u64;
            self.status.datagrams += 1;
            self.status.flow_samples += flows;
            self.status.counter_samples += told.len() as u64 - flows;
        }
    }
}

/// The bytes of a frame that are told, and its length. A packet of a device without frames has a link header of zeros here.
fn told(bytes: &[u8], len: u32, is_ethernet: bool) -> (&[u8], u32) {
    if is_ethernet {
        return (bytes, len);
    }
    let link = u32::try_from(HEADER_LEN).unwrap_or(0);
    (bytes.get(HEADER_LEN..).unwrap_or_default(), len.saturating_sub(link))
}

/// A socket, and the address of this machine that the collector sees.
fn socket(settings: &Sflow) -> io::Result<(UdpSocket, IpAddr)> {
    let any: IpAddr = match settings.collector {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let agent = match settings.agent {
        Some(agent) => agent,
        None => {
            // A route to the collector says which address is used; it may come later.
            let probe = UdpSocket::bind((any, 0))?;
            let reached = probe.connect(settings.collector).and_then(|()| probe.local_addr());
            reached.map_or(any, |own| own.ip())
        }
    };
    let socket = UdpSocket::bind((any, 0))?;
    socket.set_nonblocking(true)?;
    Ok((socket, agent))
}

fn counters(interface: &Interface) -> Sample {
    let Interface { index, flags, counters, mac, link, .. } = interface;
    Sample::Counters(CountersSample {
        ifindex: *index,
        is_ethernet: mac.is_some(),
        is_up: flags.contains(&InterfaceFlag::Up),
        has_carrier: link.active,
        is_promiscuous: flags.contains(&InterfaceFlag::Promisc),
        rx_bytes: counters.rx_bytes,
        rx_packets: counters.rx_packets,
        rx_drops: counters.rx_drops,
        rx_errors: counters.rx_errors,
        tx_bytes: counters.tx_bytes,
        tx_packets: counters.tx_packets,
        tx_drops: counters.tx_drops,
        tx_errors: counters.tx_errors,
    })
}

/// Exports samples while the configuration says so.
pub(super) async fn serve(control: &Arc<Mutex<Control>>) -> Infallible {
    let changed = Arc::clone(&locked(control).sflow.changed);
    let mut running: Option<Running> = None;
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let wanted = locked(control).config.sflow;
        if running.as_ref().map(|running| running.settings) != wanted {
            if running.take().is_some() {
                let mut control = locked(control);
                control.end_samples();
                control.sflow.counts = None;
            }
            running = wanted.and_then(|settings| open(settings, control));
        }
        let Some(exports) = &mut running else {
            changed.notified().await;
            continue;
        };
        tokio::select! {
            () = changed.notified() => continue,
            _ = ticks.tick() => {}
        }
        if let Err(why) = exports.report(control) {
            log::warning(&format!("sFlow: samples cannot be read: {}", why.error));
        }
    }
}

fn open(settings: Sflow, control: &Arc<Mutex<Control>>) -> Option<Running> {
    log::info(&format!("one of {} frames is told to {}", settings.sampling, settings.collector));
    let opened = Running::open(settings, control);
    opened.inspect_err(|why| log::warning(&format!("sFlow to {}: {why}", settings.collector))).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_without_a_link_header_is_told_without_the_one_that_a_capture_gives_it() {
        let frame: Vec<u8> = (0..60).collect();
        assert_eq!(told(&frame, 100, true), (&frame[..], 100));
        assert_eq!(told(&frame, 100, false), (&frame[14..], 86));
        assert_eq!(told(&frame[..9], 9, false), (&[][..], 0));
    }
}
