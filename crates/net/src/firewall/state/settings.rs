//! Settings of states, under ipfw's names.

use core::fmt;

use wire::Protocol;

use super::tcp::Phase;

/// Seconds between the keepalives that a state gets at the end of its life.
pub(super) const KEEPALIVE_PERIOD: u32 = 5;
/// Seconds before the end of a state's life from which on it gets them.
pub(super) const KEEPALIVE_SPAN: u32 = 20;
/// The longest life that can be set: 11 days, in seconds.
const LIFETIME_MAX: u32 = 1_000_000;
/// The most states, and the most tracks, that can be allowed.
const STATES_MAX: u32 = 1 << 26;
/// Default share of half-open connections among all states, as a divisor; and a least number in any case.
const HALF_OPEN_PART: u32 = 8;
const HALF_OPEN_MIN: u32 = 64;

/// Lifetimes and limits of states. Lifetimes are in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// TCP that is not acknowledged both ways yet.
    pub syn_lifetime: u32,
    /// TCP that is established, or closed by one end alone.
    pub ack_lifetime: u32,
    /// TCP closed by both ends, with an acknowledgement missing.
    pub finwait_lifetime: u32,
    /// TCP closed by both ends; less than the period of keepalives.
    pub fin_lifetime: u32,
    /// TCP that was reset, or whose beginning was not seen; less than the period of keepalives.
    pub rst_lifetime: u32,
    /// UDP.
    pub udp_lifetime: u32,
    /// Everything else, and unused limits.
    pub short_lifetime: u32,
    /// Whether TCP gets keepalives before its state dies.
    pub keepalive: bool,
    /// Whether TCP segments outside of the window are denied; else they pass and do not lengthen the state's life.
    pub strict: bool,
    /// States of all CPUs together; a twentieth more, at the very most, for a moment.
    pub state_max: u32,
    /// States of half-open TCP connections among them: each CPU has an equal part, and at its limit the oldest ends. By
    /// default an eighth of `state_max`, and 64 at the least.
    pub half_open_max: Option<u32>,
    /// Groups of states that a `limit` counts, on one CPU.
    pub track_max: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            syn_lifetime: 20,
            ack_lifetime: 300,
            finwait_lifetime: 20,
            fin_lifetime: 2,
            rst_lifetime: 2,
            udp_lifetime: 10,
            short_lifetime: 5,
            keepalive: true,
            strict: false,
            state_max: 1 << 20,
            half_open_max: None,
            track_max: 4096,
        }
    }
}

/// Why a setting was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingError {
    /// There is no setting of this name.
    Unknown,
    /// The value is none of those from the first to the last.
    Range(u32, u32),
    /// The state of a closed connection would get keepalives.
    Keepalive,
}

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => write!(f, "no such setting"),
            Self::Range(min, max) => write!(f, "must be between {min} and {max}"),
            Self::Keepalive => {
                write!(f, "must be less than {KEEPALIVE_PERIOD} s, which is how often keepalives are sent")
            }
        }
    }
}

impl core::error::Error for SettingError {}

/// Prefix of the settings' names.
const PREFIX: &str = "net.inet.ip.fw.";

