//! Documents: links lead to files and headings that exist, the index names each page, the README is short.

use std::path::{Path, PathBuf};

use crate::root;

#[test]
fn links_in_documents_lead_somewhere() {
    for document in documents() {
        let text = std::fs::read_to_string(&document).unwrap();
        for link in links(&text) {
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let beside = document.parent().unwrap().join(file);
            let target = if file.is_empty() { document.clone() } else { beside };
            assert!(target.exists(), "{}: {link} leads nowhere", document.display());
            if !heading.is_empty() && target.extension().is_some_and(|extension| extension == "md") {
                let target = std::fs::read_to_string(target).unwrap();
                let found = anchors(&target).any(|anchor| anchor == heading);
                assert!(found, "{}: {link}: no such heading", document.display());
            }
        }
    }
}

#[test]
fn the_readme_is_short_and_the_index_names_each_page() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    assert!(readme.lines().count() <= 200, "README.md has {} lines: 200 are enough", readme.lines().count());
    let index = std::fs::read_to_string(root().join("docs/README.md")).unwrap();
    for shelf in ["guide", "reference", "design", "evidence"] {
        for page in markdown(&root().join("docs").join(shelf)) {
            let link = format!("]({shelf}/{})", page.file_name().unwrap().to_str().unwrap());
            assert!(index.contains(&link), "docs/README.md does not name {}", page.display());
        }
    }
}

/// The anchors that a Markdown renderer gives the headings.
fn anchors(text: &str) -> impl Iterator<Item = String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings.map(|line| {
        let words = line.trim_start_matches('#').trim().to_lowercase();
        let kept = words.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    })
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

/// The targets of links within the project.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.filter(|target| !target.contains("://"))
}
