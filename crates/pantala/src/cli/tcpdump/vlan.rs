//! Captures of VLANs, which have no frames of their own: of the interface below them, by a filter for their tags.

use crate::api::Interface;

/// Tags in front of a packet at the most, more than a stack of VLANs can have.
const NESTING_MAX: usize = 8;

/// The interface that has the frames of `name`, and the filter that selects those of `filter` among them.
pub(super) fn below(all: &[Interface], name: &str, filter: &str) -> (String, String) {
    let (mut name, mut filter) = (name.to_owned(), filter.to_owned());
    for _ in 0..NESTING_MAX {
        let Some((parent, id)) = vlan(all, &name) else { break };
        filter = if filter.is_empty() { format!("vlan {id}") } else { format!("vlan {id} and ({filter})") };
        parent.clone_into(&mut name);
    }
    (name, filter)
}

/// The interface below a VLAN, and its number.
fn vlan<'a>(all: &'a [Interface], name: &str) -> Option<(&'a str, u16)> {
    let device = &all.iter().find(|interface| interface.name == name)?.device.as_ref()?.device;
    let place = device.strip_prefix("vlan:").or_else(|| device.strip_prefix("qinq:"))?;
    let (parent, rest) = place.split_once(',')?;
    let id = rest.split(',').next()?.trim().parse().ok()?;
    Some((parent.trim(), id))
}

/// Whether the interface is a VLAN.
pub(in crate::cli) fn is_vlan(interface: &Interface) -> bool {
    vlan(core::slice::from_ref(interface), &interface.name).is_some()
}
