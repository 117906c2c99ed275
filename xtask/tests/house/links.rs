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
fn documents() -> Vec<PathBuf> {
    let dirs = [root(), root().join("docs"), root().join("docs/adr")];
    let files = dirs.iter().flat_map(|dir| std::fs::read_dir(dir).unwrap());
    let paths = files.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension() == Some(Path::new("md").as_os_str())).collect()
}

/// The targets of links to files: without those to other places and to headings.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let files = targets.filter(|target| !target.contains("://"));
    files.filter_map(|target| target.split('#').next()).filter(|target| !target.is_empty())
}
