//! `ndp -r` and `ndp -p`.

use super::neighbours::duration;
use crate::api::{LearnedLink, Preference};

/// One line for each default router.
pub(crate) fn routers(links: &[LearnedLink]) -> String {
    let of = |link: &LearnedLink| {
        let name = &link.interface;
        let line = |router: &crate::api::DefaultRouter| {
            let preference = match router.preference {
                Preference::Low => "low",
                Preference::Medium => "medium",
                Preference::High => "high",
            };
            let state = if router.reachable { "" } else { ", unreachable" };
            let chosen = if router.chosen { ", chosen" } else { "" };
            let expire = duration(router.expires_s);
            format!(
                "{}%{name} if={name}, pref={preference}, expire={expire}{state}{chosen}\n",
                router.address
            )
        };
        link.routers.iter().map(line).collect::<String>()
    };
    links.iter().map(of).collect()
}

/// One line for each prefix that is on a link because a router says so.
pub(crate) fn prefixes(links: &[LearnedLink]) -> String {
    let of = |link: &LearnedLink| {
        let line = |on_link: &crate::api::OnLinkPrefix| {
            let expire = on_link.expires_s.map_or_else(|| "never".to_owned(), duration);
            let refused = if on_link.refused { ", refused" } else { "" };
            format!("{} if={}, expire={expire}{refused}\n", on_link.prefix, link.interface)
        };
        link.prefixes.iter().map(line).collect::<String>()
    };
    links.iter().map(of).collect()
}
