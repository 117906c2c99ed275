//! Listings over all CPUs, page by page: no CPU is asked for more at once than a turn has time for.

use net::cpu::Cpu;

use super::super::control::Control;
use crate::api::{Error, ErrorKind};

/// A part of what all CPUs have.
pub(crate) struct Page<T> {
    /// With the number of the processor that each was found on.
    pub(crate) rows: Vec<(u32, T)>,
    /// Where the next part begins; `None` if this was the last.
    pub(crate) next: Option<String>,
}

/// Where a page begins: on which CPU, and at which of its places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    cpu: usize,
    place: u128,
}

impl Control {
    /// Up to `limit` rows, from a place that an earlier page has named. `read` is asked for rows of one CPU, from a place
    /// on and so many at the most, and answers with them and the place behind; `None` at the end.
    pub(crate) fn page_of<T: Send + 'static>(
        &self,
        after: Option<&str>,
        limit: usize,
        read: impl Fn(&Cpu, u128, usize) -> (Vec<T>, Option<u128>) + Clone + Send + 'static,
    ) -> Result<Page<T>, Error> {
        let mut at = after.map_or(Ok(Place { cpu: 0, place: 0 }), Place::read)?;
        let (cpus, mut rows) = (self.cpus.iter().count(), Vec::new());
        while at.cpu < cpus && rows.len() < limit {
            let (Place { cpu, place }, room, read) = (at, limit - rows.len(), read.clone());
            let (found, next) = self.cpus.call(cpu, move |netisr| read(&netisr.cpu, place, room))?;
            let (is_empty, processor) = (found.is_empty(), self.processor(cpu));
            rows.extend(found.into_iter().map(|row| (processor, row)));
            at = next.map_or(Place { cpu: cpu + 1, place: 0 }, |place| Place { cpu, place });
            if next.is_some() && is_empty {
                break;
            }
        }
        Ok(Page { rows, next: (at.cpu < cpus).then(|| format!("{}.{}", at.cpu, at.place)) })
    }

    fn processor(&self, cpu: usize) -> u32 {
        let processor = self.cpus.iter().nth(cpu).map_or(0, |cpu| cpu.processor);
        u32::try_from(processor).unwrap_or(u32::MAX)
    }
}

impl Place {
    fn read(text: &str) -> Result<Self, Error> {
        let parts = text.split_once('.');
        let place =
            parts.and_then(|(cpu, place)| Some(Self { cpu: cpu.parse().ok()?, place: place.parse().ok()? }));
        place.ok_or_else(|| {
            Error::new(ErrorKind::Invalid, format!("`{text}` is not the `next` of an earlier answer"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_begins_where_an_answer_has_said() {
        assert_eq!(Place::read("1.77"), Ok(Place { cpu: 1, place: 77 }));
        for wrong in ["", "1", "x.1", "1.x", "1.2.3"] {
            assert!(Place::read(wrong).is_err(), "{wrong}");
        }
    }
}
