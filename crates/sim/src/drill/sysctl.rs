//! Variables of the system that scripts set, under their BSD names.

use core::time::Duration;
use std::collections::BTreeMap;

use net::tcp::settings::{Ecn, Settings};

/// The variables, with the values that they have at first.
const VARIABLES: &[(&str, i64)] = &[
    ("kern.ipc.maxsockbuf", 2 << 20),
    ("net.inet.tcp.blackhole", 0),
    ("net.inet.tcp.delacktime", 40),
    ("net.inet.tcp.drop_synfin", 0),
    ("net.inet.tcp.ecn.enable", 2),
    ("net.inet.tcp.ecn.maxretries", 1),
    ("net.inet.tcp.fastopen.client_enable", 1),
    ("net.inet.tcp.hostcache.purgenow", 0),
    ("net.inet.tcp.icmp_may_rst", 1),
    ("net.inet.tcp.insecure_rst", 0),
    ("net.inet.tcp.insecure_syn", 0),
    ("net.inet.tcp.keepcnt", 8),
    ("net.inet.tcp.keepidle", 7_200_000),
    ("net.inet.tcp.keepinit", 75_000),
    ("net.inet.tcp.keepintvl", 75_000),
    ("net.inet.tcp.recvspace", 65_536),
    ("net.inet.tcp.rexmit_drop_options", 0),
    ("net.inet.tcp.rexmit_initial", 1000),
    ("net.inet.tcp.rexmit_slop", 200),
    ("net.inet.tcp.rfc1323", 1),
    ("net.inet.tcp.sack.enable", 1),
    ("net.inet.tcp.sendspace", 32_768),
];

/// Variables that have one value here; a script that wants another is told so.
const FIXED: &[&str] = &["net.inet.tcp.blackhole", "net.inet.tcp.icmp_may_rst", "net.inet.tcp.rexmit_slop"];

/// What the variables say.
#[derive(Clone, Debug)]
pub(super) struct Sysctls {
    values: BTreeMap<&'static str, i64>,
}

impl Default for Sysctls {
    fn default() -> Self {
        Self { values: VARIABLES.iter().copied().collect() }
    }
}

impl Sysctls {
    /// Sets a variable.
    ///
    /// # Errors
    ///
    /// If it is not known, or cannot have this value.
    pub(super) fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let Some((known, first)) = VARIABLES.iter().find(|(known, _)| *known == name) else {
            return Err(format!("{name} is no variable that is known here"));
        };
        let value = value.parse().map_err(|_| format!("{value} is no value of {name}"))?;
        if FIXED.contains(known) && value != *first {
            return Err(format!("{name} is always {first} here"));
        }
        self.values.insert(known, value);
        Ok(())
    }

    /// The value of a variable; 0 if there is none of this name.
    pub(super) fn get(&self, name: &str) -> i64 {
        self.values.get(name).copied().unwrap_or(0)
    }

    /// How connections behave under these values, on a system that sends no tail loss probes and keeps urgent bytes out of
    /// the stream, as the one with these names by default.
    pub(super) fn settings(&self) -> Settings {
        let tcp = |name: &str| self.get(&format!("net.inet.tcp.{name}"));
        let is_on = |name| tcp(name) != 0;
        let bytes = |value: i64| u32::try_from(value).unwrap_or(u32::MAX);
        let ms = |name| Duration::from_millis(u64::try_from(tcp(name)).unwrap_or(0));
        let count = |name| u8::try_from(tcp(name)).unwrap_or(u8::MAX);
        Settings {
            receive_buffer: bytes(tcp("recvspace")),
            receive_buffer_max: bytes(self.get("kern.ipc.maxsockbuf")),
            send_buffer: bytes(tcp("sendspace")),
            extensions: is_on("rfc1323"),
            sack: is_on("sack.enable"),
            ecn: [Ecn::Off, Ecn::Active, Ecn::Passive]
                [usize::try_from(tcp("ecn.enable")).unwrap_or(0).min(2)],
            ecn_retries: count("ecn.maxretries"),
            drops_options: is_on("rexmit_drop_options"),
            initial_rto: ms("rexmit_initial"),
            establish_within: ms("keepinit"),
            keep_idle: ms("keepidle"),
            keep_interval: ms("keepintvl"),
            keep_count: count("keepcnt"),
            delayed_ack: ms("delacktime"),
            insecure_rst: is_on("insecure_rst"),
            insecure_syn: is_on("insecure_syn"),
            drop_synfin: is_on("drop_synfin"),
            tail_loss_probe: false,
            urgent_inline: false,
            ..Settings::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_become_settings_and_unknown_ones_are_refused() {
        let mut sysctls = Sysctls::default();
        assert_eq!(
            sysctls.settings(),
            Settings { tail_loss_probe: false, urgent_inline: false, ..Settings::default() }
        );
        sysctls.set("net.inet.tcp.recvspace", "10000").unwrap();
        sysctls.set("net.inet.tcp.keepinit", "5000").unwrap();
        sysctls.set("net.inet.tcp.ecn.enable", "1").unwrap();
        let settings = sysctls.settings();
        assert_eq!((settings.receive_buffer, settings.ecn), (10_000, Ecn::Active));
        assert_eq!(settings.establish_within, Duration::from_secs(5));
        assert!(sysctls.set("net.inet.tcp.recvspac", "1").is_err());
        assert!(sysctls.set("net.inet.tcp.recvspace", "much").is_err());
        assert!(sysctls.set("net.inet.tcp.blackhole", "2").is_err());
    }
}
