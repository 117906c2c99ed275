//! Tables of millions that grow and shrink without a pause: [values by number](slab), [numbers by key](index), and
//! [when they are due](wheel).

pub(crate) mod index;
pub(crate) mod slab;
pub(crate) mod wheel;
