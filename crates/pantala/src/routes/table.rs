//! The routes of a source.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as MapEntry;
use std::sync::Arc;

use net::fib::{FibIndex, Hop, Prefix, To};
use wire::rtnetlink::{Action, NextHop, Route};

use super::target::{ObjectId, RawHop, RawTo, TargetId, Targets};

/// Routes that a source may have.
pub(crate) const ROUTES_MAX: usize = 1 << 22;
/// Routes with different metrics that a source may have to one prefix.
const PATHS_MAX: usize = 64;
/// Hops of a route that are looked at.
const HOPS_MAX: usize = 256;

/// The routes of a source, and what of them has changed.
pub(crate) struct Table {
    routes: BTreeMap<Key, Entry>,
    targets: Targets,
    /// Prefixes that have changed since the last [`edits`](Self::edits).
    dirty: Vec<Key>,
    /// Number of the resynchronisation: what was not said again since it began is stale.
    round: u16,
    /// Paths.
    paths: usize,
    /// Paths that were told in this round.
    fresh: usize,
    /// Prefixes that the stack has a route to.
    installed: usize,
    /// Limit of paths.
    paths_max: usize,
    scratch: Vec<RawHop>,
    pub(crate) counts: Counts,
}

/// Counters of a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Messages about routes and next hops.
    pub(crate) messages: u64,
    /// Messages that could not be read.
    pub(crate) malformed: u64,
    /// Routes of other tables, of ignored protocols and of kinds that are not forwarded by.
    pub(crate) ignored: u64,
    /// Routes and next hops for which there was no room.
    pub(crate) refused: u64,
    /// Routes that were removed because a resynchronisation did not have them.
    pub(crate) swept: u64,
}

/// A routing table of the stack, and a prefix in it.
type Key = (FibIndex, Prefix);

/// All paths to a prefix.
#[derive(Default)]
struct Entry {
    paths: Paths,
    /// The protocol of the one that the stack has.
    installed: Option<u8>,
}

/// The paths to a prefix, that with the smallest metric first.
#[derive(Default)]
enum Paths {
    #[default]
    None,
    One(Path),
    #[expect(clippy::box_collection, reason = "a thin pointer: nearly every prefix has one path")]
    Several(Box<Vec<Path>>),
}

/// A path to a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Path {
    target: TargetId,
    priority: u32,
    /// When it became what it is, seconds of the caller's clock.
    since: u32,
    round: u16,
    protocol: u8,
}

// docs/reference/LIMITS.md says so.
const _: () = assert!(size_of::<(Key, Entry)>() <= 56);

/// A change for the stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Edit {
    pub(crate) fib: FibIndex,
    pub(crate) to: Prefix,
    pub(crate) protocol: u8,
    /// Where it leads; none: the route of this protocol ends.
    pub(crate) hops: Arc<[Hop]>,
}

/// The way in which a route was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// By zebra: one route for each prefix, whatever its metric.
    ByZebra,
    /// By the kernel: one route for each prefix and metric. `is_listed`: in an answer to a request.
    ByKernel { is_listed: bool },
}

impl Default for Table {
    fn default() -> Self {
        Self {
            routes: BTreeMap::new(),
            targets: Targets::default(),
            dirty: Vec::new(),
            round: 0,
            paths: 0,
            fresh: 0,
            installed: 0,
            paths_max: ROUTES_MAX,
            scratch: Vec::new(),
            counts: Counts::default(),
        }
    }
}

impl Table {
    /// Takes in a route of a table, at `now`, seconds.
    pub(crate) fn learn(&mut self, fib: FibIndex, route: &Route<'_>, told: Told, now: u32) {
        self.counts.messages += 1;
        let Some(to) = Prefix::new(route.to, route.len).filter(|_| self.collect(route)) else {
            self.counts.ignored += 1;
            return;
        };
        let to = (fib, to);
        let priority = told.priority(route);
        let round = self.round;
        let slot = self.routes.entry(to);
        let (before, is_full) = match &slot {
            MapEntry::Vacant(_) => (None, false),
            MapEntry::Occupied(own) => {
                let paths = &own.get().paths;
                (paths.get(priority), paths.as_slice().len() >= PATHS_MAX)
            }
        };
        // Of several with one metric the kernel has the first in force, and lists it first.
        let is_listed = matches!(told, Told::ByKernel { is_listed: true });
        if is_listed && route.to.is_ipv4() && before.is_some_and(|before| before.round == round) {
            return;
        }
        if before.is_none() && (is_full || self.paths >= self.paths_max) {
            self.counts.refused += 1;
            return;
        }
        let Ok(target) = self.targets.take(&self.scratch) else {
            self.counts.refused += 1;
            return;
        };
        let mut path = Path { target, priority, since: now, round, protocol: route.protocol };
        match before {
            Some(before) => self.targets.release(before.target),
            None => self.paths += 1,
        }
        self.fresh += usize::from(before.is_none_or(|before| before.round != round));
        let is_same = before.is_some_and(|own| (own.target, own.protocol) == (target, route.protocol));
        if !is_same {
            self.dirty.push(to);
        }
        // Next hops may have other numbers after a restart: a route that is told again keeps its age.
        let is_old = |own: &Path| is_same || (own.round != round && own.protocol == route.protocol);
        path.since = before.filter(is_old).map_or(now, |own| own.since);
        slot.or_default().paths.set(path);
    }

