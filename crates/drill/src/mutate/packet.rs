//! Packets.

use super::{Changes, Field, Role, Rules, around16, around32, option};
use crate::packet::{Ecn, Flags, Icmp, IcmpCode, IcmpKind, Packet, Payload, Quote, Seq, SeqStart, Tcp};
use crate::script::{Action, At, Event};

pub(super) fn packet(changes: &mut Changes<'_>, packet: &Packet, rules: &Rules) {
    ip(changes, packet);
    if let Some(ports) = packet.ports {
        for (which, edit) in [("source", true), ("destination", false)] {
            let port = if edit { ports.src } else { ports.dst };
            let now = port.wrapping_add(1);
            changes.add(ports.pos, Field::Port, format!("{which} port {port} → {now}"), |event| {
                with_packet(event, |packet| {
                    if let Some(ports) = &mut packet.ports {
                        *(if edit { &mut ports.src } else { &mut ports.dst }) = now;
                    }
                });
            });
        }
    }
    match &packet.payload {
        Payload::Tcp(tcp) => {
            self::tcp(changes, tcp);
            option::options(changes, &tcp.options, rules);
        }
        Payload::Udp(len) => {
            for now in around16(len.value) {
                changes.add(len.pos, Field::Len, format!("udp ({}) → ({now})", len.value), |event| {
                    with_packet(event, |packet| packet.payload = Payload::Udp(At::new(len.pos, now)));
                });
            }
        }
        Payload::Icmp(icmp) => self::icmp(changes, icmp),
    }
}

fn with_packet(event: &mut Event, edit: impl FnOnce(&mut Packet)) {
    if let Action::Packet(packet) = &mut event.action {
        edit(packet);
    }
}

pub(super) fn with_tcp(event: &mut Event, edit: impl FnOnce(&mut Tcp)) {
    with_packet(event, |packet| {
        if let Payload::Tcp(tcp) = &mut packet.payload {
            edit(tcp);
        }
    });
}

fn with_icmp(event: &mut Event, edit: impl FnOnce(&mut Icmp)) {
    with_packet(event, |packet| {
        if let Payload::Icmp(icmp) = &mut packet.payload {
            edit(icmp);
        }
    });
}

fn ip(changes: &mut Changes<'_>, packet: &Packet) {
    let ip = packet.ip;
    if let Some(dscp) = ip.dscp {
        let now = dscp.value ^ 1;
        changes.add(dscp.pos, Field::Ip, format!("dscp {:#04x} → {now:#04x}", dscp.value), |event| {
            with_packet(event, |packet| packet.ip.dscp = Some(At::new(dscp.pos, now)));
        });
    }
    if let Some(ecn) = ip.ecn {
        let differs = |now: Ecn| match ecn.value {
            // a part of what it allows is no other demand
            Ecn::Ect01 => !matches!(now, Ecn::Ect0 | Ecn::Ect1 | Ecn::Ect01),
            was => now != was && now != Ecn::Ect01,
        };
        for (_, now) in Ecn::NAMES.into_iter().filter(|(_, now)| differs(*now)) {
            changes.add(ecn.pos, Field::Ip, format!("{} → {now}", ecn.value), |event| {
                with_packet(event, |packet| packet.ip.ecn = Some(At::new(ecn.pos, now)));
            });
        }
    }
    if let Some(ttl) = ip.ttl {
        for now in [ttl.wrapping_add(1), ttl.wrapping_sub(1)] {
            changes.add(ttl.pos, Field::Ip, format!("ttl {} → {now}", ttl.value), |event| {
                with_packet(event, |packet| packet.ip.ttl = Some(At::new(ttl.pos, now)));
            });
        }
    }
    if let Some(label) = ip.flow_label {
        let now = label.value ^ 1;
        changes.add(label.pos, Field::Ip, format!("flowlabel {:#x} → {now:#x}", label.value), |event| {
            with_packet(event, |packet| packet.ip.flow_label = Some(At::new(label.pos, now)));
        });
    }
}

