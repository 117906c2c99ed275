//! ICMPv6.
