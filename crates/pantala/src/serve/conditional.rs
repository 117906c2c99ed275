//! Conditions of requests (RFC 9110 §13): what a client has already need not be sent again.

use core::fmt::{self, Display, Formatter};
use core::time::Duration;
use std::time::SystemTime;

use super::file_reader::Page;

/// The validator of a file's version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Validator {
    /// When it was modified last.
    pub(super) modified: SystemTime,
    /// Its entity tag, in quotes.
    pub(super) tag: String,
    /// It has not been modified for long enough that both would differ if it were.
    pub(super) is_strong: bool,
}

/// Clocks that stamp files may stand still for so long.
const SETTLED: Duration = Duration::from_secs(1);

impl Validator {
    /// Makes the validator of a file of `len` bytes that was examined `now`.
    pub(super) fn new(modified: SystemTime, len: u64, now: SystemTime) -> Self {
        let since = modified.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let is_strong = now.duration_since(modified).is_ok_and(|age| age > SETTLED);
        Self { modified, tag: format!("\"{:x}-{len:x}\"", since.as_nanos()), is_strong }
    }

    /// Last modified then, or before, to the second.
    fn is_not_after(&self, date: SystemTime) -> bool {
        seconds(self.modified) <= seconds(date)
    }
}

/// As a head says it.
impl Display for Validator {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let weak = if self.is_strong { "" } else { "W/" };
        write!(f, "{weak}{}", self.tag)
    }
}

/// The preconditions of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Conditions {
    /// `If-Match`: the lists of all such fields.
    matches: List,
    /// `If-Unmodified-Since`.
    unmodified_since: Option<SystemTime>,
    /// `If-None-Match`: the lists of all such fields.
    none_matches: List,
    /// `If-Modified-Since`.
    modified_since: Option<SystemTime>,
    /// `If-Range`: the first.
    range: List,
}

/// The values of fields of one name, with commas between them. What is read into it anew takes the memory that it has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct List {
    bytes: Vec<u8>,
    is_there: bool,
}

impl List {
    fn read<'h>(&mut self, lines: impl Iterator<Item = &'h [u8]>) {
        self.bytes.clear();
        self.is_there = false;
        for line in lines {
            self.bytes.extend(self.is_there.then_some(b','));
            self.bytes.extend_from_slice(line);
            self.is_there = true;
        }
    }

    fn get(&self) -> Option<&[u8]> {
        self.is_there.then_some(&self.bytes)
    }
}

/// The verdict of the preconditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The page is sent.
    Send,
    /// The client has it (304).
    NotModified,
    /// It is not what the client wants to have more of (412).
    Failed,
}

