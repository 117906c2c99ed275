//! Documents of docs/reference as man pages: the part of Markdown that they use.

use crate::roff::Page;

/// Writes a document behind the heading of a section. Its own title is left out.
pub fn write(page: &mut Page, text: &str) {
    let mut lines = text.lines().peekable();
    let mut paragraph = String::new();
    while let Some(line) = lines.next() {
        let heading = line.trim_start_matches('#');
        let is_text = !line.is_empty()
            && heading.len() == line.len()
            && !line.starts_with("```")
            && !line.starts_with("|");
        if is_text && !line.starts_with("- ") {
            // A line that goes on, of a paragraph or of an item.
            paragraph.push_str(if paragraph.is_empty() { "" } else { " " });
            paragraph.push_str(line.trim());
            continue;
        }
        flush(page, &mut paragraph);
        if let Some(item) = line.strip_prefix("- ") {
            paragraph = format!("{ITEM}{item}");
        } else if line.starts_with("```") {
            let code: Vec<&str> = lines.by_ref().take_while(|line| !line.starts_with("```")).collect();
            page.verbatim(code);
        } else if line.starts_with('|') {
            let head = cells(line);
            lines.next();
            while let Some(row) = lines.next_if(|line| line.starts_with('|')) {
                table_row(page, &head, &cells(row));
            }
        } else {
            match line.len() - heading.len() {
                2 => page.section(&heading.trim().to_uppercase()),
                3.. => page.subsection(heading.trim()),
                _ => {}
            }
        }
    }
    flush(page, &mut paragraph);
}

/// Marks a paragraph that is an item of a list.
const ITEM: char = '\u{1}';

fn flush(page: &mut Page, paragraph: &mut String) {
    let text = without_links(&core::mem::take(paragraph));
    match text.strip_prefix(ITEM) {
        Some(item) => page.item(item),
        None if text.is_empty() => {}
        None => page.paragraph(&text),
    }
}

/// The cells of a table's row; `\|` is no border.
fn cells(row: &str) -> Vec<String> {
    let row = row.trim().trim_start_matches('|').trim_end_matches('|').replace("\\|", "\u{2}");
    row.split('|').map(|cell| without_links(cell.trim()).replace('\u{2}', "|")).collect()
}

/// A row: its first cell is the term. The last one says what it means; those between have their column's name.
fn table_row(page: &mut Page, head: &[String], row: &[String]) {
    let Some((term, rest)) = row.split_first() else { return };
    let Some((meaning, facts)) = rest.split_last() else { return };
    let facts = head.iter().skip(1).zip(facts).filter(|(_, fact)| !matches!(fact.as_str(), "" | "–"));
    let facts: Vec<String> = facts.map(|(name, fact)| format!("{name}: {fact}")).collect();
    let facts = if facts.is_empty() { String::new() } else { format!(" ({})", facts.join("; ")) };
    page.entry(&term.replace('`', ""), &format!("{meaning}{facts}"));
}

/// Text in which `[text](target)` is the text.
fn without_links(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('[') {
        out.push_str(before);
        let link = after.split_once("](").and_then(|(text, after)| Some((text, after.split_once(')')?.1)));
        match link {
            // A bracket in code is none of a link.
            Some((text, after)) if !text.contains('[') && out.matches('`').count().is_multiple_of(2) => {
                out.push_str(text);
                rest = after;
            }
            _ => {
                out.push('[');
                rest = after;
            }
        }
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::roff::plain;

    #[test]
    fn tables_links_lists_and_code_become_entries_text_items_and_lines() {
        let mut page = Page::new("t", 5, "");
        let text = "# T\n\nA [link](x.md) and `[[code]]`(no).\n\n## Part\n\n| key | type | meaning |\n|---|---|---|\n\
                    | `a` | 1 to 2 | this \\| that |\n\n- one\n  and more\n- two\n\n```toml\na = \"-1\"\n.b\n```\n";
        write(&mut page, text);
        let page = page.into_file().text;
        for part in [
            ".SH \"PART\"\n",
            ".TP\n\\fBa\\fR\nthis | that (type: 1 to 2)\n",
            ".IP \\(bu 2\none and more\n",
            "\\&.b",
        ] {
            assert!(page.contains(part), "{part} in {page}");
        }
        let plain = plain(&page);
        assert!(plain.contains("A link and [[code]](no).") && plain.contains("a = \"-1\""), "{plain}");
    }
}