fn tcp(changes: &mut Changes<'_>, tcp: &Tcp) {
    let flags = tcp.flags;
    for (_, flag) in Flags::LETTERS {
        let now = flags.toggle(flag);
        changes.add(flags.pos, Field::Flags, format!("{} → {now}", flags.value), |event| {
            with_tcp(event, |tcp| tcp.flags.value = now);
        });
    }
    let role = changes.role;
    for (field, now) in moved(tcp.seq.value) {
        // where its numbers begin, the stack chooses: the script only says what it calls it
        let is_name = field == Field::Seq && flags.contains(Flags::SYN);
        changes.role = if is_name { Role::Stimulus } else { role };
        changes.add(tcp.seq.pos, field, format!("{} → {now}", tcp.seq.value), |event| {
            with_tcp(event, |tcp| tcp.seq.value = now);
        });
    }
    changes.role = role;
    for (ack, now) in tcp.ack.into_iter().flat_map(|ack| around32(ack.value).map(|now| (ack, now))) {
        changes.add(ack.pos, Field::Ack, format!("ack {} → {now}", ack.value), |event| {
            with_tcp(event, |tcp| tcp.ack = Some(At::new(ack.pos, now)));
        });
    }
    for (window, now) in tcp.window.into_iter().flat_map(|win| around16(win.value).map(|now| (win, now))) {
        changes.add(window.pos, Field::Window, format!("win {} → {now}", window.value), |event| {
            with_tcp(event, |tcp| tcp.window = Some(At::new(window.pos, now)));
        });
    }
    for (urgent, now) in tcp.urgent.into_iter().flat_map(|urg| around16(urg.value).map(|now| (urg, now))) {
        changes.add(urgent.pos, Field::Urgent, format!("urg {} → {now}", urgent.value), |event| {
            with_tcp(event, |tcp| tcp.urgent = Some(At::new(urgent.pos, now)));
        });
    }
}

/// Returns the segment with another number, or another length.
fn moved(seq: Seq) -> Vec<(Field, Seq)> {
    let starts: Vec<SeqStart> = match seq.start {
        SeqStart::Relative(start) => around32(start).map(SeqStart::Relative).into(),
        SeqStart::Absolute(start) => around32(start).map(SeqStart::Absolute).into(),
        SeqStart::Any => Vec::new(),
    };
    let starts = starts.into_iter().map(|start| (Field::Seq, Seq { start, ..seq }));
    let lens = [seq.len.checked_add(1), seq.len.checked_sub(1)].into_iter().flatten();
    starts.chain(lens.map(|len| (Field::Len, Seq { len, ..seq }))).collect()
}

fn icmp(changes: &mut Changes<'_>, icmp: &Icmp) {
    if let (Some(code), None) = (icmp.code, icmp.mtu) {
        // a name may mean one number in IPv4 and another in IPv6
        let meant = [false, true].map(|is_ipv6| code.number(icmp.kind.value, is_ipv6));
        let now = IcmpCode::Number((1..u8::MAX).find(|number| !meant.contains(&Some(*number))).unwrap_or(0));
        changes.add(code.pos, Field::Icmp, "another code".to_owned(), |event| {
            with_icmp(event, |icmp| icmp.code = Some(At::new(code.pos, now)));
        });
    }
    if let IcmpKind::Number(number) = icmp.kind.value {
        let now = number.wrapping_add(1);
        changes.add(icmp.kind.pos, Field::Icmp, format!("type_{number} → type_{now}"), |event| {
            with_icmp(event, |icmp| icmp.kind.value = IcmpKind::Number(now));
        });
    }
    for (mtu, now) in icmp.mtu.into_iter().flat_map(|mtu| around32(mtu.value).map(|now| (mtu, now))) {
        changes.add(mtu.pos, Field::Icmp, format!("mtu {} → {now}", mtu.value), |event| {
            with_icmp(event, |icmp| icmp.mtu = Some(At::new(mtu.pos, now)));
        });
    }
    for (id, now) in icmp.id.into_iter().flat_map(|id| around16(id.value).map(|now| (id, now))) {
        changes.add(id.pos, Field::Icmp, format!("id {} → {now}", id.value), |event| {
            with_icmp(event, |icmp| icmp.id = Some(At::new(id.pos, now)));
        });
    }
    let Some(quote) = icmp.quote else { return };
    let quotes: Vec<Quote> = match quote.value {
        Quote::Tcp(seq) => moved(seq).into_iter().map(|(_, seq)| Quote::Tcp(seq)).collect(),
        Quote::Udp(len) => around16(len).map(Quote::Udp).into(),
        Quote::Raw(len) => around16(len).map(Quote::Raw).into(),
    };
    for now in quotes {
        changes.add(quote.pos, Field::Icmp, "another quotation".to_owned(), |event| {
            with_icmp(event, |icmp| icmp.quote = Some(At::new(quote.pos, now)));
        });
    }
}
