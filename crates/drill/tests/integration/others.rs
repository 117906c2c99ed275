//! Scripts that others wrote. They are not in this repository; `DRILL_SCRIPTS` names folders of them, with `:` between.
use std::path::{Path, PathBuf};

fn scripts_of_others_are_read_and_what_is_printed_of_them_is_read_as_the_same() {
    let scripts = scripts();
    if scripts.is_empty() {
        return harness::skip("DRILL_SCRIPTS names no folder of packetdrill scripts");
    }
    let mut wrong = Vec::new();
    for path in &scripts {
        let text = String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned();
        match drill::parse(&path.display().to_string(), &text, &[drill::STANDARD]) {
            Ok(script) => {
                let printed = script.to_string();
                let again =
                    drill::parse("printed", &printed, &[]).unwrap_or_else(|errors| panic!("{}", errors[0]));
                assert_eq!(again, script, "{}", path.display());
                assert_eq!(again.to_string(), printed, "{}", path.display());
            }
            Err(errors) => wrong.extend(errors.iter().map(ToString::to_string)),
        }
    }
    assert!(wrong.is_empty(), "{} errors in {} scripts:\n{}", wrong.len(), scripts.len(), wrong.join("\n"));
}

fn scripts() -> Vec<PathBuf> {
    let folders = std::env::var_os("DRILL_SCRIPTS").unwrap_or_default();
    let mut scripts = Vec::new();
    std::env::split_paths(&folders)
        .filter(|folder| folder.is_dir())
        .for_each(|folder| walk(&folder, &mut scripts));
    scripts.sort();
    scripts
}

fn walk(folder: &Path, scripts: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => walk(&path, scripts),
            false if path.extension().is_some_and(|extension| extension == "pkt") => scripts.push(path),
            false => {}
        }
    }
}

harness::tests![scripts_of_others_are_read_and_what_is_printed_of_them_is_read_as_the_same];