    /// Ends a route of a table, or takes the hops that are named out of it.
    pub(crate) fn unlearn(&mut self, fib: FibIndex, route: &Route<'_>, told: Told, now: u32) {
        self.counts.messages += 1;
        let Some(to) = Prefix::new(route.to, route.len) else { return };
        let to = (fib, to);
        let priority = told.priority(route);
        let Some(before) = self.routes.get(&to).and_then(|entry| entry.paths.get(priority)) else { return };
        let is_of_kernel = matches!(told, Told::ByKernel { .. });
        // Of IPv6 the kernel takes hops out one by one.
        if is_of_kernel && !route.to.is_ipv4() && self.is_part(route, before.target) {
            let Ok(target) = self.targets.take(&self.scratch) else { return };
            self.targets.release(before.target);
            let path = Path { target, since: now, ..before };
            self.routes.entry(to).or_default().paths.set(path);
        } else {
            self.remove(to, before);
        }
        self.dirty.push(to);
    }

    /// Takes in a next hop that has a number.
    pub(crate) fn learn_next_hop(&mut self, next: &NextHop<'_>) {
        self.counts.messages += 1;
        if self.targets.set_object(next, self.round).is_err() {
            self.counts.refused += 1;
        }
    }

    /// Ends a next hop that has a number.
    pub(crate) fn unlearn_next_hop(&mut self, id: u32) {
        self.counts.messages += 1;
        self.targets.end_object(ObjectId { round: self.round, id });
    }

    /// Begins a resynchronisation: what is not said again until [`sweep`](Self::sweep) goes.
    pub(crate) fn begin_round(&mut self) {
        self.round = self.round.wrapping_add(1);
        self.fresh = 0;
    }

    /// Ends a resynchronisation. Returns the number of routes that are removed.
    pub(crate) fn sweep(&mut self) -> usize {
        let round = self.round;
        self.targets.forget_objects_but_of(round);
        let swept = self.remove_if(|path| path.round != round);
        self.counts.swept += swept as u64;
        swept
    }

    /// Ends a resynchronisation by zebra, which tells the main table, `main` here, and those of VRFs after a connect, and others only as
    /// they change. A table of which it has told nothing keeps the routes whose next hops it still has.
    pub(crate) fn sweep_but_untold(&mut self, main: FibIndex) -> usize {
        let round = self.round;
        let mut told = [false; 1 << FibIndex::BITS];
        told[usize::from(main)] = true;
        let mut untold = Vec::new();
        for ((fib, to), entry) in &self.routes {
            for path in entry.paths.as_slice() {
                told[usize::from(*fib)] |= path.round == round;
                if !told[usize::from(*fib)] {
                    untold.push(((*fib, *to), *path));
                }
            }
        }
        for (to, path) in untold.into_iter().filter(|((fib, _), _)| !told[usize::from(*fib)]) {
            let Some(spec) = self.targets.renewed(path.target, round) else { continue };
            let Ok(target) = self.targets.take(&spec) else { continue };
            self.targets.release(path.target);
            self.routes.entry(to).or_default().paths.set(Path { target, round, ..path });
            self.fresh += 1;
            if target != path.target {
                self.dirty.push(to);
            }
        }
        self.sweep()
    }

    /// Removes all routes.
    pub(crate) fn clear(&mut self) -> usize {
        self.begin_round();
        self.targets.forget_objects_but_of(self.round);
        self.remove_if(|_| true)
    }

    /// Notes that interfaces, here or there, have changed.
    pub(crate) fn interfaces_changed(&mut self) {
        self.targets.is_to_be_resolved();
    }

