//! Rules, compiled: all that can be known of them before a packet comes.

/// A rule, for those who outlive rulesets: states, logs, counters. It is the same as long as the rule stays as it is
/// written, whatever becomes of those around it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RuleId {
    /// Its place among the counters.
    pub slot: u16,
    /// How often the slot has changed hands.
    pub epoch: u16,
}

/// Rules, compiled. Shared by all CPUs; never changed.
#[derive(Debug, Default)]
pub struct Ruleset {}
