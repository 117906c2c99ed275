//! What the README shows is true.

use pantala::config::{Config, Machine};

#[test]
fn the_configuration_in_the_readme_is_good() {
    let readme = include_str!("../../../README.md");
    let example = readme.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let config = Config::parse("README.md", example, &Machine { cpus: vec![0, 1] }).unwrap();
    assert_eq!((config.interfaces.len(), config.routes.len()), (2, 1));
}