impl Settings {
    /// Their names; the prefix `net.inet.ip.fw.` may be left out.
    pub const NAMES: &'static [&'static str] = &[
        "net.inet.ip.fw.dyn_syn_lifetime",
        "net.inet.ip.fw.dyn_ack_lifetime",
        "net.inet.ip.fw.dyn_finwait_lifetime",
        "net.inet.ip.fw.dyn_fin_lifetime",
        "net.inet.ip.fw.dyn_rst_lifetime",
        "net.inet.ip.fw.dyn_udp_lifetime",
        "net.inet.ip.fw.dyn_short_lifetime",
        "net.inet.ip.fw.dyn_keepalive",
        "net.inet.ip.fw.dyn_strict",
        "net.inet.ip.fw.state_max",
        "net.inet.ip.fw.half_open_max",
        "net.inet.ip.fw.track_max",
    ];

    /// The value of a setting; switches are 0 or 1. `None` if there is none of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<u32> {
        Some(match name.strip_prefix(PREFIX).unwrap_or(name) {
            "dyn_syn_lifetime" => self.syn_lifetime,
            "dyn_ack_lifetime" => self.ack_lifetime,
            "dyn_finwait_lifetime" => self.finwait_lifetime,
            "dyn_fin_lifetime" => self.fin_lifetime,
            "dyn_rst_lifetime" => self.rst_lifetime,
            "dyn_udp_lifetime" => self.udp_lifetime,
            "dyn_short_lifetime" => self.short_lifetime,
            "dyn_keepalive" => self.keepalive.into(),
            "dyn_strict" => self.strict.into(),
            "state_max" | "dyn_max" => self.state_max,
            "half_open_max" => self.half_open_max(),
            "track_max" => self.track_max,
            _ => return None,
        })
    }

    /// Half-open connections of all CPUs together that may have a state.
    #[must_use]
    pub fn half_open_max(&self) -> u32 {
        self.half_open_max.unwrap_or_else(|| (self.state_max / HALF_OPEN_PART).max(HALF_OPEN_MIN))
    }

    /// Returns the lifetime of a TCP state.
    #[inline]
    pub(super) const fn life_of(&self, phase: Phase) -> u32 {
        match phase {
            Phase::Established => self.ack_lifetime,
            Phase::Opening => self.syn_lifetime,
            Phase::Closing => self.finwait_lifetime,
            Phase::Closed => self.fin_lifetime,
            Phase::Unknown | Phase::Reset => self.rst_lifetime,
        }
    }

    /// Returns the lifetime of a state of another protocol.
    #[inline]
    pub(super) const fn life(&self, proto: u8) -> u32 {
        if proto == Protocol::UDP.0 { self.udp_lifetime } else { self.short_lifetime }
    }

    /// Gives a setting another value.
    ///
    /// # Errors
    ///
    /// All of [`SettingError`]; nothing has changed then.
    pub fn set(&mut self, name: &str, value: u32) -> Result<(), SettingError> {
        let within = |min, max| match value {
            value if value >= min && value <= max => Ok(value),
            _ => Err(SettingError::Range(min, max)),
        };
        let life = || within(1, LIFETIME_MAX);
        let closing = || match life()? {
            life if life < KEEPALIVE_PERIOD => Ok(life),
            _ => Err(SettingError::Keepalive),
        };
        match name.strip_prefix(PREFIX).unwrap_or(name) {
            "dyn_syn_lifetime" => self.syn_lifetime = life()?,
            "dyn_ack_lifetime" => self.ack_lifetime = life()?,
            "dyn_finwait_lifetime" => self.finwait_lifetime = life()?,
            "dyn_fin_lifetime" => self.fin_lifetime = closing()?,
            "dyn_rst_lifetime" => self.rst_lifetime = closing()?,
            "dyn_udp_lifetime" => self.udp_lifetime = life()?,
            "dyn_short_lifetime" => self.short_lifetime = life()?,
            "dyn_keepalive" => self.keepalive = within(0, 1)? == 1,
            "dyn_strict" => self.strict = within(0, 1)? == 1,
            "state_max" | "dyn_max" => self.state_max = within(1, STATES_MAX)?,
            "half_open_max" => self.half_open_max = Some(within(1, STATES_MAX)?),
            "track_max" => self.track_max = within(1, STATES_MAX)?,
            _ => return Err(SettingError::Unknown),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_has_a_name_can_be_set_and_keeps_to_its_bounds() {
        for name in Settings::NAMES {
            let mut settings = Settings::default();
            let before = settings;
            let other = if settings.get(name) == Some(1) { 0 } else { 1 };
            assert_eq!(settings.set(name, other), Ok(()), "{name}");
            assert_eq!(settings.get(name), Some(other));
            assert_ne!(settings, before);
            assert!(settings.set(name, u32::MAX).is_err(), "{name}");
            assert_eq!(settings.get(name), Some(other), "a refused value changes nothing");
            assert_eq!(settings.get(name.strip_prefix(PREFIX).unwrap()), Some(other));
        }
        assert_eq!(Settings::default().get("dyn_nothing"), None);
        assert_eq!(Settings::default().set("dyn_nothing", 1), Err(SettingError::Unknown));
    }

    #[test]
    fn a_closed_connection_cannot_outlive_the_period_of_keepalives() {
        let mut settings = Settings::default();
        for name in ["dyn_fin_lifetime", "dyn_rst_lifetime"] {
            assert_eq!(settings.set(name, 4), Ok(()));
            let error = settings.set(name, 5).unwrap_err();
            assert_eq!(error.to_string(), "must be less than 5 s, which is how often keepalives are sent");
        }
    }
}
