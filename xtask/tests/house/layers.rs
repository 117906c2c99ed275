//! The layers of `net`: each folder imports from those below it, and from the hub. The lowest, `base`, is a crate.

use crate::{Source, sources};

const NET: &str = "crates/net/src/";
/// Folders, from the lowest layer up.
const LAYERS: [&str; 8] = ["base", "fib", "link", "out", "ip", "firewall", "flow", "host"];
/// Imports all layers; all but the pure ones import it.
const HUB: &str = "turn";
/// Layers that do not know the hub: they are functions of their arguments.
const PURE: [&str; 2] = ["base", "fib"];

#[test]
fn a_layer_of_net_imports_from_lower_layers_and_from_the_hub() {
    let mut wrong = Vec::new();
    for source in product() {
        let own = layer(&source.path);
        let Some(rank) = rank(own) else { continue };
        for (line, import) in imports(&source.text) {
            let is_allowed = match self::rank(import) {
                Some(imported) => imported <= rank,
                None => import == HUB && !PURE.contains(&own),
            };
            if !is_allowed {
                wrong.push(format!("{}:{line}: `{own}` must not import `crate::{import}`", source.path));
            }
        }
    }
    assert!(wrong.is_empty(), "see the layers in crates/net/src/lib.rs:\n{}", wrong.join("\n"));
}

#[test]
fn each_folder_of_net_is_a_layer_or_the_hub() {
    for source in product() {
        let own = layer(&source.path);
        let is_known = rank(own).is_some() || [HUB, "lib", "testkit"].contains(&own);
        assert!(is_known, "{}: `{own}` has no place among the layers", source.path);
    }
}

#[test]
fn an_upward_import_would_be_found() {
    let found: Vec<_> =
        imports("use crate::base::time;\nuse crate::host::{tcp, udp}; // crate::flow\n").collect();
    assert_eq!(found, [(1, "base"), (2, "host")]);
    assert!(rank("host") > rank("ip") && rank("turn").is_none());
}

/// The files of `net` without its tests.
fn product() -> impl Iterator<Item = Source> {
    sources(NET).into_iter().filter(|source| !source.path.contains("tests"))
}

fn layer(path: &str) -> &str {
    let inner = path.strip_prefix(NET).unwrap();
    inner.split('/').next().unwrap().trim_end_matches(".rs")
}

fn rank(layer: &str) -> Option<usize> {
    LAYERS.iter().position(|known| *known == layer)
}

/// The first segment of each path from the crate's root, with its line, up to the tests in the file.
fn imports(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let product = text.split("#[cfg(test)]").next().unwrap_or_default();
    product.lines().enumerate().flat_map(|(at, line)| {
        let code = line.split("//").next().unwrap_or_default();
        let paths = code.split("crate::").skip(1);
        paths.map(move |path| {
            let end = path.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(path.len());
            (at + 1, &path[..end])
        })
    })
}