impl Conditions {
    /// Reads what the fields of a head say; `all` answers those of one name.
    pub(super) fn read<'h, I: Iterator<Item = &'h [u8]>>(&mut self, all: impl Fn(&'static str) -> I) {
        let date = |name| all(name).next().and_then(date);
        self.matches.read(all("if-match"));
        self.unmodified_since = date("if-unmodified-since");
        self.none_matches.read(all("if-none-match"));
        self.modified_since = date("if-modified-since");
        self.range.read(all("if-range").take(1));
    }

    /// In the order of RFC 9110 §13.2.2. Of a page that is made anew for each, nothing is known.
    pub(super) fn verdict(&self, page: &Page) -> Verdict {
        let Some(is) = &page.validator else { return Verdict::Send };
        let is_wanted = match (self.matches.get(), self.unmodified_since) {
            (Some(list), _) => {
                list.trim_ascii() == b"*" || is.is_strong && has(list, &is.tag, Comparison::Strong)
            }
            (None, Some(date)) => is.is_not_after(date),
            (None, None) => true,
        };
        //= https://www.rfc-editor.org/rfc/rfc9110#section-13.1.3
        //# A recipient MUST ignore If-Modified-Since if the request contains an
        //# If-None-Match header field;
        let is_there = match (self.none_matches.get(), self.modified_since) {
            (Some(list), _) => has(list, &is.tag, Comparison::Weak),
            (None, Some(date)) => is.is_not_after(date),
            (None, None) => false,
        };
        match (is_wanted, is_there) {
            (false, _) => Verdict::Failed,
            (true, true) => Verdict::NotModified,
            (true, false) => Verdict::Send,
        }
    }

    /// Whether a range may be answered by a part of the page: of what is made anew for each, parts do not fit together.
    pub(super) fn is_range_valid(&self, page: &Page) -> bool {
        let Some(is) = &page.validator else { return false };
        //= https://www.rfc-editor.org/rfc/rfc9110#section-13.1.5
        //# A recipient of an If-Range header field MUST ignore the Range header
        //# field if the If-Range condition evaluates as false.
        match self.range.get() {
            None => true,
            Some(tag @ ([b'"', ..] | [b'W', b'/', ..])) => is.is_strong && tag == is.tag.as_bytes(),
            Some(at) => is.is_strong && date(at).is_some_and(|at| seconds(at) == seconds(is.modified)),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Comparison {
    /// Weak tags match none.
    Strong,
    /// Whether a tag is weak does not matter.
    Weak,
}

/// Whether a list of entity tags has this one, or is `*`.
fn has(list: &[u8], tag: &str, by: Comparison) -> bool {
    let mut rest = list.trim_ascii();
    if rest == b"*" {
        return true;
    }
    while let Some(at) = rest.iter().position(|byte| *byte == b'"') {
        let is_weak = rest[..at].ends_with(b"W/");
        let Some(len) = rest[at + 1..].iter().position(|byte| *byte == b'"') else { return false };
        let (is, behind) = rest[at..].split_at(len + 2);
        if is == tag.as_bytes() && !(is_weak && by == Comparison::Strong) {
            return true;
        }
        rest = behind;
    }
    false
}

/// A date that is none is as if it were not there (RFC 9110 §13.1.3).
fn date(field: &[u8]) -> Option<SystemTime> {
    httpdate::parse_http_date(core::str::from_utf8(field).ok()?.trim()).ok()
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
    const TAG: &str = "\"b-5\"";

    /// Modified half a second after [`DATE`], which dates do not say.
    fn page(is_strong: bool) -> Page {
        let modified = date(DATE.as_bytes()).unwrap() + Duration::from_millis(500);
        let validator = Some(Validator { modified, tag: TAG.to_owned(), is_strong });
        Page::new("", 5, validator, Arc::from([]), None)
    }

    fn conditions(fields: &[(&str, &str)]) -> Conditions {
        let mut conditions = Conditions::default();
        conditions
            .read(|name| fields.iter().filter(move |field| field.0 == name).map(|field| field.1.as_bytes()));
        conditions
    }

    #[test]
    fn what_a_client_has_is_not_sent_and_what_it_does_not_want_fails() {
        use Verdict::{Failed, NotModified, Send};
        for (fields, strong, weak) in [
            (&[][..], Send, Send),
            (&[("if-none-match", TAG)], NotModified, NotModified),
            (&[("if-none-match", "\"a\", W/\"b-5\"")], NotModified, NotModified),
            (&[("if-none-match", "\"a\""), ("if-none-match", TAG)], NotModified, NotModified),
            (&[("if-none-match", "*")], NotModified, NotModified),
            (&[("if-none-match", "\"a,\"b-5\"")], Send, Send),
            (&[("if-none-match", "\"b-5")], Send, Send),
            (&[("if-none-match", "\"a\""), ("if-modified-since", DATE)], Send, Send),
            (&[("if-modified-since", DATE)], NotModified, NotModified),
            (&[("if-modified-since", BEFORE)], Send, Send),
            (&[("if-modified-since", "yesterday")], Send, Send),
            (&[("if-match", TAG)], Send, Failed),
            (&[("if-match", "W/\"b-5\"")], Failed, Failed),
            (&[("if-match", "\"a\"")], Failed, Failed),
            (&[("if-match", "*")], Send, Send),
            (&[("if-match", TAG), ("if-unmodified-since", BEFORE)], Send, Failed),
            (&[("if-unmodified-since", DATE)], Send, Send),
            (&[("if-unmodified-since", BEFORE)], Failed, Failed),
            (&[("if-match", "\"a\""), ("if-none-match", TAG)], Failed, Failed),
        ] {
            let asked = conditions(fields);
            assert_eq!(
                [true, false].map(|is_strong| asked.verdict(&page(is_strong))),
                [strong, weak],
                "{fields:?}"
            );
        }
    }

    #[test]
    fn a_range_counts_if_the_rest_of_the_same_file_is_wanted() {
        for (field, counts) in
            [(TAG, true), (DATE, true), ("W/\"b-5\"", false), ("\"a\"", false), (BEFORE, false), ("x", false)]
        {
            let asked = conditions(&[("if-range", field)]);
            assert_eq!(asked.is_range_valid(&page(true)), counts, "{field}");
            assert!(!asked.is_range_valid(&page(false)), "{field}: it may change in the same moment");
        }
        assert!(conditions(&[]).is_range_valid(&page(false)));
    }

    #[test]
    fn a_tag_changes_with_the_file_and_is_weak_while_that_might_not_be_seen() {
        let at = |ms| SystemTime::UNIX_EPOCH + Duration::from_millis(ms);
        let tag = |modified, len, now| Validator::new(at(modified), len, at(now)).to_string();
        assert_eq!(tag(1, 5, 2000), "\"f4240-5\"");
        assert_eq!(tag(1, 5, 900), "W/\"f4240-5\"");
        assert_eq!(tag(3000, 5, 2000), "W/\"b2d05e00-5\"", "the future");
        assert_ne!(tag(1, 5, 2000), tag(1, 6, 2000));
        assert_ne!(tag(1, 5, 2000), tag(2, 5, 2000));
    }
}
