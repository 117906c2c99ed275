//! The documents point at files that exist.

use std::path::{Path, PathBuf};

use crate::root;

#[test]
fn links_in_documents_lead_somewhere() {
    for document in documents() {
        let text = std::fs::read_to_string(&document).unwrap();
        for link in links(&text) {
            let target = document.parent().unwrap().join(link);
            assert!(target.exists(), "{}: {link} leads nowhere", document.display());
        }
    }
}

/// All Markdown files at the top and below `docs`.
pub(crate) fn documents() -> Vec<PathBuf> {
    let mut found = markdown(&root());
    let mut dirs = vec![root().join("docs")];
    while let Some(dir) = dirs.pop() {
        found.extend(markdown(&dir));
        dirs.extend(entries(&dir).into_iter().filter(|path| path.is_dir()));
    }
    found.sort();
    found
}

fn markdown(dir: &Path) -> Vec<PathBuf> {
    let paths = entries(dir).into_iter();
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect()
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect()
}

/// The targets of links to files: without those to other places and to headings.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let files = targets.filter(|target| !target.contains("://"));
    files.filter_map(|target| target.split('#').next()).filter(|target| !target.is_empty())
}
