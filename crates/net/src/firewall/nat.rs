//! Translation of addresses and ports.
