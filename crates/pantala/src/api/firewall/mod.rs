//! The firewall in the admin API: what it is asked ([`Filter`]), requests over HTTP, types of their bodies, metrics.

mod metrics;
#[cfg(feature = "admin")]
pub(in crate::api) mod routes;
pub(in crate::api) mod types;

use super::types::{
    Error, FirewallBindings, FirewallCommands, FirewallDone, FirewallFlows, FirewallLog, FirewallNat,
    FirewallNat64, FirewallPrefixes, FirewallRule, FirewallShapes, FirewallStates, FirewallStatus,
    FirewallTable, FirewallTableEntry, FirewallTablePage, FirewallTracks,
};

pub(in crate::api) use metrics::firewall_metrics;

/// The firewall as a scrape shows it.
pub struct FirewallSnapshot {
    /// Its switches and sizes.
    pub(crate) status: FirewallStatus,
    /// Its rules, with their counters.
    pub(crate) rules: Vec<FirewallRule>,
    /// Instances of NAT; their ports are not counted.
    pub(crate) nat: Vec<FirewallNat>,
    /// Instances of NAT64.
    pub(crate) nat64: Vec<FirewallNat64>,
    /// Pipes and queues.
    pub(crate) shapes: FirewallShapes,
}

/// A firewall that can be looked at and changed; a part of [`super::stack::Stack`].
pub trait Filter {
    /// Carries commands out in their order, all of them or none. Packets see what they amount to at once.
    ///
    /// # Errors
    /// One is not understood or cannot be carried out: the error has its line, and nothing was changed.
    fn run_commands(&mut self, commands: &FirewallCommands) -> Result<Vec<FirewallDone>, Error>;

    /// Returns the firewall's settings besides the rules.
    ///
    /// # Errors
    /// The netisrs do not answer.
    fn firewall_status(&mut self) -> Result<FirewallStatus, Error>;

    /// All rules in the order in which packets meet them, also those of disabled sets.
    ///
    /// # Errors
    /// The netisrs do not answer.
    fn firewall_rules(&mut self) -> Result<Vec<FirewallRule>, Error>;

    /// A part of the states: `limit` of them, from where `after` points, which an earlier part has named; those whose
    /// lives are over only if they are asked for.
    ///
    /// # Errors
    /// The netisrs do not answer, or `after` points nowhere.
    fn firewall_states(
        &mut self,
        after: Option<&str>,
        limit: usize,
        expired: bool,
    ) -> Result<FirewallStates, Error>;

    /// A part of the groups of states that a `limit` counts.
    ///
    /// # Errors
    /// As for states.
    fn firewall_tracks(&mut self, after: Option<&str>, limit: usize) -> Result<FirewallTracks, Error>;

    /// All instances of NAT, by number.
    ///
    /// # Errors
    /// The netisrs do not answer.
    fn firewall_nat(&mut self) -> Result<Vec<FirewallNat>, Error>;

    /// A part of the flows that an instance translates.
    ///
    /// # Errors
    /// There is no such instance; as for states.
    fn firewall_bindings(
        &mut self,
        number: u16,
        after: Option<&str>,
        limit: usize,
    ) -> Result<FirewallBindings, Error>;

    /// All prefixes that are exchanged, by the name of their instance.
    ///
    /// # Errors
    /// None that is known.
    fn firewall_prefixes(&mut self) -> Result<Vec<FirewallPrefixes>, Error>;

    /// Instances of NAT64.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Failed`](super::ErrorKind::Failed).
    fn firewall_nat64(&mut self) -> Result<Vec<FirewallNat64>, Error>;

    /// A part of the flows that an instance of NAT64 translates.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`](super::ErrorKind::NotFound), [`ErrorKind::Failed`](super::ErrorKind::Failed),
    /// [`ErrorKind::Invalid`](super::ErrorKind::Invalid) for an `after` that no part said.
    fn firewall_crossings(
        &mut self,
        name: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<FirewallBindings, Error>;

    /// All pipes and queues.
    ///
    /// # Errors
    /// The netisrs do not answer.
    fn firewall_shapes(&mut self) -> Result<FirewallShapes, Error>;

    /// A part of the flows in pipes and queues.
    ///
    /// # Errors
    /// As for states.
    fn firewall_flows(&mut self, after: Option<&str>, limit: usize) -> Result<FirewallFlows, Error>;

    /// All lookup tables, by name.
    ///
    /// # Errors
    /// The netisrs do not answer.
    fn firewall_tables(&mut self) -> Result<Vec<FirewallTable>, Error>;

    /// A part of a table's entries: `limit` of them behind the first `after`.
    ///
    /// # Errors
    /// There is no such table.
    fn firewall_entries(
        &mut self,
        table: &str,
        after: usize,
        limit: usize,
    ) -> Result<FirewallTablePage, Error>;

    /// The entry that a key finds, as a packet would find it.
    ///
    /// # Errors
    /// There is no such table, it has keys of another kind, or nothing is found.
    fn firewall_lookup(&mut self, table: &str, key: &str) -> Result<FirewallTableEntry, Error>;

    /// Returns the log records after the place that an earlier reply has named; all that are still there without one.
    ///
    /// # Errors
    /// The netisrs do not answer, or `after` points nowhere.
    fn firewall_log(&mut self, after: Option<&str>) -> Result<FirewallLog, Error>;
}
