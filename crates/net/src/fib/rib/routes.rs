//! The routes to one prefix, by their sources.

use super::Origin;
use crate::fib::HopId;

/// All routes to one prefix, the strongest first. Nearly every prefix has one, which takes no memory of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Routes {
    #[default]
    None,
    One((Origin, HopId)),
    Several(Box<List>),
}

/// Behind a thin pointer, so that the common case stays small.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct List(Vec<(Origin, HopId)>);

impl Routes {
    pub(super) fn all(&self) -> &[(Origin, HopId)] {
        match self {
            Self::None => &[],
            Self::One(route) => core::slice::from_ref(route),
            Self::Several(list) => &list.0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.all().len()
    }

    /// Returns the hop of the route in force.
    pub(super) fn in_force(&self) -> HopId {
        self.all().first().map_or(HopId::NO_ROUTE, |(_, hop)| *hop)
    }

    /// Sets or, with [`HopId::NO_ROUTE`], ends the route of a source. Returns the hop that it had.
    pub(super) fn set(&mut self, origin: Origin, hop: HopId) -> HopId {
        match self {
            Self::None => {
                *self = if hop == HopId::NO_ROUTE { Self::None } else { Self::One((origin, hop)) };
                HopId::NO_ROUTE
            }
            Self::One((own, there)) if *own == origin && hop != HopId::NO_ROUTE => {
                core::mem::replace(there, hop)
            }
            _ => self.set_among(origin, hop),
        }
    }

    fn set_among(&mut self, origin: Origin, hop: HopId) -> HopId {
        let mut routes = self.all().to_vec();
        let at = routes.partition_point(|(other, _)| *other < origin);
        let there = routes.get(at).filter(|(other, _)| *other == origin).map(|(_, hop)| *hop);
        if there.is_some() {
            routes.remove(at);
        }
        if hop != HopId::NO_ROUTE {
            routes.insert(at, (origin, hop));
        }
        *self = match *routes {
            [] => Self::None,
            [route] => Self::One(route),
            _ => Self::Several(Box::new(List(routes))),
        };
        there.unwrap_or_default()
    }
}
