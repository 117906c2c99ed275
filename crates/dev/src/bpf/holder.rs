//! Which process holds an XDP program on an interface.

use crate::sys::fdinfo::{self, field};

/// The first process that holds the program of this number by a link. `None` if none does, or if this process may not look
/// at the descriptors of others: a link that its process has closed may be there a moment longer.
#[must_use]
pub fn of(program_id: u32) -> Option<u32> {
    fdinfo::holder(|info| is_link(info, program_id))
}

/// Reads `/proc/PID/fdinfo/N`.
fn is_link(info: &str, program_id: u32) -> bool {
    field(info, "link_type") == Some("xdp") && field(info, "prog_id") == Some(&program_id.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_link_with_the_program_holds_it() {
        let info =
            |kind: &str, id: u32| format!("pos:\t0\n{kind}\nprog_tag:\tab\nprog_id:\t{id}\nifindex:\t3\n");
        assert!(is_link(&info("link_type:\txdp", 7), 7));
        assert!(!is_link(&info("link_type:\txdp", 77), 7));
        assert!(!is_link(&info("prog_type:\t6", 7), 7));
        assert!(!is_link("", 7));
    }
}
