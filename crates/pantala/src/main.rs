//! The `pantala` program.

fn main() {}
