//! The key `punt` of an interface: true, or the name of its twin in the kernel.

use super::device::host_name;
use super::fields::Fields;
use super::problem::{At, Report};

/// The twin of an interface, as the key says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Punt {
    /// Named like the interface.
    SameName,
    /// With a name of its own.
    Named(String),
}

pub(super) fn read(interface: &Fields<'_>, report: &mut Report<'_>) -> Option<At<Punt>> {
    let of = |is_on: bool| is_on.then_some(Punt::SameName);
    let named = |name: &str| host_name(name).map(|name| Some(Punt::Named(name)));
    let At { value, span } = interface.truth_or("punt", of, named, report)?;
    value.map(|punt| At::new(punt, span))
}

/// Returns the name here of an interface's twin, which no file can name.
pub(crate) fn name_of_twin(name: &str) -> String {
    format!("{name}:kernel")
}
