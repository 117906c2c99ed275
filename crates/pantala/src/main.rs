//! The `pantala` program: see [`pantala::run`].
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    pantala::run(std::env::args_os(), &mut pantala::term::Term::stdio()).into()
}
