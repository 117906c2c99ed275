//! Which senders to a group are listened to.

use core::net::IpAddr;

/// Senders of one filter, and of what the sockets of a CPU want of a group together: what one record of a report has
/// room for.
pub const SOURCES_MAX: usize = 64;

/// Senders that are listened to: some, or all but some.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    pub(super) excludes: bool,
    /// In order, none twice.
    pub(super) sources: Vec<IpAddr>,
}

impl Filter {
    /// No source: the group is left.
    pub const NONE: Self = Self { excludes: false, sources: Vec::new() };
    /// Everybody is.
    pub const ALL: Self = Self { excludes: true, sources: Vec::new() };

    /// These are listened to, and no others (`INCLUDE`).
    #[must_use]
    pub fn only(sources: impl IntoIterator<Item = IpAddr>) -> Self {
        Self::new(false, sources)
    }

    /// All but these are listened to (`EXCLUDE`).
    #[must_use]
    pub fn except(sources: impl IntoIterator<Item = IpAddr>) -> Self {
        Self::new(true, sources)
    }

    fn new(excludes: bool, sources: impl IntoIterator<Item = IpAddr>) -> Self {
        let mut sources: Vec<_> = sources.into_iter().collect();
        sources.sort_unstable();
        sources.dedup();
        Self { excludes, sources }
    }

    /// Tells whether the group is left.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::NONE
    }

    /// Whether all but some are listened to, instead of some.
    #[must_use]
    pub const fn excludes(&self) -> bool {
        self.excludes
    }

    /// The senders that it names, in order.
    #[must_use]
    pub fn sources(&self) -> &[IpAddr] {
        &self.sources
    }

    /// Whether a sender is listened to.
    #[must_use]
    pub fn admits(&self, sender: IpAddr) -> bool {
        self.names(sender) != self.excludes
    }

    pub(super) fn names(&self, sender: IpAddr) -> bool {
        self.sources.binary_search(&sender).is_ok()
    }

    /// Returns the union of all filters.
    //= https://www.rfc-editor.org/rfc/rfc3376#section-3.2
    //# if any such record has a filter mode of EXCLUDE, then the filter mode
    //# of the interface record is EXCLUDE, and the source list of the
    //# interface record is the intersection of the source lists of all
    //# socket records in EXCLUDE mode, minus those source addresses that
    //# appear in any socket record in INCLUDE mode.
    pub(crate) fn merge<'a>(filters: impl Iterator<Item = &'a Self> + Clone) -> Self {
        match filters.clone().find(|filter| filter.excludes) {
            None => Self::only(filters.flat_map(|filter| filter.sources.iter().copied())),
            Some(first) => {
                let is_unwanted = |sender: &&IpAddr| filters.clone().all(|filter| !filter.admits(**sender));
                Self::except(first.sources.iter().filter(is_unwanted).copied())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::{addr4, addr6};

    #[test]
    fn a_merged_source_filter_admits_what_any_of_them_admits() {
        let senders4: Vec<IpAddr> = (1..=3).map(|host| addr4(1, host).into()).collect();
        let senders6: Vec<IpAddr> = (1..=3).map(|host| addr6(1, host).into()).collect();
        for senders in [senders4, senders6] {
            let chosen = |bits: usize| {
                let sources =
                    (0..3).filter(move |at| bits & (1 << at) != 0).map(|at| senders[at]).collect::<Vec<_>>();
                if bits & 8 == 0 { Filter::only(sources) } else { Filter::except(sources) }
            };
            for (a, b, c) in (0..16).flat_map(|a| (0..16).flat_map(move |b| (0..16).map(move |c| (a, b, c))))
            {
                let all = [a, b, c].map(&chosen);
                let merged = Filter::merge(all.iter());
                for sender in &senders {
                    assert_eq!(merged.admits(*sender), all.iter().any(|filter| filter.admits(*sender)));
                }
                assert_eq!(merged.excludes, all.iter().any(|filter| filter.excludes));
                let pairs = [Filter::merge(all[..2].iter()), all[2].clone()];
                assert_eq!(merged, Filter::merge(pairs.iter()), "in which order does not matter");
            }
        }
    }
}
