//! The difference of two texts, line by line.

use core::fmt::Write;

use serde::Serialize;

/// Lines shown around a difference.
const CONTEXT: usize = 2;
/// Pairs of lines that are compared; larger differences are shown as one replacement.
const PAIRS_MAX: usize = 4_000_000;

/// A line of either text, or of both.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Line {
    /// `-` for the old text alone, `+` for the new one, a blank for both.
    pub(super) side: char,
    pub(super) text: String,
}

/// All lines of both texts, those that both have once.
pub(super) fn lines(old: &str, new: &str) -> Vec<Line> {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let before = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let (left, right) = (&old[before..], &new[before..]);
    let behind = left.iter().rev().zip(right.iter().rev()).take_while(|(a, b)| a == b).count();
    let (left, tail) = left.split_at(left.len() - behind);
    let right = &right[..right.len() - behind];
    let line = |side| move |text: &&str| Line { side, text: (*text).to_owned() };
    let mut all: Vec<Line> = old[..before].iter().map(line(' ')).collect();
    all.extend(middle(left, right));
    all.extend(tail.iter().map(line(' ')));
    all
}

/// By the longest common subsequence.
fn middle(old: &[&str], new: &[&str]) -> Vec<Line> {
    let line = |side, text: &str| Line { side, text: text.to_owned() };
    if old.len().saturating_mul(new.len()) > PAIRS_MAX {
        let gone = old.iter().map(|text| line('-', text));
        return gone.chain(new.iter().map(|text| line('+', text))).collect();
    }
    let width = new.len() + 1;
    // The length of what the rests behind two places have in common.
    let mut common = vec![0_u32; (old.len() + 1) * width];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i * width + j] = if old[i] == new[j] {
                common[(i + 1) * width + j + 1] + 1
            } else {
                common[(i + 1) * width + j].max(common[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j, mut all) = (0, 0, Vec::new());
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            all.push(line(' ', old[i]));
            (i, j) = (i + 1, j + 1);
        } else if i < old.len()
            && (j == new.len() || common[(i + 1) * width + j] >= common[i * width + j + 1])
        {
            all.push(line('-', old[i]));
            i += 1;
        } else {
            all.push(line('+', new[j]));
            j += 1;
        }
    }
    all
}

/// The differences with the lines around them; empty if there is none.
pub(super) fn text(file: &str, lines: &[Line]) -> String {
    let is_near = |at: usize| {
        let from = at.saturating_sub(CONTEXT);
        let to = (at + CONTEXT + 1).min(lines.len());
        lines[from..to].iter().any(|line| line.side != ' ')
    };
    if lines.iter().all(|line| line.side == ' ') {
        return String::new();
    }
    let mut text = format!("--- {file}\n+++ running\n");
    let mut is_behind_a_gap = false;
    for (at, line) in lines.iter().enumerate() {
        if is_near(at) {
            if is_behind_a_gap {
                text.push_str("...\n");
            }
            _ = writeln!(text, "{}{}", line.side, line.text);
        }
        is_behind_a_gap = !is_near(at);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(old: &str, new: &str) -> String {
        text("f", &lines(old, new))
    }

    #[test]
    fn differences_are_shown_with_the_lines_around_them() {
        let old = "a\nb\nc\nd\ne\nf\ng\nh\n";
        let new = "a\nb\nc\nd\nE\nf\ng\nh\ni\n";
        assert_eq!(shown(old, new), "--- f\n+++ running\n...\n c\n d\n-e\n+E\n f\n g\n h\n+i\n");
        assert_eq!(shown(old, old), "");
        assert_eq!(shown("", "a"), "--- f\n+++ running\n+a\n");
    }

    #[test]
    fn both_texts_are_contained_in_the_difference() {
        let pick =
            |seed: u32| (0..20).map(move |n| ["a", "b", "c"][(seed.wrapping_mul(n + 7) >> 3) as usize % 3]);
        for seed in 1..500_u32 {
            let old: Vec<&str> = pick(seed).collect();
            let new: Vec<&str> = pick(seed.wrapping_mul(2_654_435_761)).collect();
            let all = lines(&old.join("\n"), &new.join("\n"));
            let side = |own: char| -> Vec<&str> {
                let of = all.iter().filter(|line| line.side == own || line.side == ' ');
                of.map(|line| line.text.as_str()).collect()
            };
            assert_eq!((side('-'), side('+')), (old, new));
        }
    }
}
