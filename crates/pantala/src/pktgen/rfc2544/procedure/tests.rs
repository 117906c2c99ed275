use super::*;
use crate::pktgen::rfc2544::args::Args;
use crate::pktgen::rfc2544::record::Course;

/// A device under test that forwards so many frames per second and has room for so many more.
#[derive(Clone)]
struct Device {
    rate: MilliFps,
    buffer: u64,
    /// The rate that the sender cannot exceed.
    sender: MilliFps,
    tried: Vec<Spec>,
    /// Frames of a burst that the sender gets rid of.
    burst_max: u64,
    /// Ends the run at this trial.
    break_at: Option<usize>,
}

impl Device {
    const fn new(rate: MilliFps, buffer: u64, sender: MilliFps) -> Self {
        Self { rate, buffer, sender, burst_max: u64::MAX, tried: Vec::new(), break_at: None }
    }

    /// Frames of `sent` in `ms` that are lost.
    fn lost(&self, sent: u64, ms: f64) -> u64 {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "few frames")]
        let forwarded = (crate::pktgen::rfc2544::float(self.rate) * ms / 1e6).ceil() as u64;
        sent.saturating_sub(forwarded + self.buffer)
    }

    fn counts(&self, sent: u64, lost: u64, time_ms: f64) -> Counts {
        Counts { sent, received: sent - lost, lost, time_ms, ..Counts::default() }
    }

    fn at_rate(&self, rate: MilliFps, time_ms: u64) -> (u64, f64) {
        let rate = rate.min(self.sender);
        (
            u64::try_from(u128::from(rate) * u128::from(time_ms) / 1_000_000).unwrap(),
            crate::pktgen::rfc2544::float(time_ms),
        )
    }
}

impl Tester for Device {
    fn trial(&mut self, spec: &Spec, _live: &mut dyn FnMut(Live)) -> Result<Outcome, Broken> {
        if self.break_at == Some(self.tried.len()) {
            return Err(Broken::Interrupted);
        }
        self.tried.push(*spec);
        let counts = match spec.load {
            Load::Unlimited { time_ms } => {
                let (sent, ms) = self.at_rate(u64::MAX, time_ms);
                self.counts(sent, self.lost(sent, ms), ms)
            }
            Load::Steady { rate, frames } => {
                let (most, ms) = self.at_rate(rate, spec.load.time_ms());
                let sent = if rate > self.sender { most } else { frames };
                self.counts(sent, self.lost(sent, ms), ms)
            }
            Load::Burst { frames, .. } => {
                let frames = frames.min(self.burst_max);
                let ms =
                    crate::pktgen::rfc2544::float(frames) * 1e6 / crate::pktgen::rfc2544::float(self.sender);
                self.counts(frames, self.lost(frames, ms), ms)
            }
            Load::Steps { first, time_ms, .. } => {
                let (sent, ms) = self.at_rate(first, time_ms);
                let lost = self.lost(sent, ms);
                let last_loss_ms = (lost > 0).then_some(ms + 3.5);
                Counts {
                    course: Some(Course { last_loss_ms, ..Course::default() }),
                    ..self.counts(sent, lost, 2.0 * ms)
                }
            }
            Load::Reset { rate, at_ms, time_ms } => {
                let (sent, ms) = self.at_rate(rate, time_ms);
                let at = crate::pktgen::rfc2544::float(at_ms);
                let course = Course {
                    silent_from_ms: at,
                    silent_to_ms: at + 250.0,
                    reset_ms: Some(at),
                    received: vec![10; 24],
                    ..Course::default()
                };
                Counts { course: Some(course), ..self.counts(sent, rate / 4000, ms) }
            }
        };
        Ok(Outcome { directions: vec![counts] })
    }
}

fn plan(more: &str) -> Plan {
    let line = format!("tap:a tap:b --trial 2s {more}");
    Plan::new(Args::read(&line.split_whitespace().collect::<Vec<_>>()).unwrap()).unwrap()
}

/// Runs over a device, from these trials on; answers the results, the trials, and whether it came to its end.
fn run(
    plan: &Plan,
    device: &mut Device,
    recorded: Vec<Trial>,
) -> (Vec<SizeResult>, Option<Reset>, Vec<Trial>, Option<Broken>) {
    let mut kept = Vec::new();
    let mut keep = |trials: &[Trial]| {
        kept = trials.to_vec();
        Ok(())
    };
    let mut show = |_: &Progress| {};
    let mut procedure = Procedure::new(plan, device, recorded, &mut keep, &mut show);
    let broken = procedure.run().err();
    let (sizes, reset, trials) = (procedure.sizes, procedure.reset, procedure.trials);
    assert_eq!(kept, trials, "every trial is kept when it was made");
    (sizes, reset, trials, broken)
}