    /// Returns what the stack is to be told since the last call, where `lead` says what a hop amounts to here.
    pub(crate) fn edits(&mut self, lead: &dyn Fn(&RawHop) -> Option<To>) -> Vec<Edit> {
        let changed = self.targets.resolve(lead);
        self.find_routes_of(&changed);
        let mut dirty = core::mem::take(&mut self.dirty);
        dirty.sort_unstable();
        dirty.dedup();
        let mut edits = Vec::with_capacity(dirty.len());
        for to in dirty {
            let Some(entry) = self.routes.get_mut(&to) else { continue };
            let best = entry.best(|id| self.targets.hops(id)).map(|path| (path.protocol, path.target));
            let before = core::mem::replace(&mut entry.installed, best.map(|(protocol, _)| protocol));
            self.installed = self.installed + usize::from(best.is_some()) - usize::from(before.is_some());
            if matches!(entry.paths, Paths::None) {
                self.routes.remove(&to);
            }
            // First the new one, so that there is one at any time.
            if let Some((protocol, target)) = best {
                edits.push(Edit {
                    fib: to.0,
                    to: to.1,
                    protocol,
                    hops: Arc::clone(self.targets.hops(target)),
                });
            }
            let gone = before.filter(|before| best.is_none_or(|(protocol, _)| protocol != *before));
            edits.extend(gone.map(|protocol| Edit { fib: to.0, to: to.1, protocol, hops: Arc::default() }));
        }
        edits
    }

    /// Gives all routes that would be in force to `each`, if `lead` said what hops amount to: for another stack.
    pub(crate) fn all(&self, lead: &dyn Fn(&RawHop) -> Option<To>, mut each: impl FnMut(Edit)) {
        let (resolved, none) = (self.targets.all_resolved(lead), Arc::default());
        let hops = |id: TargetId| resolved.get(id as usize).unwrap_or(&none);
        for ((fib, to), entry) in &self.routes {
            if let Some(path) = entry.best(hops) {
                each(Edit {
                    fib: *fib,
                    to: *to,
                    protocol: path.protocol,
                    hops: Arc::clone(hops(path.target)),
                });
            }
        }
    }

    /// Notes that a stack has all that [`all`](Self::all) has said, and nothing else.
    pub(crate) fn all_are_installed(&mut self, lead: &dyn Fn(&RawHop) -> Option<To>) {
        self.targets.is_to_be_resolved();
        let _ = self.targets.resolve(lead);
        self.dirty.clear();
        let targets = &self.targets;
        self.installed = 0;
        self.routes.retain(|_, entry| {
            entry.installed = entry.best(|id| targets.hops(id)).map(|path| path.protocol);
            self.installed += usize::from(entry.installed.is_some());
            !matches!(entry.paths, Paths::None)
        });
    }

    /// Whether nothing is to be told.
    #[cfg(test)]
    fn is_clean(&self) -> bool {
        self.dirty.is_empty()
    }

    /// Since when the route to a prefix is as it is, if it is this protocol's.
    pub(crate) fn since(&self, fib: FibIndex, to: Prefix, protocol: u8) -> Option<u32> {
        let entry = self.routes.get(&(fib, to)).filter(|entry| entry.installed == Some(protocol))?;
        entry.best(|id| self.targets.hops(id)).map(|path| path.since)
    }

    /// Routes, those of them that are stale, and those to prefixes of which no route leads anywhere here.
    pub(crate) fn routes(&self) -> Held {
        Held {
            routes: self.paths,
            stale: self.paths - self.fresh,
            idle: self.routes.len() - self.installed,
            targets: self.targets.usage().0,
            next_hops: self.targets.usage().1,
        }
    }

    /// Prefixes that have changed and were not told yet.
    pub(crate) fn changes(&self) -> usize {
        self.dirty.len()
    }

    /// Puts the hops of a route into `scratch`; `false` if packets are not forwarded by it.
    fn collect(&mut self, route: &Route<'_>) -> bool {
        self.scratch.clear();
        if route.is_selective {
            return false;
        }
        match route.action {
            Action::Unicast => {}
            Action::Blackhole => self.scratch.push(RawHop::to(RawTo::Blackhole, 0)),
            Action::Reject => self.scratch.push(RawHop::to(RawTo::Reject, 0)),
            Action::Other => return false,
        }
        if self.scratch.is_empty() {
            self.scratch.extend(route.hops().take(HOPS_MAX).map(|hop| RawHop::of(&hop, route.mtu)));
        }
        // The kernel names hops beside the number, unless it is told not to; zebra only the number.
        if self.scratch.is_empty() {
            let id = route.next_hop_id.map(|id| ObjectId { round: self.round, id });
            self.scratch.extend(id.map(|id| RawHop::to(RawTo::Object(id), route.mtu)));
        }
        !self.scratch.is_empty()
    }

