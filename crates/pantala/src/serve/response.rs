//! Heads of answers, and pages that are made here.

use core::fmt::Write;
use core::ops::Range;

use httpdate::HttpDate;

use super::conditional::Validator;

/// Which bytes of how many follow; none of them, of an answer that says so (416).
pub(super) type Part = (Option<Range<u64>>, u64);

/// Bytes of a head that is not of the longest.
pub(super) const HEAD_USUAL: usize = 512;

/// Seconds after which a request that was refused for want of memory may come again: readers have been given up meanwhile, or
/// have gone on.
const RETRY_AFTER_S: u32 = 5;

/// The head of a response.
#[derive(Clone, Debug)]
pub(super) struct Head<'a> {
    pub(super) status: u16,
    /// When it is sent (RFC 9110 §6.6.1).
    pub(super) date: &'a str,
    /// Prepared [`fields`] of a whole page. Without them `mime`, `len` and `validator` count.
    pub(super) whole: Option<&'a str>,
    pub(super) mime: &'a str,
    /// Bytes that follow.
    pub(super) len: u64,
    pub(super) validator: Option<&'a Validator>,
    pub(super) range: Option<Part>,
    pub(super) location: Option<&'a str>,
    pub(super) keeps: bool,
}

impl Head<'_> {
    /// Puts it into memory that others had before.
    pub(super) fn put(&self, into: &mut String) {
        into.clear();
        into.reserve(HEAD_USUAL);
        // Writing to a string does not fail.
        let _ = self.write(into);
    }

    fn write(&self, text: &mut String) -> core::fmt::Result {
        let &Self { status, date, mime, len, .. } = self;
        for part in ["HTTP/1.1 ", status_line(status), "\r\nServer: pantala\r\nDate: ", date, "\r\n"] {
            text.push_str(part);
        }
        match self.whole {
            Some(fields) => text.push_str(fields),
            None => {
                // Nothing follows that these would be about.
                if status != 304 {
                    write_content(text, mime, len)?;
                }
                self.validator.map_or(Ok(()), |is| write_validator(text, is))?;
            }
        }
        match &self.range {
            Some((Some(range), all)) => {
                write!(text, "Content-Range: bytes {}-{}/{all}\r\n", range.start, range.end - 1)?;
            }
            Some((None, all)) => write!(text, "Content-Range: bytes */{all}\r\n")?,
            None => {}
        }
        if let Some(location) = self.location {
            write!(text, "Location: {location}\r\n")?;
        }
        if status == 405 {
            //= https://www.rfc-editor.org/rfc/rfc9110#section-15.5.6
            //# The origin server MUST generate an
            //# Allow header field in a 405 response
            text.push_str("Allow: GET, HEAD\r\n");
        }
        if status == 503 {
            //= https://www.rfc-editor.org/rfc/rfc9110#section-15.6.4
            //# The server MAY send a Retry-After header field
            //# (Section 10.2.3) to suggest an appropriate amount of time for the
            //# client to wait before retrying the request.
            write!(text, "Retry-After: {RETRY_AFTER_S}\r\n")?;
        }
        text.push_str(if self.keeps {
            "Connection: keep-alive\r\n\r\n"
        } else {
            "Connection: close\r\n\r\n"
        });
        Ok(())
    }
}

/// Makes the fields of a page of `len` bytes, once for all heads before it.
pub(super) fn fields(mime: &str, len: u64, validator: Option<&Validator>) -> Box<str> {
    let mut text = String::with_capacity(HEAD_USUAL);
    // Writing to a string does not fail.
    let _ = write_content(&mut text, mime, len);
    let _ = validator.map(|is| write_validator(&mut text, is));
    text.into()
}

fn write_content(text: &mut String, mime: &str, len: u64) -> core::fmt::Result {
    write!(text, "Content-Type: {mime}\r\nContent-Length: {len}\r\n")
}

fn write_validator(text: &mut String, is: &Validator) -> core::fmt::Result {
    let modified = HttpDate::from(is.modified);
    write!(text, "ETag: {is}\r\nLast-Modified: {modified}\r\nAccept-Ranges: bytes\r\n")
}

/// A status code and its reason phrase (RFC 9110 §15).
const fn status_line(status: u16) -> &'static str {
    match status {
        200 => "200 OK",
        206 => "206 Partial Content",
        301 => "301 Moved Permanently",
        304 => "304 Not Modified",
        400 => "400 Bad Request",
        403 => "403 Forbidden",
        404 => "404 Not Found",
        405 => "405 Method Not Allowed",
        408 => "408 Request Timeout",
        412 => "412 Precondition Failed",
        416 => "416 Range Not Satisfiable",
        431 => "431 Request Header Fields Too Large",
        501 => "501 Not Implemented",
        503 => "503 Service Unavailable",
        505 => "505 HTTP Version Not Supported",
        _ => "500 Internal Server Error",
    }
}

