//! Small numbers by which layers name things.

/// Index of an interface. Packets name interfaces by it, never by pointer.
pub type IfIndex = u16;
