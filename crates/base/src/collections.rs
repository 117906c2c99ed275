//! Tables of millions that grow and shrink without a pause: [values by number](slab), [numbers by key](index), and
//! [when they are due](wheel).

pub mod index;
pub mod slab;
pub mod timer_wheel;
pub mod wheel;
