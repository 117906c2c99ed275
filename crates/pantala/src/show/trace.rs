//! Ways of packets: one line for each step.

use crate::api::{TraceStep, TracedPacket, WhyAnswer};

/// Columns of the stage.
const STAGE: usize = 10;

/// The answer of `why`.
pub(crate) fn why(answer: &WhyAnswer, verbose: bool) -> String {
    let mut text = traced(&answer.packet, verbose);
    text += &format!("{}\n", answer.verdict);
    if let Some(hint) = &answer.hint {
        text += &format!("hint: {hint}\n");
    }
    text
}

/// A packet and its steps; if `verbose`, with what was counted.
pub(crate) fn traced(packet: &TracedPacket, verbose: bool) -> String {
    let from = packet.interface.as_ref().map_or_else(|| "made here".into(), |name| format!("in by {name}"));
    let mut text = format!("{}, {} bytes, {from}, CPU {}\n", packet.packet, packet.len, packet.cpu);
    for step in packet.steps.iter().filter(|step| verbose || step.stage != "counters") {
        text += &line(step, verbose);
    }
    text
}

fn line(step: &TraceStep, verbose: bool) -> String {
    let cycles = if verbose { format!("{:>8}  ", step.cycles) } else { String::new() };
    let mut text = String::new();
    let indent = cycles.len() + STAGE + 4;
    let mut lines = step.rules.iter().map(String::as_str).chain([step.text.as_str()]);
    let first = lines.next().unwrap_or_default();
    text += &format!("  {cycles}{:STAGE$}  {first}\n", step.stage);
    for line in lines {
        text += &format!("{:indent$}{line}\n", "");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::TraceEnd;

    #[test]
    fn rules_stand_above_what_they_did() {
        let step = |stage: &str, text: &str, rules: &[&str]| TraceStep {
            stage: stage.into(),
            text: text.into(),
            rules: rules.iter().map(|&rule| rule.to_owned()).collect(),
            cycles: 120,
        };
        let packet = TracedPacket {
            at_ns: 0,
            cpu: 1,
            interface: Some("lan".into()),
            packet: "192.0.2.7.5 > 198.51.100.9.443 tcp".into(),
            len: 40,
            steps: vec![
                step(
                    "ingress",
                    "installs a state; passes",
                    &["00100 allow tcp from any to any 443 keep-state"],
                ),
                step("counters", "ip4_in +1", &[]),
            ],
        };
        let answer = WhyAnswer {
            packet,
            end: TraceEnd::Dropped,
            verdict: "dropped: a rule denies it".into(),
            hint: Some("another rule".into()),
        };
        let text = "\
192.0.2.7.5 > 198.51.100.9.443 tcp, 40 bytes, in by lan, CPU 1
  ingress     00100 allow tcp from any to any 443 keep-state
              installs a state; passes
dropped: a rule denies it
hint: another rule
";
        assert_eq!(why(&answer, false), text);
        let verbose = traced(&answer.packet, true);
        assert!(verbose.contains("       120  counters    ip4_in +1\n"), "{verbose}");
    }
}
