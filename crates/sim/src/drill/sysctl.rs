//! Variables of the system that scripts set, under their BSD names.

use core::time::Duration;
use std::collections::BTreeMap;

use net::sysctl::{self, Variable};
use net::tcp::settings::Settings;

use super::linux::{self, sysctl::Meaning};

/// Variables that are there for scripts alone, with the values that they have at first. A socket asks for Fast Open itself,
/// and there is no other way to forget at once what was learned of destinations. No script fills the table of half-open
/// connections, so that none sees whether there are cookies when it is full.
const OWN: &[(&str, i64)] = &[
    (FASTOPEN_CLIENT, 1),
    (SHARED_SECRET, 0),
    ("net.inet.tcp.hostcache.purgenow", 0),
    ("net.inet.tcp.syncookies", 1),
];
/// Sockets that ask for it bring data with their SYN.
pub(super) const FASTOPEN_CLIENT: &str = "net.inet.tcp.fastopen.client_enable";
/// Cookies from a secret shared in advance: not supported here.
const SHARED_SECRET: &str = "net.inet.tcp.fastopen.psk_enable";

/// Values of the variables.
#[derive(Clone, Debug)]
pub(super) struct Sysctls {
    stack: sysctl::Sysctls,
    own: BTreeMap<&'static str, i64>,
}

/// Time for which a SYN is sent again on the system with these names.
const KEEPINIT: Duration = Duration::from_secs(75);

/// Defaults of the system with these names: it sends no tail loss probes, keeps urgent bytes out of the stream,
/// gives up sooner without replies, and closes with bytes unread as without.
impl Default for Sysctls {
    fn default() -> Self {
        let mut stack = sysctl::Sysctls::default();
        stack.tcp = Settings {
            tail_loss_probe: false,
            urgent_inline: false,
            resets_unread: false,
            establish_within: KEEPINIT,
            ..stack.tcp
        };
        Self { stack, own: OWN.iter().copied().collect() }
    }
}

impl Sysctls {
    /// Sets a variable.
    ///
    /// # Errors
    ///
    /// If it is not known, or cannot have this value.
    pub(super) fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        if name == SHARED_SECRET && value != "0" {
            return Err(format!("{name} is always 0 here"));
        }
        if let Some(own) = self.own.get_mut(name) {
            *own = value.parse().map_err(|_| format!("{value} is no value of {name}"))?;
            return Ok(());
        }
        match linux::sysctl::meaning(name, value) {
            Some(Meaning::Is(list)) => list.iter().try_for_each(|(name, value)| self.set(name, value)),
            Some(Meaning::Nothing) => Ok(()),
            None => self.write(name, value),
        }
    }

    fn write(&mut self, name: &str, value: &str) -> Result<(), String> {
        let variable =
            Variable::named(name).ok_or_else(|| format!("{name} is no variable that is known here"))?;
        let value = variable.parse(value).map_err(|wrong| format!("{name} {wrong}"))?;
        variable.write(&mut self.stack, value);
        Ok(())
    }

    /// The value of a variable; 0 if there is none of this name.
    pub(super) fn get(&self, name: &str) -> i64 {
        let of_stack = Variable::named(name).map(|variable| variable.read(&self.stack));
        of_stack.or_else(|| self.own.get(name).copied()).unwrap_or(0)
    }

    /// Sets what scripts for Linux begin with.
    pub(super) fn set_linux(&mut self) {
        self.stack.tcp = linux::defaults(self.stack.tcp);
    }

    /// Returns the settings of connections under these values.
    pub(super) fn settings(&self) -> Settings {
        self.stack.tcp
    }
}

#[cfg(test)]
mod tests {
    use net::tcp::settings::Ecn;

    use super::*;

    #[test]
    fn variables_become_settings_and_unknown_ones_are_refused() {
        let mut sysctls = Sysctls::default();
        assert_eq!(
            sysctls.settings(),
            Settings {
                tail_loss_probe: false,
                urgent_inline: false,
                resets_unread: false,
                establish_within: KEEPINIT,
                ..Settings::default()
            }
        );
        sysctls.set("net.inet.tcp.recvspace", "10000").unwrap();
        sysctls.set("net.inet.tcp.keepinit", "5000").unwrap();
        sysctls.set("net.inet.tcp.ecn.enable", "1").unwrap();
        sysctls.set("net.inet.tcp.fastopen.client_enable", "0").unwrap();
        sysctls.set("net.inet.tcp.tlp", "1").unwrap();
        let settings = sysctls.settings();
        assert_eq!((settings.receive_buffer, settings.ecn), (10_000, Ecn::Active));
        assert_eq!((settings.establish_within, settings.tail_loss_probe), (Duration::from_secs(5), true));
        assert_eq!(sysctls.get("net.inet.tcp.fastopen.client_enable"), 0);
        assert!(sysctls.set("net.inet.tcp.recvspac", "1").is_err());
        assert!(sysctls.set("net.inet.tcp.recvspace", "much").is_err());
        assert!(sysctls.set("net.inet.tcp.blackhole", "2").is_err());
        assert!(sysctls.set("net.inet.tcp.fastopen.psk_enable", "0").is_ok());
        assert!(sysctls.set("net.inet.tcp.fastopen.psk_enable", "1").is_err());
        sysctls.set("kern.ipc.maxsockbuf", "4294967295").unwrap();
        assert_eq!(sysctls.settings().receive_buffer_max, 1 << 30, "no window says more");
    }
}
