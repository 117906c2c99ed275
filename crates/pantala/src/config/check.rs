//! Does it fit together? Compares the values of a draft with each other and with the machine.
//!
//! Pure: all that is known of the machine comes in as [`Machine`].

pub(crate) mod interfaces;
mod routes;

use net::fib::FibIndex;
use net::flow::FLOWS_DEFAULT;

use super::draft::Draft;
use super::problem::{At, Report};
use super::{Config, Machine, Wires, serve, service};
use crate::firewall::section;

/// The configuration that a draft means. It is to be used only if nothing was reported.
pub(crate) fn check(draft: &Draft, machine: &Machine, report: &mut Report<'_>) -> Config {
    let (fibs, is_shared) = fibs(draft);
    let (interfaces, links) = interfaces::check(&draft.interfaces, (fibs, is_shared), report);
    let routes = routes::check(&draft.routes, &links, fibs, report);
    tables_of_sources(draft, fibs, report);
    let firewall = draft.firewall.as_ref().map(|draft| section::check(draft, &interfaces, report));
    Config {
        cpus: cpus(draft, machine, report),
        pinned: draft.threads.is_none(),
        polling: draft.polling,
        forwarding: draft.forwarding.as_ref().is_some_and(|at| at.value),
        flow_cache: draft
            .flow_cache
            .as_ref()
            .map_or_else(|| flows_by_default(firewall.as_ref(), &interfaces), |at| at.value),
        fibs,
        add_addr_all_fibs: is_shared,
        buffers: draft.buffers.as_ref().map(|at| at.value),
        socket: draft.socket.as_ref().map(|at| at.value.clone()),
        interfaces,
        routes,
        route_sources: draft.route_sources.clone(),
        serves: serve::check(&draft.serves, report),
        services: service::check(&draft.services, &draft.serves, report),
        firewall,
        sysctl: draft.sysctl.clone(),
        user: draft.user.clone(),
        group: draft.group.clone(),
        seccomp: draft.seccomp,
        admin: draft.admin.clone(),
        http: draft.http.clone(),
        ipfix: draft.ipfix,
        sflow: draft.sflow,
        programs: draft.programs.clone(),
        wires: Wires::new(),
        force: false,
    }
}

/// Returns the number of routing tables, and whether the routes of addresses are in all of them.
fn fibs(draft: &Draft) -> (FibIndex, bool) {
    let count = draft.fibs.as_ref().and_then(|at| FibIndex::try_from(at.value).ok()).unwrap_or(1);
    (count, draft.add_addr_all_fibs.as_ref().is_some_and(|at| at.value))
}

/// Checks that the tables exist in which the routes of other tables are put.
fn tables_of_sources(draft: &Draft, fibs: FibIndex, report: &mut Report<'_>) {
    let sources = &draft.route_sources;
    let fpm = sources.fpm.iter().map(|fpm| &fpm.common);
    let all = fpm.chain(sources.kernel.iter().map(|kernel| &kernel.common));
    for (there, fib) in all.flat_map(|common| &common.tables).filter(|(_, fib)| **fib >= fibs) {
        let text = format!("[routes]: there is no routing table {fib} for table {there}");
        report.add(&(0..0), text, format!("say fibs = {} at the top of the file", fib.saturating_add(1)));
    }
}

/// Returns the table that is named, 0 if none is.
fn fib(named: Option<&At<u32>>, fibs: FibIndex, report: &mut Report<'_>) -> FibIndex {
    let Some(at) = named else { return 0 };
    let fib = FibIndex::try_from(at.value).unwrap_or(FibIndex::MAX);
    if fib >= fibs {
        let most = fibs.saturating_sub(1);
        let text = format!("there is no routing table {fib}: the last one is {most}");
        report.add(&at.span, text, format!("say fibs = {} at the top of the file", fib.saturating_add(1)));
    }
    fib
}

/// Rules cost more than the cache, routes alone cost less (`docs/evidence/MEASUREMENTS.md`). Flows are offloaded out of it.
fn flows_by_default(firewall: Option<&section::Firewall>, interfaces: &[super::Interface]) -> u32 {
    let is_wanted = firewall.is_some() || interfaces.iter().any(|interface| interface.offload);
    let flows = if is_wanted { FLOWS_DEFAULT } else { 0 };
    u32::try_from(flows).unwrap_or(u32::MAX)
}

fn cpus(draft: &Draft, machine: &Machine, report: &mut Report<'_>) -> Vec<usize> {
    if let Some(threads) = &draft.threads {
        if !draft.cpus.is_empty() {
            let help = "keep `cpus` for threads that stay on these CPUs, `threads` for as many that the kernel places";
            report.add(&threads.span, "`cpus` and `threads` both say how many netisrs there are", help);
        }
        return (0..threads.value as usize).collect();
    }
    if draft.cpus.is_empty() {
        if let Some(key) = &draft.cpus_key {
            report.add(key, "`cpus` is empty", "leave it out to use every CPU this process may run on");
        }
        return machine.cpus.clone();
    }
    let mut chosen = Vec::new();
    for cpu in &draft.cpus {
        if !machine.cpus.contains(&cpu.value) {
            let help = format!("this process may use {}", listed(&machine.cpus));
            report.add(&cpu.span, format!("CPU {} is not available", cpu.value), help);
        } else if chosen.contains(&cpu.value) {
            report.add(&cpu.span, format!("CPU {} is named twice", cpu.value), "one netisr runs on each CPU");
        }
        chosen.push(cpu.value);
    }
    chosen
}

fn listed(cpus: &[usize]) -> String {
    cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}
