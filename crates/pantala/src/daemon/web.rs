//! Web servers: for each `[[serve]]` a thread that reads files, and a program on each netisr.

use std::thread::JoinHandle;

use net::app::AppId;
use pkt::counters::{CounterReader, sum};

use super::control::Control;
use super::log;
use crate::StackError;
use crate::api;
use crate::config::Serve;
use crate::plural::counted;
use crate::serve::{self, Hit, Web};

/// A web server.
pub(super) struct WebServer {
    serve: Serve,
    /// One on each CPU, in their order.
    programs: Vec<AppId>,
    counters: Vec<CounterReader<Hit>>,
    /// The thread that reads its files.
    reader: JoinHandle<()>,
}

impl core::fmt::Display for OpenSite {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "cannot serve {} at {}", self.serve.folder.display(), self.serve.addr)
    }
}

impl OpenSite {
    /// Returns its configuration.
    pub(super) const fn serve(&self) -> &Serve {
        &self.serve
    }
}

impl WebServer {
    /// Returns the count of an event on all CPUs.
    fn count(&self, hit: Hit) -> u64 {
        sum(&self.counters, hit)
    }
}

/// A web server whose folder is open, and that does not listen yet. Its thread ends if it never does.
pub(super) struct OpenSite {
    serve: Serve,
    webs: Vec<Web>,
    reader: JoinHandle<()>,
}

impl Control {
    /// Opens the folders of those that do not run.
    pub(super) fn open_sites(&self, serves: &[Serve]) -> Result<Vec<OpenSite>, StackError> {
        let new = serves.iter().filter(|serve| self.sites.iter().all(|site| site.serve != **serve));
        new.map(|serve| self.open_site(serve)).collect()
    }

    fn open_site(&self, serve: &Serve) -> Result<OpenSite, StackError> {
        let Serve { folder, addr, limits } = serve;
        let (remotes, seccomp) = (self.cpus.remotes(), self.config.seccomp);
        let (webs, reader) = serve::confined_folder(folder, *addr, remotes, *limits, seccomp)
            .map_err(|why| StackError::Misfit(format!("{}: {why}", folder.display())))?;
        Ok(OpenSite { serve: serve.clone(), webs, reader })
    }

    /// Opens the folder of one that has ended, and begins it again.
    pub(super) fn begin_again(&mut self, serve: &Serve) -> Result<(), StackError> {
        let site = self.open_site(serve)?;
        self.begin_site(site)
    }

    /// Returns the configurations of the running ones.
    pub(super) fn serves(&self) -> Vec<Serve> {
        self.sites.iter().map(|site| site.serve.clone()).collect()
    }

    /// Returns the counters of each.
    pub(super) fn list_webs(&self) -> Vec<api::stack::Web<'_>> {
        let webs = self.sites.iter();
        webs.map(|site| api::stack::Web {
            at: site.serve.addr.to_string(),
            count: Box::new(|hit| site.count(hit)),
        })
        .collect()
    }

    /// Begins one on all CPUs, or on none.
    pub(super) fn begin_site(&mut self, site: OpenSite) -> Result<(), StackError> {
        let OpenSite { serve, webs, reader } = site;
        let (folder, addr) = (serve.folder.display().to_string(), serve.addr);
        let mut site = WebServer { serve, programs: Vec::new(), counters: Vec::new(), reader };
        for (cpu, web) in webs.into_iter().enumerate() {
            site.counters.push(web.counters());
            let begun = self.cpus.call(cpu, move |netisr| netisr.begin(Box::new(web)));
            match begun.map_err(|why| StackError::Netisr(why.error)) {
                Ok(Ok(program)) => site.programs.push(program),
                Ok(Err(why)) => {
                    self.end_site(&site);
                    return Err(StackError::Misfit(format!("cannot serve {folder} at {addr}: {why}")));
                }
                Err(why) => {
                    self.end_site(&site);
                    return Err(why);
                }
            }
        }
        log::info(&format!("{folder} is served at {addr}"));
        self.sites.push(site);
        Ok(())
    }

    /// Ends those that are not among `kept`; their connections end in order. Answers the threads that have read their
    /// files, which end soon.
    pub(super) fn end_sites(&mut self, kept: &[Serve]) -> Vec<JoinHandle<()>> {
        let (stay, go): (Vec<_>, Vec<_>) = self.sites.drain(..).partition(|site| kept.contains(&site.serve));
        self.sites = stay;
        let ended = go.into_iter().map(|site| {
            self.end_site(&site);
            let [connections, requests, bytes] =
                [(Hit::Connections, "connection"), (Hit::Requests, "request"), (Hit::Bytes, "byte")]
                    .map(|(hit, noun)| counted(site.count(hit), noun));
            let folder = site.serve.folder.display();
            log::info(&format!("{folder} is no longer served: {connections}, {requests}, {bytes}"));
            site.reader
        });
        ended.collect()
    }

    fn end_site(&self, site: &WebServer) {
        for (cpu, program) in site.programs.iter().copied().enumerate() {
            // A CPU that does not answer has no connections any more.
            let _ = self.cpus.call(cpu, move |netisr| netisr.end(program));
        }
    }
}
