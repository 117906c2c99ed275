//! What is remembered of flows, each CPU for its own.