/// The lowest and the highest answer that fits a device of a known rate.
fn fits(found: MilliFps, truth: MilliFps, resolution: u32) -> bool {
    // A trial of two seconds has whole frames, and the buffer takes some of them.
    let slack = truth * u64::from(resolution) / 100_000 + 1000;
    found.abs_diff(truth) <= slack
}

#[test]
fn the_throughput_of_a_known_device_is_found() {
    let plan = plan("--tests throughput --sizes 64,512 --resolution 0.1% --max-rate 10mpps");
    for truth in [1_000_000, 123_456_000, 9_999_999_000] {
        let mut device = Device::new(truth, 0, u64::MAX);
        let (sizes, _, trials, broken) = run(&plan, &mut device, Vec::new());
        assert_eq!((sizes.len(), broken), (2, None));
        for result in &sizes {
            let found = result.throughput.unwrap();
            assert!(fits(found.rate, truth, 100), "{truth}: {found:?}");
            assert_eq!(found.limit, Limit::Device);
            let of_size = trials.iter().filter(|trial| trial.spec.size == result.size);
            assert_eq!(of_size.count(), found.trials as usize);
        }
    }
}

#[test]
fn without_a_line_the_sender_is_measured_first_and_may_be_the_limit() {
    let plan = plan("--tests throughput --sizes 64");
    let (sizes, ..) = run(&plan, &mut Device::new(u64::MAX, 0, 3_000_000_000), Vec::new());
    let found = sizes[0].throughput.unwrap();
    assert_eq!((found.rate, found.limit, sizes[0].top_is_given), (3_000_000_000, Limit::Tester, false));
}

#[test]
fn a_sender_slower_than_the_line_is_the_limit_and_not_the_device() {
    let plan = plan("--tests throughput --sizes 64 --line 10gbit");
    let (sizes, ..) = run(&plan, &mut Device::new(u64::MAX, 0, 3_000_000_000), Vec::new());
    let found = sizes[0].throughput.unwrap();
    assert_eq!((found.rate, found.limit, found.trials), (3_000_000_000, Limit::Tester, 1));
}

#[test]
fn a_sender_that_does_not_keep_the_rate_asked_for_is_found_by_the_search() {
    let plan = plan("--tests throughput --sizes 64 --max-rate 10mpps");
    let (sizes, ..) = run(&plan, &mut Device::new(u64::MAX, 0, 3_000_000_000), Vec::new());
    let found = sizes[0].throughput.unwrap();
    assert!(fits(found.rate, 3_000_000_000, 500), "{found:?}");
    assert_eq!(found.limit, Limit::Tester);
}

#[test]
fn a_line_that_the_device_forwards_is_the_limit() {
    let plan = plan("--tests throughput --sizes 64 --line 10mbit");
    let (sizes, ..) = run(&plan, &mut Device::new(u64::MAX, 0, u64::MAX), Vec::new());
    let found = sizes[0].throughput.unwrap();
    assert_eq!((found.rate, found.limit, found.trials), (14_880_952, Limit::Top, 1));
    assert!(sizes[0].top_is_given);
}

#[test]
fn a_device_that_passes_nothing_has_no_throughput_and_no_latency() {
    let plan = plan("--tests latency,recovery --sizes 64 --max-rate 1mpps");
    let (sizes, _, trials, broken) = run(&plan, &mut Device::new(0, 0, u64::MAX), Vec::new());
    assert_eq!((sizes[0].throughput.unwrap().rate, broken), (0, None));
    assert!(trials.iter().all(|trial| trial.spec.test == Test::Throughput));
}

#[test]
fn a_tolerance_lets_a_share_be_lost() {
    let none = plan("--tests throughput --sizes 64 --resolution 0.1% --max-rate 10mpps");
    let some = plan("--tests throughput --sizes 64 --resolution 0.1% --max-rate 10mpps --loss-tolerance 10%");
    let rate = |plan: &Plan| {
        run(plan, &mut Device::new(900_000_000, 0, u64::MAX), Vec::new()).0[0].throughput.unwrap().rate
    };
    assert!(fits(rate(&none), 900_000_000, 100) && fits(rate(&some), 1_000_000_000, 100));
}

#[test]
fn the_loss_rate_goes_down_in_tenths_until_two_trials_lose_nothing() {
    let plan = plan("--tests loss --sizes 64 --max-rate 1mpps");
    let (sizes, ..) = run(&plan, &mut Device::new(750_000_000, 0, u64::MAX), Vec::new());
    let points: Vec<_> =
        sizes[0].loss.iter().map(|point| (point.percent_of_top, point.loss_percent.round())).collect();
    assert_eq!(points, [(100, 25.0), (90, 17.0), (80, 6.0), (70, 0.0), (60, 0.0)]);
}

