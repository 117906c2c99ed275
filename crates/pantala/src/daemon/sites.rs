//! Web servers: for each `[[serve]]` a thread that reads files, and a program on each netisr.

use std::thread::JoinHandle;

use net::program::ProgramId;
use pkt::counters::{CounterReader, sum};

use super::control::Control;
use super::log;
use crate::api::{self, Error, ErrorKind};
use crate::config::Serve;
use crate::serve::{self, Hit};

/// A web server.
pub(super) struct Site {
    serve: Serve,
    /// One on each CPU, in their order.
    programs: Vec<ProgramId>,
    counters: Vec<CounterReader<Hit>>,
    /// The thread that reads its files.
    reader: JoinHandle<()>,
}

impl Site {
    /// How often something happened, on all CPUs.
    fn count(&self, hit: Hit) -> u64 {
        sum(&self.counters, hit)
    }
}

impl Control {
    /// Begins those that are not there yet.
    pub(super) fn begin_sites(&mut self, serves: &[Serve]) -> Result<(), Error> {
        for serve in serves {
            if self.sites.iter().all(|site| site.serve != *serve) {
                let site = self.begin_site(serve)?;
                self.sites.push(site);
            }
        }
        Ok(())
    }

    /// What is counted of each.
    pub(super) fn list_webs(&self) -> Vec<api::stack::Web<'_>> {
        let webs = self.sites.iter();
        webs.map(|site| api::stack::Web {
            at: site.serve.addr.to_string(),
            count: Box::new(|hit| site.count(hit)),
        })
        .collect()
    }

    fn begin_site(&self, serve: &Serve) -> Result<Site, Error> {
        let Serve { folder, addr, limits } = serve;
        let (remotes, seccomp) = (self.cpus.remotes(), self.config.seccomp);
        let (webs, reader) = serve::confined_folder(folder, *addr, remotes, *limits, seccomp)
            .map_err(|why| Error::new(ErrorKind::Invalid, format!("{}: {why}", folder.display())))?;
        let mut site = Site { serve: serve.clone(), programs: Vec::new(), counters: Vec::new(), reader };
        for (cpu, web) in webs.into_iter().enumerate() {
            site.counters.push(web.counters());
            match self.cpus.call(cpu, move |netisr| netisr.begin(Box::new(web)))? {
                Ok(program) => site.programs.push(program),
                Err(why) => {
                    self.end_site(&site);
                    let why = format!("cannot serve {} at {addr}: {why}", folder.display());
                    return Err(Error::new(ErrorKind::Invalid, why));
                }
            }
        }
        log::info(&format!("{} is served at {addr}", folder.display()));
        Ok(site)
    }

    /// Ends those that are not among `kept`; their connections end in order. Answers the threads that have read their
    /// files, which end soon.
    pub(super) fn end_sites(&mut self, kept: &[Serve]) -> Vec<JoinHandle<()>> {
        let (stay, go): (Vec<_>, Vec<_>) = self.sites.drain(..).partition(|site| kept.contains(&site.serve));
        self.sites = stay;
        let ended = go.into_iter().map(|site| {
            self.end_site(&site);
            let [connections, requests, bytes] =
                [Hit::Connections, Hit::Requests, Hit::Bytes].map(|hit| site.count(hit));
            log::info(&format!(
                "{} is not served any more: {connections} connections, {requests} requests, {bytes} bytes",
                site.serve.folder.display()
            ));
            site.reader
        });
        ended.collect()
    }

    fn end_site(&self, site: &Site) {
        for (cpu, program) in site.programs.iter().copied().enumerate() {
            // A CPU that does not answer has no connections any more.
            let _ = self.cpus.call(cpu, move |netisr| netisr.end(program));
        }
    }
}
