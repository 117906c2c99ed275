//! Twins: interfaces that the kernel has beside ours.

use crate::base::ids::IfIndex;

/// The part of an interface in a pair of twins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Twin {
    /// It has none, and is none.
    #[default]
    None,
    /// The interface by which the kernel gets what nothing here wants, and by which it sends.
    By(IfIndex),
    /// It is the twin of an interface: its frames leave by that one.
    Of(IfIndex),
}