#[test]
fn the_longest_burst_implies_the_buffer() {
    let plan =
        plan("--tests throughput,back-to-back --sizes 64 --max-rate 1mpps --repeat 3 --resolution 0.001%");
    // At twice its rate, a burst of twice the buffer fills it, and one frame more is forwarded meanwhile.
    let (sizes, ..) = run(&plan, &mut Device::new(500_000_000, 10_000, 1_000_000_000), Vec::new());
    let found = sizes[0].back_to_back.clone().unwrap();
    assert_eq!((found.bursts.as_slice(), found.is_unlimited), (&[20_001; 3][..], false));
    assert!((found.buffer_ms - 20.0).abs() < 0.01, "{found:?}");
    // 10,000 frames at a million per second; the trial's buffer is part of its throughput.
    assert!((found.corrected_buffer_ms - 10.0).abs() < 0.2, "{found:?}");
}

#[test]
fn a_burst_without_end_is_tried_once() {
    let plan = plan("--tests back-to-back --sizes 64 --max-rate 1mpps");
    let (sizes, _, trials, _) = run(&plan, &mut Device::new(u64::MAX, 0, 1_000_000_000), Vec::new());
    let found = sizes[0].back_to_back.clone().unwrap();
    assert_eq!((found.is_unlimited, found.max, trials.len()), (true, 2_000_000, 1));
}

#[test]
fn a_sender_that_gets_slower_does_not_make_a_buffer() {
    let plan = plan("--tests back-to-back --sizes 64 --max-rate 1mpps --repeat 3");
    let mut device = Device::new(u64::MAX, 0, 1_000_000_000);
    device.burst_max = 900_000;
    let (sizes, ..) = run(&plan, &mut device, Vec::new());
    let found = sizes[0].back_to_back.clone().unwrap();
    assert_eq!((found.is_unlimited, found.bursts.as_slice()), (true, &[900_000][..]));
}

#[test]
fn recovery_is_from_the_reduction_to_the_last_loss_and_reset_by_both_methods() {
    let plan =
        plan("--tests recovery,reset --sizes 64,128 --max-rate 1mpps --reset-command true --reset-time 12s");
    let (sizes, reset, ..) = run(&plan, &mut Device::new(500_000_000, 0, u64::MAX), Vec::new());
    let found = sizes[1].recovery[0];
    assert!((found.time_ms - 3.5).abs() < 1e-9 && !found.is_lasting && found.overload_lost > 0, "{found:?}");
    let Some(Reset::Measured { size, time_ms, by_loss_ms, is_back, .. }) = reset else { panic!("{reset:?}") };
    assert!(size == 64 && is_back && (time_ms - 250.0).abs() < 1e-9 && (by_loss_ms - 250.0).abs() < 1.0);
}

#[test]
fn a_reset_without_a_command_is_said_to_be_skipped() {
    let plan = plan("--tests reset --sizes 64 --max-rate 1mpps");
    let (_, reset, ..) = run(&plan, &mut Device::new(u64::MAX, 0, u64::MAX), Vec::new());
    assert!(matches!(reset, Some(Reset::Skipped { why }) if why.contains("--reset-command")));
}

#[test]
fn a_run_that_was_broken_off_anywhere_ends_as_one_that_was_not_and_makes_no_trial_twice() {
    let plan = plan("--sizes 64,128 --max-rate 1mpps --repeat 2 --resolution 5% --reset-command true");
    let device = Device::new(640_000_000, 1000, 900_000_000);
    let (sizes, reset, trials, _) = run(&plan, &mut device.clone(), Vec::new());
    for broken_at in (0..trials.len()).step_by(7) {
        let mut first = Device { break_at: Some(broken_at), ..device.clone() };
        let (_, _, so_far, broken) = run(&plan, &mut first, Vec::new());
        assert_eq!((so_far.len(), broken), (broken_at, Some(Broken::Interrupted)));
        let mut second = device.clone();
        let resumed = run(&plan, &mut second, so_far);
        assert_eq!((&resumed.0, &resumed.1, &resumed.2), (&sizes, &reset, &trials), "broken at {broken_at}");
        assert_eq!(second.tried.len(), trials.len() - broken_at);
    }
}

#[test]
fn trials_of_another_plan_are_not_taken() {
    let (plan, other) = (plan("--sizes 64 --max-rate 1mpps"), plan("--sizes 128 --max-rate 1mpps"));
    let device = Device::new(640_000_000, 1000, 900_000_000);
    let (.., trials, _) = run(&other, &mut device.clone(), Vec::new());
    let mut keep = |_: &[Trial]| Ok(());
    let mut show = |_: &Progress| {};
    let mut device = device;
    let mut procedure = Procedure::new(&plan, &mut device, trials, &mut keep, &mut show);
    let why = procedure.run().unwrap_err();
    assert!(matches!(&why, Broken::Failed(why) if why.contains("other trials than its plan")), "{why:?}");
}
