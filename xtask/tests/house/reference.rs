//! The reference has each key of the configuration, each request of the admin API and each metric of the source, and no others.

use std::collections::BTreeSet;

use crate::{Source, root, sources};

type Names = BTreeSet<String>;

/// Lists of keys: the file, the constant, and the heading of their table in CONFIGURATION.md.
const LISTS: &[(&str, &str, &str)] = &[
    ("draft.rs", "TOP", "Top of the file"),
    ("draft.rs", "INTERFACE", "Interface"),
    ("memif.rs", "OPTIONS", "memif"),
    ("autoconf.rs", "KEYS", "Autoconfiguration"),
    ("ra.rs", "KEYS", "Router advertisements"),
    ("dhcp_relay.rs", "KEYS", "DHCP relay"),
    ("dhcp6_client.rs", "KEYS", "DHCPv6 client"),
    ("dhcp6_server.rs", "KEYS", "DHCPv6 server"),
    ("ppp.rs", "KEYS", "PPPoE"),
    ("draft.rs", "ROUTE", "Route"),
    ("route_sources.rs", "KEYS", "Routes of others"),
    ("route_sources.rs", "FPM", "FRR"),
    ("route_sources.rs", "KERNEL", "Table of the kernel"),
    ("section.rs", "KEYS", "Firewall"),
    ("serve.rs", "KEYS", "Serve"),
    ("service.rs", "KEYS", "Service"),
    ("draft.rs", "POLLING", "Polling"),
    ("admin.rs", "KEYS", "Admin"),
    ("programs.rs", "KEYS", "Programs"),
    ("ipfix.rs", "KEYS", "IPFIX"),
];

#[test]
fn each_key_of_the_configuration_is_in_the_reference() {
    let page = page("CONFIGURATION.md");
    let mut files = program("/config/");
    files.extend(program("/firewall/section.rs"));
    for (file, list, heading) in LISTS {
        let in_file = files.iter().filter(|source| source.path.ends_with(&format!("/{file}")));
        let mut keys: Names = in_file.flat_map(|source| constants(&source.text, list)).collect();
        assert!(!keys.is_empty(), "the list {list} is not in {file}");
        if *heading == "Firewall" {
            keys.extend(firewall_settings());
        }
        let section = section(&page, heading);
        let documented = first_cells(section, &["| key |", "| option |"]);
        assert_same(&keys, &documented, &format!("CONFIGURATION.md, {heading}"));
    }
}

/// Settings of states, under the names that the section `[firewall]` has for them.
fn firewall_settings() -> Names {
    let settings =
        sources("crates/net").into_iter().find(|source| source.path.ends_with("state/settings.rs"));
    let names = constants(&settings.unwrap().text, "NAMES");
    names.iter().map(|name| name.rsplit('.').next().unwrap().to_owned()).collect()
}

/// The text below a heading, up to the next one.
fn section<'t>(page: &'t str, heading: &str) -> &'t str {
    let (_, below) = page.split_once(&format!("# {heading}\n")).unwrap();
    below.split("\n#").next().unwrap_or(below)
}

#[test]
fn each_request_of_the_admin_api_is_in_the_reference() {
    let mut files = program("/api/server/");
    files.extend(program("/api/firewall/routes.rs"));
    let mut routes: Names = files.iter().flat_map(|source| requests(&source.text)).collect();
    // Beside the table: the document of the table, and the page.
    routes.extend(["GET /v1/openapi.json".to_owned(), "GET /".to_owned()]);
    assert!(routes.len() > 40, "the routes are not where they were");
    assert_same(&routes, &first_cells(&page("API.md"), &["| request |"]), "API.md");
}

#[test]
fn each_metric_is_in_the_reference() {
    let mut metrics: Names = program("metrics.rs").iter().flat_map(|source| literals(&source.text)).collect();
    metrics.retain(|literal| literal.starts_with("pantala_") && !literal.contains('{'));
    metrics.insert("pantala_NAME_total".to_owned());
    let hits = program("/serve/counters.rs");
    let hits = hits.iter().flat_map(|source| literals(between(&source.text, "fn name", "\n    }\n")));
    let hits = hits.filter(|name| name.chars().all(|c| c.is_ascii_lowercase() || c == '_'));
    metrics.extend(hits.map(|name| format!("pantala_web_{name}_total")));
    assert!(metrics.len() > 60, "the metrics are not where they were");
    assert_same(&metrics, &first_cells(&page("METRICS.md"), &["| metric |"]), "METRICS.md");
}

