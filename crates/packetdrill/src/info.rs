//! `TCP_INFO` as Linux lays it out (`struct tcp_info` of `linux/tcp.h`).

use sim::drill::Description;

/// Bytes of a field.
#[derive(Clone, Copy)]
enum Width {
    One,
    Two,
    Four,
    Eight,
}

use Width::{Eight, Four, One, Two};

/// Fields in their order; no padding is between them. What the stack does not count is 0.
const LAYOUT: &[(&str, Width)] = &[
    ("tcpi_state", One),
    ("tcpi_ca_state", One),
    ("tcpi_retransmits", One),
    ("tcpi_probes", One),
    ("tcpi_backoff", One),
    ("tcpi_options", One),
    // four bits each, the lower ones those of the other end
    (SHIFTS, One),
    ("tcpi_delivery_rate_app_limited", One),
    ("tcpi_rto", Four),
    ("tcpi_ato", Four),
    ("tcpi_snd_mss", Four),
    ("tcpi_rcv_mss", Four),
    ("tcpi_unacked", Four),
    ("tcpi_sacked", Four),
    ("tcpi_lost", Four),
    ("tcpi_retrans", Four),
    ("tcpi_fackets", Four),
    ("tcpi_last_data_sent", Four),
    ("tcpi_last_ack_sent", Four),
    ("tcpi_last_data_recv", Four),
    ("tcpi_last_ack_recv", Four),
    ("tcpi_pmtu", Four),
    ("tcpi_rcv_ssthresh", Four),
    ("tcpi_rtt", Four),
    ("tcpi_rttvar", Four),
    ("tcpi_snd_ssthresh", Four),
    ("tcpi_snd_cwnd", Four),
    ("tcpi_advmss", Four),
    ("tcpi_reordering", Four),
    ("tcpi_rcv_rtt", Four),
    ("tcpi_rcv_space", Four),
    ("tcpi_total_retrans", Four),
    ("tcpi_pacing_rate", Eight),
    ("tcpi_max_pacing_rate", Eight),
    ("tcpi_bytes_acked", Eight),
    ("tcpi_bytes_received", Eight),
    ("tcpi_segs_out", Four),
    ("tcpi_segs_in", Four),
    ("tcpi_notsent_bytes", Four),
    ("tcpi_min_rtt", Four),
    ("tcpi_data_segs_in", Four),
    ("tcpi_data_segs_out", Four),
    ("tcpi_delivery_rate", Eight),
    ("tcpi_busy_time", Eight),
    ("tcpi_rwnd_limited", Eight),
    ("tcpi_sndbuf_limited", Eight),
    ("tcpi_delivered", Four),
    ("tcpi_delivered_ce", Four),
    ("tcpi_bytes_sent", Eight),
    ("tcpi_bytes_retrans", Eight),
    ("tcpi_dsack_dups", Four),
    ("tcpi_reord_seen", Four),
    ("tcpi_rcv_ooopack", Four),
    ("tcpi_snd_wnd", Four),
    ("tcpi_rcv_wnd", Four),
    ("tcpi_rehash", Four),
    ("tcpi_total_rto", Two),
    ("tcpi_total_rto_recoveries", Two),
    ("tcpi_total_rto_time", Four),
    // of accurate ECN, which is not spoken here
    ("tcpi_received_ce", Four),
    ("tcpi_delivered_e1_bytes", Four),
    ("tcpi_delivered_e0_bytes", Four),
    ("tcpi_delivered_ce_bytes", Four),
    ("tcpi_received_e1_bytes", Four),
    ("tcpi_received_e0_bytes", Four),
    ("tcpi_received_ce_bytes", Four),
    ("tcpi_accecn_fail_mode", Two),
    ("tcpi_accecn_opt_seen", Two),
];
/// Bytes of them, as Linux 6.18 answers.
const LEN: usize = 280;
const SHIFTS: &str = "tcpi_snd_wscale and tcpi_rcv_wscale";

/// Linux' numbers of the states of RFC 9293.
const STATES: &[(&str, u8)] = &[
    ("ESTABLISHED", 1),
    ("SYN-SENT", 2),
    ("SYN-RECEIVED", 3),
    ("FIN-WAIT-1", 4),
    ("FIN-WAIT-2", 5),
    ("TIME-WAIT", 6),
    ("CLOSED", 7),
    ("CLOSE-WAIT", 8),
    ("LAST-ACK", 9),
    ("LISTEN", 10),
    ("CLOSING", 11),
];

/// The bytes of the structure.
pub(crate) fn bytes(description: &Description) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(LEN);
    for (name, width) in LAYOUT {
        let value = u64::try_from(value(name, description)).unwrap_or(u64::MAX);
        match width {
            One => bytes.push(u8::try_from(value).unwrap_or(u8::MAX)),
            Two => bytes.extend(u16::try_from(value).unwrap_or(u16::MAX).to_ne_bytes()),
            Four => bytes.extend(u32::try_from(value).unwrap_or(u32::MAX).to_ne_bytes()),
            Eight => bytes.extend(value.to_ne_bytes()),
        }
    }
    bytes
}

fn value(name: &str, description: &Description) -> i128 {
    let field = |name| description.field(name).unwrap_or(0);
    match name {
        "tcpi_state" => {
            let number = STATES.iter().find(|(known, _)| *known == description.state);
            number.map_or(0, |(_, number)| i128::from(*number))
        }
        SHIFTS => field("tcpi_snd_wscale") | field("tcpi_rcv_wscale") << 4,
        name => field(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_stand_where_linux_has_them() {
        let width = |width: &Width| match width {
            One => 1,
            Two => 2,
            Four => 4,
            Eight => 8,
        };
        let at = |wanted| {
            let before = LAYOUT.iter().take_while(|(name, _)| *name != wanted);
            before.map(|(_, field)| width(field)).sum::<usize>()
        };
        for (name, offset) in [
            ("tcpi_rto", 8),
            ("tcpi_unacked", 24),
            ("tcpi_rtt", 68),
            ("tcpi_snd_cwnd", 80),
            ("tcpi_total_retrans", 100),
            ("tcpi_pacing_rate", 104),
            ("tcpi_segs_out", 136),
            ("tcpi_delivery_rate", 160),
            ("tcpi_delivered", 192),
            ("tcpi_snd_wnd", 228),
            ("tcpi_total_rto", 240),
            ("tcpi_received_ce", 248),
            ("tcpi_accecn_opt_seen", 278),
        ] {
            assert_eq!(at(name), offset, "{name}");
        }
        let listens = Description { state: "LISTEN", known: None };
        assert_eq!((bytes(&listens).len(), bytes(&listens)[0]), (LEN, 10));
        for (name, _) in LAYOUT {
            assert_eq!(
                at(name) % width(&LAYOUT.iter().find(|(known, _)| known == name).unwrap().1),
                0,
                "{name}"
            );
        }
    }
}