    /// Whether a route names some of a target's hops, and not all; then `scratch` has the others.
    fn is_part(&mut self, route: &Route<'_>, target: TargetId) -> bool {
        if !self.collect(route) {
            return false;
        }
        let spec = self.targets.spec(target);
        let left: Vec<RawHop> =
            spec.iter().filter(|own| !self.scratch.iter().any(|gone| gone.is_at(own))).copied().collect();
        let is_part = !left.is_empty() && left.len() < spec.len();
        self.scratch = left;
        is_part
    }

    fn remove(&mut self, to: Key, path: Path) {
        if let Some(entry) = self.routes.get_mut(&to) {
            entry.paths.remove(path.priority);
            self.targets.release(path.target);
            self.paths -= 1;
            self.fresh -= usize::from(path.round == self.round);
        }
    }

    fn remove_if(&mut self, is_gone: impl Fn(&Path) -> bool) -> usize {
        let of_entry = |(to, entry): (&Key, &Entry)| {
            let gone = entry.paths.as_slice().iter().filter(|path| is_gone(path));
            gone.map(|path| (*to, *path)).collect::<Vec<_>>()
        };
        let has_gone = |(_, entry): &(&Key, &Entry)| entry.paths.as_slice().iter().any(&is_gone);
        let gone: Vec<(Key, Path)> = self.routes.iter().filter(has_gone).flat_map(of_entry).collect();
        for (to, path) in &gone {
            self.remove(*to, *path);
            self.dirty.push(*to);
        }
        gone.len()
    }

    /// Marks prefixes with a path to one of these targets.
    fn find_routes_of(&mut self, changed: &[TargetId]) {
        let mut left: u64 = changed.iter().map(|id| u64::from(self.targets.uses(*id))).sum();
        if left == 0 {
            return;
        }
        let mut is_changed = vec![false; changed.last().map_or(0, |last| *last as usize + 1)];
        changed.iter().for_each(|id| is_changed[*id as usize] = true);
        for (to, entry) in &self.routes {
            let paths = entry.paths.as_slice().iter();
            let count = paths.filter(|path| is_changed.get(path.target as usize) == Some(&true)).count();
            if count > 0 {
                self.dirty.push(*to);
                left = left.saturating_sub(count as u64);
                if left == 0 {
                    break;
                }
            }
        }
    }
}

/// Numbers of routes and next hops of a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    /// Routes.
    pub(crate) routes: usize,
    /// Stale routes: not told again since a resynchronisation began.
    pub(crate) stale: usize,
    /// Prefixes of which no route leads anywhere here.
    pub(crate) idle: usize,
    /// Different targets.
    pub(crate) targets: usize,
    /// Next hops that have a number.
    pub(crate) next_hops: usize,
}

impl Told {
    fn priority(self, route: &Route<'_>) -> u32 {
        match self {
            Self::ByZebra => 0,
            // The kernel's own default of IPv6.
            Self::ByKernel { .. } if route.priority == 0 && !route.to.is_ipv4() => 1024,
            Self::ByKernel { .. } => route.priority,
        }
    }
}

impl Entry {
    /// The first path that leads somewhere.
    fn best<'t>(&self, hops: impl Fn(TargetId) -> &'t Arc<[Hop]>) -> Option<Path> {
        self.paths.as_slice().iter().find(|path| !hops(path.target).is_empty()).copied()
    }
}

impl Paths {
    fn as_slice(&self) -> &[Path] {
        match self {
            Self::None => &[],
            Self::One(path) => core::slice::from_ref(path),
            Self::Several(paths) => paths,
        }
    }

    fn get(&self, priority: u32) -> Option<Path> {
        self.as_slice().iter().find(|path| path.priority == priority).copied()
    }

    fn set(&mut self, path: Path) {
        match self {
            Self::None => *self = Self::One(path),
            Self::One(own) if own.priority == path.priority => *own = path,
            _ => {
                let others = self.as_slice().iter().filter(|own| own.priority != path.priority);
                let mut paths: Vec<Path> = others.copied().chain([path]).collect();
                paths.sort_unstable_by_key(|path| path.priority);
                *self = Self::Several(Box::new(paths));
            }
        }
    }

    fn remove(&mut self, priority: u32) {
        let left: Vec<Path> =
            self.as_slice().iter().filter(|path| path.priority != priority).copied().collect();
        *self = match *left {
            [] => Self::None,
            [path] => Self::One(path),
            _ => Self::Several(Box::new(left)),
        };
    }
}

#[cfg(test)]
mod tests;
