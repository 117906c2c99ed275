//! The numbers of hops: equal ones share a number, and a number is used again when no route and no CPU has it.

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::HashMap;

use super::Error;
use crate::fib::free_list::Epoch;
use crate::fib::hops::{Hop, HopId, Hops, MEMBERS_MAX, To};

/// Gives hops their numbers.
#[derive(Debug)]
pub(super) struct Numbers {
    /// As they are; [`Self::published`] is what readers know of them.
    hops: Hops,
    published: Arc<Hops>,
    is_new: bool,
    hops_max: usize,
    groups_max: usize,
    /// For each number, routes and groups that have it.
    uses: Vec<u32>,
    single: HashMap<Hop, HopId>,
    groups: HashMap<Box<[HopId]>, HopId>,
    free: Vec<HopId>,
    waiting: VecDeque<(Epoch, HopId)>,
}

impl Numbers {
    pub(super) fn new(hops_max: usize, groups_max: usize) -> Self {
        Self {
            hops: Hops::default(),
            published: Arc::default(),
            is_new: false,
            hops_max: hops_max.min(1 << 16),
            groups_max,
            uses: vec![1],
            single: HashMap::new(),
            groups: HashMap::new(),
            free: Vec::new(),
            waiting: VecDeque::new(),
        }
    }

    /// Returns the hops published to readers.
    pub(super) fn published(&self) -> Arc<Hops> {
        Arc::clone(&self.published)
    }

    /// A new snapshot, if there are new hops since the last.
    pub(super) fn publish(&mut self) -> Option<Arc<Hops>> {
        if !core::mem::take(&mut self.is_new) {
            return None;
        }
        self.published = Arc::new(self.hops.clone());
        Some(self.published())
    }

    /// The number of a route's hops, with one use more; of no hops, [`HopId::NO_ROUTE`].
    pub(super) fn number(&mut self, hops: &[Hop]) -> Result<HopId, Error> {
        match hops {
            [] => Ok(HopId::NO_ROUTE),
            [hop] => self.one(*hop),
            several => self.group(several),
        }
    }

    fn one(&mut self, hop: Hop) -> Result<HopId, Error> {
        if matches!(hop.to, To::NoRoute | To::Group(_)) {
            return Err(Error::NoTarget);
        }
        if let Some(id) = self.single.get(&hop).copied() {
            self.uses[id.index()] += 1;
            return Ok(id);
        }
        let id = self.take(hop)?;
        self.single.insert(hop, id);
        Ok(id)
    }

    fn group(&mut self, hops: &[Hop]) -> Result<HopId, Error> {
        let mut members = self.members(hops)?;
        members.sort();
        if let [one, others @ ..] = &*members
            && others.iter().all(|other| other == one)
        {
            // They lead nowhere else, so it is no group.
            others.iter().for_each(|id| self.uses[id.index()] -= 1);
            return Ok(*one);
        }
        let group = match self.groups.get(&*members).copied() {
            Some(id) => {
                self.uses[id.index()] += 1;
                Ok(id)
            }
            None => self.new_group(&members),
        };
        // The group holds its members; if it is not new, or is refused, they have one use too many.
        if group.is_err() || group.is_ok_and(|id| self.uses[id.index()] > 1) {
            members.iter().for_each(|id| self.drop_new(*id));
        }
        group
    }

    fn members(&mut self, hops: &[Hop]) -> Result<Vec<HopId>, Error> {
        if hops.len() > MEMBERS_MAX {
            return Err(Error::TooManyMembers);
        }
        let mut members = Vec::with_capacity(hops.len());
        for hop in hops {
            match self.one(*hop) {
                Ok(id) => members.push(id),
                Err(error) => {
                    members.into_iter().for_each(|id| self.drop_new(id));
                    return Err(error);
                }
            }
        }
        Ok(members)
    }

    fn new_group(&mut self, members: &[HopId]) -> Result<HopId, Error> {
        if self.groups.len() >= self.groups_max {
            return Err(Error::HopsFull);
        }
        let id = self.take(Hop::default())?;
        self.hops.set_group(id, members);
        self.groups.insert(members.into(), id);
        Ok(id)
    }

    /// A number for a hop that has none.
    fn take(&mut self, hop: Hop) -> Result<HopId, Error> {
        let id = match self.free.pop() {
            Some(id) => id,
            None if self.hops.len() < self.hops_max => {
                self.uses.push(0);
                self.hops.push(Hop::default())
            }
            None => return Err(Error::HopsFull),
        };
        self.is_new = true;
        self.uses[id.index()] = 1;
        self.hops.set(id, hop);
        Ok(id)
    }

    /// Takes back a use that no reader can know of.
    fn drop_new(&mut self, id: HopId) {
        if self.unused(id) {
            self.free(id);
        }
    }

    /// Takes a use away; the number is free when `epoch` is over, if that was the last.
    pub(super) fn release(&mut self, id: HopId, epoch: Epoch) {
        if id != HopId::NO_ROUTE && self.unused(id) {
            self.waiting.push_back((epoch, id));
        }
    }

    /// Takes a use away; answers whether that was the last, and forgets the hop then.
    fn unused(&mut self, id: HopId) -> bool {
        self.uses[id.index()] -= 1;
        if self.uses[id.index()] > 0 {
            return false;
        }
        match self.hops.get(id).to {
            To::Group(group) => {
                self.groups.remove(self.hops.group(group).map_or(&[][..], |group| group.members()))
            }
            _ => self.single.remove(&self.hops.get(id)),
        };
        true
    }

    /// All CPUs have passed `epoch`.
    pub(super) fn retire(&mut self, epoch: Epoch) {
        while let Some((_, id)) = self.waiting.pop_front_if(|(of, _)| *of <= epoch) {
            self.free(id);
        }
    }

    /// The members of a group are used by it until it is free itself.
    fn free(&mut self, id: HopId) {
        if let To::Group(group) = self.hops.get(id).to {
            let members = self.hops.group(group).map_or_else(Vec::new, |group| group.members().to_vec());
            members.into_iter().for_each(|member| self.drop_new(member));
            self.hops.free_group(group);
        }
        self.hops.set(id, Hop::default());
        self.free.push(id);
    }

    /// Numbers in use, and in all.
    pub(super) fn usage(&self) -> (usize, usize) {
        (self.single.len() + self.groups.len(), self.hops_max)
    }
}
