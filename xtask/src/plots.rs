//! `cargo xtask plots`: the pictures and the table of ratios of `docs/evidence/PERFORMANCE.md`, made from the tables that
//! were measured.

mod chosen;
mod draw;
mod measured;

use anyhow::{Context, Result};

use crate::args::Args;
use crate::run::root;
use chosen::{PLOTS, Plot, RATIOS, Shown};
use draw::{Bar, Chart, Group};
use measured::Tables;

/// The page with the pictures.
const PAGE: &str = "docs/evidence/PERFORMANCE.md";
/// The page with the tables.
pub const TABLES: &str = "docs/evidence/MEASUREMENTS.md";
const FOLDER: &str = "docs/evidence/plots";
const BEGIN: &str = "<!-- ratios: written by `cargo xtask plots` -->\n";
const END: &str = "<!-- ratios end -->\n";

/// A file and the text that the measured tables give it.
struct Page {
    path: String,
    text: String,
}

/// `cargo xtask plots`
pub fn command(args: &mut Args) -> Result<bool> {
    args.finish()?;
    write()?;
    Ok(true)
}

/// Writes all pictures, and the table of ratios.
pub fn write() -> Result<()> {
    for page in pages()? {
        std::fs::write(root().join(&page.path), page.text).with_context(|| page.path.clone())?;
        println!("{}: written", page.path);
    }
    Ok(())
}

fn pages() -> Result<Vec<Page>> {
    let tables = Tables::read(&read(TABLES)?);
    let mut pages = PLOTS.iter().map(|plot| picture(plot, &tables)).collect::<Result<Vec<_>>>()?;
    let page = read(PAGE)?;
    let (before, rest) = page.split_once(BEGIN).context("PERFORMANCE.md has no place for ratios")?;
    let (_, after) = rest.split_once(END).context("the place for ratios has no end")?;
    let text = format!("{before}{BEGIN}{}{END}{after}", ratios(&tables)?);
    pages.push(Page { path: PAGE.to_owned(), text });
    Ok(pages)
}

fn read(path: &str) -> Result<String> {
    std::fs::read_to_string(root().join(path)).with_context(|| path.to_owned())
}

fn picture(plot: &Plot, tables: &Tables) -> Result<Page> {
    let groups = plot.groups.iter().map(|group| {
        let bars = group.bars.iter().map(|shown| bar(plot, group.contest, shown, tables));
        Ok(Group { label: group.label, bars: bars.collect::<Result<_>>()? })
    });
    let groups = groups.collect::<Result<Vec<_>>>()?;
    let decimals_max = if plot.per_million > 1.0 { 0 } else { 2 };
    let chart = Chart { title: plot.title, axis: plot.axis, decimals_max, groups };
    Ok(Page { path: format!("{FOLDER}/{}.svg", plot.name), text: chart.svg() })
}

fn bar(plot: &Plot, contest: &str, shown: &Shown, tables: &Tables) -> Result<Bar> {
    let rate = tables.rate(contest, shown.row)?;
    let [median, low, high] = [rate.median, rate.low, rate.high].map(|millions| millions * plot.per_million);
    Ok(Bar { label: shown.label, is_ours: shown.row.starts_with("pantala"), median, low, high })
}

fn ratios(tables: &Tables) -> Result<String> {
    let mut text = "| what is measured | beside | ratio of rates: median | quartiles | contest |\n\
                    |---|---|---|---|---|\n"
        .to_owned();
    for ratio in RATIOS {
        let found = tables.ratio(ratio.contest, ratio.finding)?;
        let (what, beside, contest) = (ratio.what, ratio.beside, ratio.contest);
        text.push_str(&format!(
            "| {what} | {beside} | **{:.2}** | {:.2} to {:.2} | `{contest}` |\n",
            found.median, found.low, found.high
        ));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::measured::Spread;
    use super::*;

    /// Ratios on the first screen of the README.
    const QUOTED: &[(&str, &str)] = &[
        ("null/ip4-2", "pantala IPv4, 256 at once / l3fwd LPM native"),
        ("veth/one-ip4", "pantala / kernel"),
        ("firewall/one-ip4", "pantala, 1000 rules / kernel, 1000 rules"),
        ("short/16", "pantala, 16 at a time / smoltcp"),
        ("served/ask-64", "pantala over TAP / nginx over veth"),
    ];

    #[test]
    fn pictures_and_ratios_are_those_of_the_measured_tables() {
        for page in pages().unwrap() {
            assert!(
                read(&page.path).unwrap_or_default() == page.text,
                "{} is not what the tables say: run `cargo xtask plots`",
                page.path
            );
        }
    }

    #[test]
    fn ratios_in_the_readme_are_those_of_the_measured_tables() {
        let (readme, tables) = (read("README.md").unwrap(), Tables::read(&read(TABLES).unwrap()));
        for (contest, finding) in QUOTED {
            let Spread { median, low, high } = tables.ratio(contest, finding).unwrap();
            let quoted = format!("**{median:.2}** [{low:.2} to {high:.2}]");
            assert!(readme.contains(&quoted), "README.md does not say {quoted} of {contest}: {finding}");
        }
    }

    #[test]
    fn each_picture_is_on_the_page() {
        let page = read(PAGE).unwrap();
        for plot in PLOTS {
            assert!(page.contains(&format!("(plots/{}.svg)", plot.name)), "{} is not shown", plot.name);
        }
    }
}
