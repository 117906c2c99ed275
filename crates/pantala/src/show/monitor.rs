//! `netstat -M`: frames received by an interface in monitor mode.

use core::fmt::Write;

use crate::api::Monitored;
use crate::pktgen::percentiles;

// Writing to a String does not fail.
pub(crate) fn monitored(seen: &Monitored) -> String {
    let Monitored { frames, bytes, measured, flows, lost, duplicated, reordered, .. } = seen;
    let mut text = format!("{}: {frames} frames, {bytes} bytes\n", seen.interface);
    let _ = writeln!(text, "\t{measured} of a generator, in {flows} flows");
    if *measured == 0 {
        return text;
    }
    let by = if *reordered > 0 { format!(" by at most {}", seen.displacement_max) } else { String::new() };
    let _ = writeln!(text, "\t{lost} lost, {duplicated} duplicated, {reordered} reordered{by}");
    if seen.untracked > 0 {
        let _ = writeln!(text, "\t{} of more flows than are kept apart", seen.untracked);
    }
    if let Some(latency) = &seen.latency_ns {
        let _ = writeln!(text, "\tlatency {}", percentiles(latency).join(", "));
    }
    text
}
