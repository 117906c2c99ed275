//! What the program is made of, as CycloneDX 1.5: <https://cyclonedx.org/docs/1.5/json/>.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Value, json};

use super::write;
use crate::run::{capture, cargo};

/// What `cargo metadata` says.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    description: Option<String>,
    repository: Option<String>,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<DependencyKind>,
}

#[derive(Deserialize)]
struct DependencyKind {
    kind: Option<String>,
}

/// Writes the components of the programs.
pub(super) fn write_components(version: &str, folder: &Path) -> Result<()> {
    println!("components");
    let args =
        ["metadata", "--format-version", "1", "--locked", "--filter-platform", "x86_64-unknown-linux-gnu"];
    let metadata: Metadata = serde_json::from_str(&capture(cargo(args))?)?;
    let components = components(&metadata, &["pantala", "preload"])?;
    let text = serde_json::to_vec_pretty(&document(version, &components))?;
    write(&folder.join(format!("pantala-{version}.cdx.json")), &text, 0o644)
}

/// A package, and those that it is built from: neither for tests nor for builds alone.
type Components<'m> = BTreeMap<&'m str, (&'m Package, BTreeSet<&'m str>)>;

fn components<'m>(metadata: &'m Metadata, programs: &[&str]) -> Result<Components<'m>> {
    let packages: BTreeMap<&str, &Package> =
        metadata.packages.iter().map(|package| (&*package.id, package)).collect();
    let nodes: BTreeMap<&str, &Node> = metadata.resolve.nodes.iter().map(|node| (&*node.id, node)).collect();
    let is_program = |package: &&Package| programs.contains(&&*package.name) && is_own(package);
    let mut open: Vec<&str> =
        metadata.packages.iter().filter(is_program).map(|package| &*package.id).collect();
    let mut found = Components::new();
    while let Some(id) = open.pop() {
        if found.contains_key(id) {
            continue;
        }
        let package = packages.get(id).with_context(|| format!("{id} is no package"))?;
        let deps = nodes.get(id).map_or(&[][..], |node| &node.deps);
        let linked = |dep: &&Dependency| dep.dep_kinds.iter().any(|kind| kind.kind.is_none());
        let deps: BTreeSet<&str> = deps.iter().filter(linked).map(|dep| &*dep.pkg).collect();
        open.extend(&deps);
        found.insert(id, (package, deps));
    }
    Ok(found)
}

/// Whether it is a crate of this project.
fn is_own(package: &Package) -> bool {
    package.id.starts_with("path+file:")
}

fn reference(package: &Package) -> String {
    format!("pkg:cargo/{}@{}", package.name, package.version)
}

fn document(version: &str, all: &Components<'_>) -> Value {
    let component = |package: &Package| {
        let mut component = json!({
            "type": "library",
            "bom-ref": reference(package),
            "name": package.name,
            "version": package.version,
            "purl": reference(package),
        });
        if let Some(license) = &package.license {
            // Older crates write a slash for "or".
            component["licenses"] = json!([{"expression": license.replace('/', " OR ")}]);
        }
        if let Some(description) = &package.description {
            component["description"] = json!(description.trim());
        }
        if let Some(repository) = package.repository.as_ref().filter(|_| !is_own(package)) {
            component["externalReferences"] = json!([{"type": "vcs", "url": repository}]);
        }
        component
    };
    let of = |id: &&&str| all.get(**id).map(|(package, _)| reference(package));
    let dependency = |(package, deps): &(&Package, BTreeSet<&str>)| json!({"ref": reference(package), "dependsOn": deps.iter().filter_map(|id| of(&id)).collect::<Vec<_>>()});
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "application", "bom-ref": "pantala", "name": "pantala", "version": version}},
        "components": all.values().map(|(package, _)| component(package)).collect::<Vec<_>>(),
        "dependencies": all.values().map(dependency).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_linked_into_the_programs_is_a_component() {
        let text = r#"{
            "packages": [
                {"id": "path+file:///p#pantala@1", "name": "pantala", "version": "1", "license": "MIT"},
                {"id": "r#a@2", "name": "a", "version": "2", "license": "MIT/Apache-2.0"},
                {"id": "r#b@3", "name": "b", "version": "3"},
                {"id": "r#pantala@9", "name": "pantala", "version": "9"}
            ],
            "resolve": {"nodes": [
                {"id": "path+file:///p#pantala@1", "deps": [
                    {"pkg": "r#a@2", "dep_kinds": [{"kind": null}, {"kind": "dev"}]},
                    {"pkg": "r#b@3", "dep_kinds": [{"kind": "dev"}]}
                ]},
                {"id": "r#a@2", "deps": []}, {"id": "r#b@3", "deps": []}
            ]}
        }"#;
        let metadata: Metadata = serde_json::from_str(text).unwrap();
        let all = components(&metadata, &["pantala"]).unwrap();
        let document = document("1", &all);
        let names: Vec<_> =
            document["components"].as_array().unwrap().iter().map(|one| one["purl"].as_str()).collect();
        assert_eq!(names, [Some("pkg:cargo/pantala@1"), Some("pkg:cargo/a@2")]);
        assert_eq!(document["components"][1]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(document["dependencies"][0]["dependsOn"][0], "pkg:cargo/a@2");
    }
}