#[test]
fn dashboard_and_alerts_ask_for_metrics_that_exist() {
    let mut known = first_cells(&page("METRICS.md"), &["| metric |"]);
    let counters = first_cells(&page("COUNTERS.md"), &["| counter |"]);
    known.extend(counters.iter().map(|counter| format!("pantala_{counter}_total")));
    for file in ["grafana.json", "alerts.yaml"] {
        let text = std::fs::read_to_string(root().join("docs/guide/monitoring").join(file)).unwrap();
        let asked: Names = words(&text).filter(|word| word.starts_with("pantala_")).collect();
        assert!(asked.len() > 5, "{file} asks for {asked:?} alone");
        let unknown: Vec<_> = asked.difference(&known).collect();
        assert!(unknown.is_empty(), "{file} asks for {unknown:?}, which METRICS.md does not have");
    }
}

/// Names in a text: letters, digits and underscores.
fn words(text: &str) -> impl Iterator<Item = String> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').map(str::to_owned)
}

fn assert_same(source: &Names, documented: &Names, page: &str) {
    let missing: Vec<_> = source.difference(documented).collect();
    let unknown: Vec<_> = documented.difference(source).collect();
    assert!(missing.is_empty(), "{page} has no row for {missing:?}");
    assert!(unknown.is_empty(), "{page} has rows for {unknown:?}, which the source does not have");
}

/// A page of the reference.
fn page(name: &str) -> String {
    std::fs::read_to_string(root().join("docs/reference").join(name)).unwrap()
}

/// Files of the program whose path has `part`, without their tests.
fn program(part: &str) -> Vec<Source> {
    let mut files = sources("crates/pantala/src");
    files.retain(|source| source.path.contains(part) && !source.path.contains("tests"));
    for file in &mut files {
        let end = file.text.find("#[cfg(test)]\nmod tests {").unwrap_or(file.text.len());
        file.text.truncate(end);
    }
    files
}

/// The strings of the constant list `name`.
fn constants(text: &str, name: &str) -> Vec<String> {
    let begins = [format!("const {name}: &[&str] ="), format!("const {name}: &'static [&'static str] =")];
    let lists = begins.iter().filter_map(|begin| text.split_once(begin.as_str()));
    lists.flat_map(|(_, rest)| literals(rest.split(';').next().unwrap_or_default())).collect()
}

/// `GET /v1/version` for each `.get("/v1/version", version, …)` of a table of requests; a path may be a name.
fn requests(text: &str) -> Vec<String> {
    let methods = ["get", "post", "put", "patch", "delete"].into_iter();
    methods
        .flat_map(|method| {
            let table =
                text.split("Requests::default()").skip(1).map(|table| table.split("\n}\n").next().unwrap());
            let calls =
                table.flat_map(move |table| table.split(&format!(".{method}(")).skip(1).collect::<Vec<_>>());
            calls.map(move |call| {
                let path = call.split(',').next().unwrap().trim();
                let path = if path.starts_with('"') { path } else { constant(text, path) };
                format!("{} {}", method.to_uppercase(), literals(path)[0])
            })
        })
        .collect()
}

/// The value of `const NAME: &str = …;`.
fn constant<'t>(text: &'t str, name: &str) -> &'t str {
    between(text, &format!("const {name}: &str ="), ";")
}

/// The text between the first `begin` and the next `end`; empty without either.
fn between<'t>(text: &'t str, begin: &str, end: &str) -> &'t str {
    text.split_once(begin).and_then(|(_, rest)| rest.split_once(end)).map_or("", |(text, _)| text)
}

/// The string literals of a text without escapes.
fn literals(text: &str) -> Vec<String> {
    text.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// What stands in backticks at the beginning of the rows of tables whose head begins so.
fn first_cells(text: &str, heads: &[&str]) -> Names {
    let mut inside = false;
    let mut found = Names::new();
    for line in text.lines() {
        if heads.iter().any(|head| line.starts_with(head)) {
            inside = true;
        } else if !line.starts_with('|') {
            inside = false;
        }
        if let (true, Some(cell)) = (inside, line.strip_prefix("| `")) {
            found.insert(cell.split('`').next().unwrap().to_owned());
        }
    }
    found
}
