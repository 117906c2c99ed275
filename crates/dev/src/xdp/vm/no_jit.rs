//! In place of a compiler, on processors for which there is none: programs are interpreted.

use pkt::Pkt;

use super::code::Code;
use super::{Machine, Shared};
use crate::xdp::maps::Map;

/// A compiled program: there is none.
pub(super) enum Compiled {}

/// The memory of compiled programs.
pub(super) struct Ring;

impl Compiled {
    pub(super) const fn new(_: &Code, _: &[Map]) -> Option<Self> {
        None
    }

    pub(super) const fn run(&self, _: &mut Ring, _: &mut Machine, _: &Shared, _: &mut Pkt) -> u64 {
        match *self {}
    }
}

impl Ring {
    pub(super) const fn new(_: &Shared) -> Self {
        Self
    }
}
