//! `wrk`, and what its minutes cost the server.

use core::time::Duration;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use super::SD;
use super::SERVER;
use super::host::{CLIENT, PREFERRED, Server, TICKS};
use crate::peers::contest::{Sample, Source};
use crate::peers::machine;
use crate::peers::process::{Running, mortal};
use crate::peers::topics::veth::Said;
use crate::run::root;

/// Beyond the time that it asks for.
const LIMIT: Duration = Duration::from_secs(15);
/// Requests that may go wrong, as a share of all: some are under way when time is up.
const WRONG_MAX: f64 = 0.01;

/// Says all that is wanted of it in lines of its own.
const REPORT: &str = r#"
done = function(summary, latency, requests)
  local e = summary.errors
  io.write(string.format("requests = %d\nbytes = %d\nus = %d\n", summary.requests, summary.bytes, summary.duration))
  io.write(string.format("wrong = %d\n", e.connect + e.read + e.write + e.status + e.timeout))
  io.write(string.format("mean = %.2f\nsd = %.2f\n", latency.mean, latency.stdev))
  for _, p in pairs({ 50, 99, 99.9 }) do
    io.write(string.format("p%g = %d\n", p, latency:percentile(p)))
  end
end
"#;

/// The request load.
#[derive(Clone, Copy)]
pub struct Load {
    pub connections: usize,
    /// A connection ends behind its answer.
    pub closes: bool,
    pub path: &'static str,
}

impl Load {
    pub const CLOSE: Self = Self { connections: 64, closes: true, path: "k" };
    pub const ASK: Self = Self { closes: false, ..Self::CLOSE };
    pub const BULK: Self = Self { connections: 1, closes: false, path: "bulk" };

    pub fn describe(&self) -> &'static str {
        if self.closes { "one request for each connection" } else { "one request after the other" }
    }

    /// Asks for so many seconds, after one in which all comes to know its way.
    pub fn run(&self, server: &Server, seconds: u64) -> Result<Sample> {
        self.ask(server, 1)?;
        let before = Spent::of(server)?;
        let text = self.ask(server, seconds)?;
        let spent = Spent::of(server)?.less(&before);
        self.sample(&Said(&text), &spent).with_context(|| format!("wrk said {text}"))
    }

    fn ask(&self, server: &Server, seconds: u64) -> Result<String> {
        let mut command = mortal("ip");
        command.args(["netns", "exec", server.client_netns()]).args(PREFERRED).args(["taskset", "-c"]);
        command.args([machine::other_cpu().to_string().as_str(), "wrk", "-t1", "--timeout", "10s", "-s"]);
        command.arg(report()?).args([format!("-c{}", self.connections), format!("-d{seconds}s")]);
        if self.closes {
            command.args(["-H", "Connection: close"]);
        }
        command.arg(format!("http://{}/{}", Server::ADDRESS, self.path));
        Running::start(&format!("{CLIENT}-wrk"), command)?.finish(LIMIT + Duration::from_secs(seconds))
    }

    fn sample(&self, said: &Said<'_>, spent: &Spent) -> Result<Sample> {
        let number = |name: &str| said.number(name).with_context(|| format!("no {name}"));
        let (requests, seconds) = (number("requests")?, number("us")? / 1e6);
        ensure!(requests > 0.0, "no request was answered");
        ensure!(number("wrong")? <= WRONG_MAX * requests, "too much went wrong");
        if self.path == Self::BULK.path {
            return Ok(Sample::saturated(number("bytes")? * 8.0 / seconds));
        }
        let each = |time: f64| time * 1e6 / requests;
        let figures = vec![
            (SERVER, each(spent.server)),
            ("of it in the kernel, us a request", each(spent.kernel)),
            ("both CPUs, us a request", each(spent.cpus)),
            ("requests in a second of the server's processor time", requests / spent.server.max(0.01)),
            ("latency: mean, us", number("mean")?),
            (SD, number("sd")?),
            ("latency: p50, us", number("p50")?),
            ("latency: p99, us", number("p99")?),
            ("latency: p99.9, us", number("p99.9")?),
        ];
        Ok(Sample { rate: requests / seconds, source: Source::Saturated, figures })
    }
}

fn report() -> Result<PathBuf> {
    let path = root().join("target/peers/report.lua");
    std::fs::create_dir_all(path.parent().unwrap_or(&path))?;
    std::fs::write(&path, REPORT)?;
    Ok(path)
}

/// Seconds of processor time.
struct Spent {
    /// Processor time of the server, and of the kernel for it.
    server: f64,
    /// Kernel time of the server's threads.
    kernel: f64,
    /// All that both CPUs did, for whomever.
    cpus: f64,
}

impl Spent {
    fn of(server: &Server) -> Result<Self> {
        Ok(Self {
            server: server.time()?,
            kernel: server.kernel_time()?,
            cpus: busy(machine::test_cpu())? + busy(machine::other_cpu())?,
        })
    }

    fn less(&self, before: &Self) -> Self {
        Self {
            server: self.server - before.server,
            kernel: self.kernel - before.kernel,
            cpus: self.cpus - before.cpus,
        }
    }
}

/// Returns the busy time of a CPU since boot: all but idle and I/O wait.
fn busy(cpu: usize) -> Result<f64> {
    let text = std::fs::read_to_string("/proc/stat")?;
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("cpu{cpu} ")));
    let numbers: Vec<f64> = line.context("no such CPU")?.split_whitespace().flat_map(str::parse).collect();
    // user nice system idle iowait irq softirq steal
    let busy = [0, 1, 2, 5, 6].iter().filter_map(|at| numbers.get(*at));
    Ok(busy.sum::<f64>() / TICKS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_wrk_says_becomes_a_row() {
        let said = Said(
            "requests = 2000\nbytes = 1\nus = 2000000\nwrong = 3\nmean = 5.5\nsd = 2\np50 = 5\np99 = 9\np99.9 = 10\n",
        );
        let spent = Spent { server: 1.0, kernel: 0.5, cpus: 1.5 };
        let sample = Load::CLOSE.sample(&said, &spent).unwrap();
        assert_eq!((sample.rate, sample.figures[0], sample.figures[2].1), (1000.0, (SERVER, 500.0), 750.0));
        let wrong = Said("requests = 100\nbytes = 1\nus = 2000000\nwrong = 3\n");
        assert!(Load::CLOSE.sample(&wrong, &spent).is_err());
    }
}
