//! Sources of routes, as the admin API shows them.

use super::{Control, OneOf, RouteSources, Source, State, Which};
use crate::api::{RouteSource, RouteSourceState};

impl Control {
    /// The sources.
    pub(in crate::daemon) fn list_route_sources(&self) -> Vec<RouteSource> {
        self.route_sources.list()
    }
}

impl RouteSources {
    fn list(&self) -> Vec<RouteSource> {
        let each = [Which::Fpm, Which::Kernel].into_iter();
        each.filter_map(|which| Some(shown(which, self.get(which)?))).collect()
    }
}

fn shown(which: Which, source: &Source) -> RouteSource {
    let (held, counts) = (source.table.routes(), source.table.counts);
    let (state, peer) = match &source.state {
        State::Waiting => (RouteSourceState::Waiting, None),
        State::Connected(peer) => (RouteSourceState::Connected, Some(peer.to_string())),
        State::Reading => (RouteSourceState::Reading, None),
        State::Following => (RouteSourceState::Following, None),
        State::Failed => (RouteSourceState::Failed, None),
    };
    RouteSource {
        name: which.to_string(),
        state,
        since_s: source.since.elapsed().as_secs(),
        at: match &source.config {
            OneOf::Fpm(config) => config.listen.to_string(),
            OneOf::Kernel(config) => format!("table {}", config.table),
        },
        peer,
        routes: held.routes as u64,
        stale: held.stale as u64,
        idle: held.idle as u64,
        targets: held.targets as u64,
        next_hops: held.next_hops as u64,
        messages: counts.messages,
        malformed: counts.malformed,
        ignored: counts.ignored,
        refused: counts.refused + source.refused,
        swept: counts.swept,
        resyncs: source.resyncs,
        overruns: source.overruns,
    }
}
