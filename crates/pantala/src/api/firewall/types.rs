//! The firewall: rules with what they counted, states, what was logged.

use core::net::IpAddr;

use serde::{Deserialize, Serialize};

mod nat;
mod pipe;

pub use nat::{FirewallBinding, FirewallBindings, FirewallNat, FirewallNat64, FirewallPrefixes};
pub use pipe::{FirewallFlow, FirewallFlows, FirewallPipe, FirewallQueue, FirewallShape, FirewallShapes};

/// Commands to be carried out, all or none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FirewallCommands {
    /// Name of the text in errors; empty for the words of a command line.
    #[serde(default)]
    pub name: String,
    /// In ipfw's language, a command a line.
    pub text: String,
}

/// The result of one command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct FirewallDone {
    /// The line on which it stood, from 1.
    pub line: u32,
    /// Output of ipfw, without a line end; empty for none.
    pub output: String,
    /// A warning; empty for none.
    #[serde(default)]
    pub warning: String,
}

/// The firewall's settings besides the rules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct FirewallStatus {
    /// Whether packets are asked about at all.
    pub enabled: bool,
    /// Whether a packet that left a pipe or was translated is not asked about again.
    pub one_pass: bool,
    /// Whether rules with `log` are heard.
    pub verbose: bool,
    /// Rules, the default one among them.
    pub rules: u64,
    /// States, summed over all CPUs.
    pub states: u64,
    /// Groups of states that a `limit` counts, summed over all CPUs.
    #[serde(default)]
    pub tracks: u64,
    /// Settings of states, under ipfw's names.
    pub settings: Vec<FirewallSetting>,
    /// The disabled ones of the 32 sets.
    pub disabled_sets: Vec<u8>,
}

/// One setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct FirewallSetting {
    /// Its name, without `net.inet.ip.fw.`.
    pub name: String,
    /// Its value; switches are 0 or 1, times are in seconds.
    pub value: u32,
}

/// A rule and what it counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct FirewallRule {
    /// Its number.
    pub number: u16,
    /// Its set.
    pub set: u8,
    /// Whether its set is asked.
    pub enabled: bool,
    /// Packets that it matched.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// When it matched last, seconds since 1970; `None` for never.
    pub last_match: Option<u64>,
    /// Action, as in `skipto 500`.
    pub action: String,
    /// All that it says, without number and set.
    pub rule: String,
    /// The user's comment.
    pub comment: Option<String>,
}

/// A part of the states.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct FirewallStates {
    /// The states, CPU by CPU.
    pub states: Vec<FirewallState>,
    /// Where the next part begins; `None` if this was the last.
    pub next: Option<String>,
}

/// The state of a flow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct FirewallState {
    /// The number of the rule that made it.
    pub rule: u16,
    /// The set of that rule.
    pub set: u8,
    /// Its kind.
    pub kind: FirewallStateKind,
    /// The CPU it belongs to.
    pub cpu: u32,
    /// Packets of both directions.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Seconds that are left of its life.
    pub expires_s: u32,
    /// The number of the protocol.
    pub proto: u8,
    /// Source of the first packet.
    pub src: IpAddr,
    /// From this port; 0 if the protocol has none.
    pub src_port: u16,
    /// Destination of the first packet.
    pub dst: IpAddr,
    /// To this port.
    pub dst_port: u16,
    /// Phase of the connection, if it is TCP.
    pub phase: Option<String>,
    /// Flags of TCP that were seen since it began, if it is TCP: the sum of FIN 1, SYN 2, RST 4, ACK 16.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp_flags: Option<u8>,
    /// Its name, `:flow`, if it has one.
    pub flow: Option<String>,
}

/// The kind of rule that made a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FirewallStateKind {
    /// `keep-state`.
    State,
    /// `limit`.
    Limit,
    /// `rdr`: as it came.
    RedirectMaster,
    /// `rdr`: as it went on.
    RedirectSlave,
}

/// A part of the groups of states that a `limit` counts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct FirewallTracks {
    /// The groups, CPU by CPU.
    pub tracks: Vec<FirewallTrack>,
    /// Where the next part begins; `None` if this was the last.
    pub next: Option<String>,
}

/// States that agree in what a `limit` names, on one CPU. What it does not name is 0.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct FirewallTrack {
    /// The number of the rule.
    pub rule: u16,
    /// The set of that rule.
    pub set: u8,
    /// The CPU.
    pub cpu: u32,
    /// The number of the protocol.
    pub proto: u8,
    /// Source of the first packets.
    pub src: IpAddr,
    /// From this port.
    pub src_port: u16,
    /// Destination of the first packets.
    pub dst: IpAddr,
    /// To this port.
    pub dst_port: u16,
    /// States on this CPU.
    pub states: u32,
    /// States on all CPUs: what the limit is compared with.
    pub total: u32,
}

/// Packets that rules with `log` matched.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct FirewallLog {
    /// In the order of time.
    pub records: Vec<FirewallLogRecord>,
    /// Cursor: ask for records after this one.
    pub next: String,
    /// Records that were overwritten before they were asked for.
    pub lost: u64,
    /// Matches that were not written down because too many came at once, since the start.
    pub suppressed: u64,
}

/// A packet that a rule with `log` matched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct FirewallLogRecord {
    /// When: nanoseconds since 1970.
    pub at_ns: u64,
    /// The CPU on which.
    pub cpu: u32,
    /// The rule's number.
    pub rule: u16,
    /// Action, as in `Deny`.
    pub action: String,
    /// Whether it was on its way out.
    pub out: bool,
    /// The interface by which it came or was to leave; `None` for none.
    pub interface: Option<String>,
    /// Bytes of the packet.
    pub length: u32,
    /// As ipfw logs it: `ipfw: 100 Deny TCP 192.0.2.1:5 192.0.2.9:80 in via em0`.
    pub text: String,
    /// The packet's first bytes from its network header, hexadecimal.
    pub snap: String,
}

/// A lookup table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct FirewallTable {
    /// Its name.
    pub name: String,
    /// Type of its keys, as in `addr`.
    pub kind: String,
    /// Entries that it has.
    pub entries: u64,
    /// Entries that it may have.
    pub limit: u32,
    /// Whether changes are refused.
    pub locked: bool,
    /// Bytes that lookups may touch.
    pub bytes: u64,
}

/// A part of the entries of a table, in the order of their keys.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct FirewallTablePage {
    /// The entries.
    pub entries: Vec<FirewallTableEntry>,
    /// Where the next part begins; `None` if this was the last.
    pub next: Option<usize>,
}

/// An entry of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct FirewallTableEntry {
    /// The key.
    pub key: String,
    /// The value.
    pub value: String,
}
