//! A copy of the sources with all faults in it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::{Fault, SWITCH};
use crate::run::{capture, root};

/// Copies all files that git knows, with the faults; files that are as they were keep their time, so that little is built
/// anew.
pub fn tree(faults: &[Fault]) -> Result<PathBuf> {
    let tree = root().join("target/prove/tree");
    let mut by_file: BTreeMap<&Path, Vec<&Fault>> = BTreeMap::new();
    faults.iter().for_each(|fault| by_file.entry(&fault.file).or_default().push(fault));
    let mut texts = BTreeMap::new();
    for (file, faults) in by_file {
        let text = std::fs::read_to_string(root().join(file)).with_context(|| file.display().to_string())?;
        texts.insert(file, planted(&text, &faults)?);
    }
    let mut git = Command::new("git");
    git.args(["ls-files", "-z"]).current_dir(root());
    for name in capture(git)?.split('\0').filter(|name| !name.is_empty()) {
        let name = Path::new(name);
        let bytes = match texts.get(name) {
            Some(text) => text.clone().into_bytes(),
            // One that was deleted is known until that is committed.
            None => match std::fs::read(root().join(name)) {
                Ok(bytes) => bytes,
                Err(_) => continue,
            },
        };
        write(&tree.join(name), &bytes)?;
    }
    Ok(tree)
}

/// The text of a file with faults, each behind its switch. Several may stand in one place.
pub fn planted(text: &str, faults: &[&Fault]) -> Result<String> {
    let mut places: BTreeMap<usize, (&str, String)> = BTreeMap::new();
    for Fault { test, file, find, replace, .. } in faults {
        let count = text.matches(&**find).count();
        ensure!(count == 1, "{}: `{find}` is there {count} times, for {test}", file.display());
        let at = text.find(&**find).unwrap_or_default();
        let (_, expression) = places.entry(at).or_insert_with(|| (find, find.clone()));
        *expression = format!("(if {} {{ {replace} }} else {{ {expression} }})", is_on(test));
    }
    let (mut planted, mut done) = (String::new(), 0);
    for (at, (find, expression)) in places {
        let before = text.get(done..at).with_context(|| format!("`{find}` overlaps another fault"))?;
        planted.push_str(before);
        planted.push_str(&expression);
        done = at + find.len();
    }
    planted.push_str(&text[done..]);
    Ok(planted)
}

/// An expression that is true if the fault of this test is switched on. The environment is looked at once for each place, so
/// that a test has its usual pace.
fn is_on(test: &str) -> String {
    format!(
        "{{ static ON: std::sync::OnceLock<bool> = std::sync::OnceLock::new(); \
         *ON.get_or_init(|| std::env::var_os(\"{SWITCH}\").is_some_and(|test| test == \"{test}\")) }}"
    )
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    if std::fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    std::fs::create_dir_all(path.parent().unwrap_or(path))?;
    std::fs::write(path, bytes).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(test: &str, find: &str, replace: &str) -> Fault {
        let [test, find, replace] = [test, find, replace].map(str::to_owned);
        Fault { defect: None, test, breaks: String::new(), file: "lib.rs".into(), find, replace }
    }

    #[test]
    fn faults_stand_in_their_places_and_several_in_one() {
        let text = "let a = one(); two()";
        let faults = [fault("x", "one()", "1 + one()"), fault("y", "two()", "2"), fault("z", "one()", "3")];
        let planted = planted(text, &faults.each_ref()).unwrap();
        let [x, y, z] = ["x", "y", "z"].map(is_on);
        let one = format!("(if {z} {{ 3 }} else {{ (if {x} {{ 1 + one() }} else {{ one() }}) }})");
        assert_eq!(planted, format!("let a = {one}; (if {y} {{ 2 }} else {{ two() }})"));
    }

    #[test]
    fn a_fault_whose_place_is_not_there_once_cannot_be_planted() {
        for (text, find) in [("a b a", "a"), ("b", "a")] {
            assert!(planted(text, &[&fault("x", find, "c")]).is_err());
        }
        assert!(planted("a b c", &[&fault("x", "a b", "d"), &fault("y", "b c", "d")]).is_err());
    }
}
