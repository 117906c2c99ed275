//! Memory that hosts leave behind in this process. Alone in its process, because it looks at all of its memory.

use sim::drill::{Setup, run};

/// Bytes that are mapped into this process.
fn mapped() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').next().unwrap().parse::<u64>().unwrap() * 4096
}

/// A segment waits for an acknowledgment, and the script ends there, with a demand that is not met.
const SCRIPT: &str = "
0.0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0.0 bind(3, ..., ...) = 0
+0.0 listen(3, 1) = 0
+0.0 < S 0:0(0) win 65535 <mss 1460>
+0.0 > S. 0:0(0) ack 1 <...>
+0.0 < . 1:1(0) ack 1 win 65535
+0.0 accept(3, ..., ...) = 4
+0.0 send(4, ..., 1000, 0) = 1000
+0.0 > . 1:1001(1000) ack 2
";

fn hosts_that_end_in_the_middle_of_their_work_leave_no_memory_behind() {
    let script = drill::parse("unmet.pkt", SCRIPT, &[]).unwrap();
    let fail = |times| (0..times).for_each(|_| assert!(run(&script, &Setup::default()).is_err()));
    fail(5);
    let before = mapped();
    fail(50);
    // The buffers of one host are more than a megabyte.
    assert!(mapped() < before + (10 << 20), "{} bytes more", mapped() - before);
}

harness::tests![; alone: hosts_that_end_in_the_middle_of_their_work_leave_no_memory_behind];
