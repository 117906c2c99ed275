//! Instructions of a part of this program, counted by valgrind: the same number on a laptop and on a busy server.

use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Runs this program with these arguments in valgrind, and answers the instructions of the function that has this name.
///
/// It must not be inlined, and no other may have a name that contains its own.
///
/// # Errors
///
/// When there is no valgrind, or the program fails.
pub fn count(args: &[&str], function: &str) -> Result<f64> {
    count_and_hear(args, function).map(|(count, _)| count)
}

/// Counts and returns the program's output as well.
///
/// # Errors
///
/// Those of [`count`].
pub fn count_and_hear(args: &[&str], function: &str) -> Result<(f64, String)> {
    let out = std::env::temp_dir().join(format!("pantala-bench-{}.callgrind", std::process::id()));
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--quiet"]).arg(format!("--toggle-collect=*{function}*"));
    command.arg(format!("--callgrind-out-file={}", out.display())).arg(std::env::current_exe()?).args(args);
    // The environment lies on the stack, and its length would shift what is measured.
    command.env_clear();
    let done = command.output().context("valgrind, which --uncounted does without")?;
    ensure!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let text = std::fs::read_to_string(&out)?;
    std::fs::remove_file(&out)?;
    let total = text.lines().find_map(|line| line.strip_prefix("totals: "));
    let total = total.context("valgrind counted nothing")?.trim().parse()?;
    Ok((total, String::from_utf8(done.stdout)?))
}