/// A page that says what is wrong.
pub(super) fn page(status: u16) -> Vec<u8> {
    let status = status_line(status);
    format!("<!doctype html>\n<title>{status}</title>\n<h1>{status}</h1>\n").into_bytes()
}

/// A page of what is in a folder: names, folders with a slash behind them.
pub(super) fn listing(path: &[u8], names: &[Vec<u8>]) -> Vec<u8> {
    let title = escaped(&String::from_utf8_lossy(path));
    let mut text = format!(
        "<!doctype html>\n<meta charset=\"utf-8\">\n<title>/{title}</title>\n<h1>/{title}</h1>\n<ul>\n"
    );
    if !path.is_empty() {
        text.push_str("<li><a href=\"../\">../</a>\n");
    }
    for name in names {
        let shown = escaped(&String::from_utf8_lossy(name));
        // What begins like a scheme is none.
        let _ = writeln!(text, "<li><a href=\"./{}\">{shown}</a>", encoded(name));
    }
    text.push_str("</ul>\n");
    text.into_bytes()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Percent-encodes what may not stand in a path (RFC 3986 §3.3).
pub(super) fn encoded(path: &[u8]) -> String {
    let mut text = String::with_capacity(path.len());
    for byte in path {
        match byte {
            b'/' | b'-' | b'.' | b'_' | b'~' => text.push(char::from(*byte)),
            byte if byte.is_ascii_alphanumeric() => text.push(char::from(*byte)),
            byte => {
                let _ = write!(text, "%{byte:02X}");
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_shows_any_names_and_none_of_them_is_markup() {
        let names = [b"a b.txt".to_vec(), b"<script>\"&".to_vec(), b"sub/".to_vec(), b"\xff".to_vec()];
        let page = String::from_utf8(listing(b"d<", &names)).unwrap();
        for part in [
            "<h1>/d&lt;</h1>",
            "<a href=\"../\">",
            "<a href=\"./a%20b.txt\">a b.txt</a>",
            "<a href=\"./%3Cscript%3E%22%26\">&lt;script&gt;&quot;&amp;</a>",
            "<a href=\"./sub/\">sub/</a>",
            "href=\"./%FF\"",
        ] {
            assert!(page.contains(part), "{part} is not in {page}");
        }
    }

    #[test]
    fn a_page_as_a_whole_has_the_fields_of_its_parts() {
        let validator = Validator::new(std::time::SystemTime::UNIX_EPOCH, 7, std::time::SystemTime::now());
        for validator in [None, Some(&validator)] {
            let fields = fields("text/plain", 7, validator);
            let (date, mime, range, location) = ("now", "text/plain", None, None);
            let parts = Head {
                status: 200,
                date,
                whole: None,
                mime,
                len: 7,
                validator,
                range,
                location,
                keeps: true,
            };
            let (mut by_parts, mut whole) = (String::new(), String::new());
            parts.put(&mut by_parts);
            Head { whole: Some(&fields), ..parts }.put(&mut whole);
            assert_eq!(whole, by_parts);
            assert!(whole.contains("Content-Length: 7\r\n"), "{whole}");
        }
    }

    #[test]
    fn a_head_says_what_follows() {
        let modified = std::time::SystemTime::UNIX_EPOCH;
        let validator = Validator { modified, tag: "\"a-b\"".to_owned(), is_strong: true };
        let head = Head {
            status: 206,
            date: "Sun, 06 Nov 1994 08:49:37 GMT",
            whole: None,
            mime: "text/plain",
            len: 2,
            validator: Some(&validator),
            range: Some((Some(3..5), 10)),
            location: None,
            keeps: true,
        };
        let mut text = "of another".to_owned();
        head.put(&mut text);
        assert!(text.starts_with("HTTP/1.1 206 Partial Content\r\n"), "{text}");
        for line in [
            "Date: Sun, 06 Nov 1994 08:49:37 GMT",
            "Content-Length: 2",
            "Content-Range: bytes 3-4/10",
            "Last-Modified: Thu, 01 Jan 1970 00:00:00 GMT",
            "ETag: \"a-b\"",
            "Connection: keep-alive",
        ] {
            assert!(text.contains(&format!("{line}\r\n")), "{line}: {text}");
        }
        assert!(text.ends_with("\r\n\r\n"));
        let same = Head { status: 304, range: None, ..head.clone() };
        same.put(&mut text);
        assert!(text.contains("ETag: \"a-b\"\r\n") && !text.contains("Content-Length"), "{text}");
        let wrong = Head { status: 405, range: None, keeps: false, ..head };
        wrong.put(&mut text);
        assert!(text.contains("Allow: GET, HEAD\r\n"));
        let refused = Head { status: 503, ..wrong };
        refused.put(&mut text);
        assert!(text.contains("503 Service Unavailable\r\n") && text.contains("Retry-After: 5\r\n"));
    }
}
