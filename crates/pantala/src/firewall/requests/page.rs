//! Large listings of the firewall, page by page.

use net::firewall::Firewall;
use net::time::Instant;

use crate::api::Error;
use crate::daemon::control::Control;
use crate::daemon::stack::listing::Page;

impl Control {
    /// [`Self::page_of`], of a firewall whose places are numbers of 32 bits.
    pub(super) fn page<T: Send + 'static>(
        &self,
        after: Option<&str>,
        limit: usize,
        read: impl Fn(&Firewall, u32, usize, Instant) -> (Vec<T>, Option<u32>) + Clone + Send + 'static,
    ) -> Result<Page<T>, Error> {
        self.page_of(after, limit, move |cpu, from, room| {
            let (Some(firewall), Ok(from)) = (cpu.firewall.as_deref(), u32::try_from(from)) else {
                return (Vec::new(), None);
            };
            let (rows, next) = read(firewall, from, room, cpu.now);
            (rows, next.map(u128::from))
        })
    }
}
