//! The head of a request (RFC 9112 §3), and what of it matters here.

use super::conditional::Conditions;
use super::range::Wanted;

/// Bytes of a head at the most.
pub(super) const HEAD_MAX: usize = 8192;
/// Header fields of a head at the most.
const FIELDS_MAX: usize = 64;

/// The target of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Request {
    /// The name of the file, from the folder on, without a slash before it; that of a folder has one behind it. Bytes, as
    /// files have them.
    pub(super) name: Vec<u8>,
    /// Only the head of the answer is wanted.
    pub(super) head_only: bool,
    pub(super) range: Option<Wanted>,
    /// Its preconditions.
    pub(super) conditions: Conditions,
    /// More may be asked on the same connection.
    pub(super) keeps: bool,
}

/// The result of parsing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parsed {
    /// The head has not come to its end.
    Incomplete,
    /// A request, whose head has so many bytes.
    Request(usize),
    /// The status that says what is wrong. Nothing after it can be understood.
    Wrong(u16),
}

/// Reads the head that `bytes` begin with into `request`, in the memory that this has. Of one that is none nothing is to be
/// made.
pub(super) fn parse(bytes: &[u8], request: &mut Request) -> Parsed {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut head = httparse::Request::new(&mut fields);
    match head.parse(bytes) {
        Ok(httparse::Status::Complete(len)) => match request.read(&head) {
            Ok(()) => Parsed::Request(len),
            Err(status) => Parsed::Wrong(status),
        },
        Ok(httparse::Status::Partial) if bytes.len() >= HEAD_MAX => Parsed::Wrong(431),
        Ok(httparse::Status::Partial) => Parsed::Incomplete,
        Err(httparse::Error::TooManyHeaders) => Parsed::Wrong(431),
        Err(httparse::Error::Version) => Parsed::Wrong(505),
        Err(_) => Parsed::Wrong(400),
    }
}

impl Request {
    fn read(&mut self, head: &httparse::Request<'_, '_>) -> Result<(), u16> {
        let all = |name: &'static str| {
            head.headers
                .iter()
                .filter(move |field| field.name.eq_ignore_ascii_case(name))
                .map(|field| field.value)
        };
        let is_new = head.version == Some(1);
        //= https://www.rfc-editor.org/rfc/rfc9112#section-3.2
        //# A server MUST respond with a 400 (Bad Request) status code to any
        //# HTTP/1.1 request message that lacks a Host header field and to any
        //# request message that contains more than one Host header field line
        if all("host").count() > 1 || is_new && all("host").count() == 0 {
            return Err(400);
        }
        // The body of such a request has no meaning and is not read: the connection ends behind the response.
        let has_body = has_body(is_new, all)?;
        let head_only = match head.method {
            Some("GET") => false,
            Some("HEAD") => true,
            _ => return Err(405),
        };
        let says = |word: &str| all("connection").any(|value| has_word(value, word));
        read_name(head.path.unwrap_or_default(), &mut self.name).ok_or(400_u16)?;
        self.head_only = head_only;
        //= https://www.rfc-editor.org/rfc/rfc9110#section-14.2
        //# A server MUST ignore a Range header field received with a
        //# request method that is unrecognized or for which range handling is
        //# not defined.  For this specification, GET is the only method for
        //# which range handling is defined.
        self.range = all("range").next().and_then(Wanted::read).filter(|_| !head_only);
        self.conditions.read(all);
        self.keeps = !has_body && !says("close") && (is_new || says("keep-alive"));
        Ok(())
    }
}

/// Tells whether a body follows the head, if its end is unambiguous: else another server, in front of
/// us or behind, could take its rest for a request (request smuggling).
fn has_body<'h, V: Iterator<Item = &'h [u8]>>(
    is_new: bool,
    all: impl Fn(&'static str) -> V,
) -> Result<bool, u16> {
    let mut codings = all("transfer-encoding").flat_map(words).peekable();
    if codings.peek().is_none() && all("transfer-encoding").next().is_none() {
        let mut lengths = all("content-length").flat_map(words).map(length);
        let Some(first) = lengths.next() else { return Ok(false) };
        //= https://www.rfc-editor.org/rfc/rfc9112#section-6.3
        //# If a message is received without Transfer-Encoding and with an
        //# invalid Content-Length header field, then the message framing is
        //# invalid and the recipient MUST treat it as an unrecoverable error,
        //# unless the field value can be successfully parsed as a comma-
        //# separated list (Section 5.6.1 of [HTTP]), all values in the list are
        //# valid, and all values in the list are the same
        let is_clear = first.is_some() && lengths.all(|length| length == first);
        return if is_clear { Ok(first != Some(0)) } else { Err(400) };
    }
    //= https://www.rfc-editor.org/rfc/rfc9112#section-6.1
    //# A server MAY reject a request that contains both Content-Length and
    //# Transfer-Encoding
    //= https://www.rfc-editor.org/rfc/rfc9112#section-6.1
    //# A server or client that receives an HTTP/1.0 message containing a
    //# Transfer-Encoding header field MUST treat the message as if the
    //# framing is faulty
    if !is_new || all("content-length").next().is_some() {
        return Err(400);
    }
    let is_chunked = |coding: &[u8]| coding.eq_ignore_ascii_case(b"chunked");
    let codings: Vec<&[u8]> = codings.collect();
    match codings.split_last() {
        Some((last, [])) if is_chunked(last) => Ok(true),
        //= https://www.rfc-editor.org/rfc/rfc9112#section-6.1
        //# A server that receives a request message with a transfer coding it
        //# does not understand SHOULD respond with 501 (Not Implemented).
        Some((last, others)) if is_chunked(last) && !others.iter().any(|other| is_chunked(other)) => Err(501),
        //= https://www.rfc-editor.org/rfc/rfc9112#section-6.3
        //# If a Transfer-Encoding header field
        //# is present in a request and the chunked transfer coding is not
        //# the final encoding, the message body length cannot be determined
        //# reliably; the server MUST respond with the 400 (Bad Request)
        //# status code and then close the connection.
        _ => Err(400),
    }
}

/// The members of a list (RFC 9110 §5.6.1).
fn words(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}

/// A length: digits and nothing else, and a number that can be.
fn length(word: &[u8]) -> Option<u64> {
    let is_digits = !word.is_empty() && word.iter().all(u8::is_ascii_digit);
    is_digits.then(|| core::str::from_utf8(word).ok()?.parse().ok()).flatten()
}

fn has_word(value: &[u8], word: &str) -> bool {
    words(value).any(|is| is.eq_ignore_ascii_case(word.as_bytes()))
}

/// Reads the name that a target means; `None` if it means none. Nothing leads up.
fn read_name(target: &str, into: &mut Vec<u8>) -> Option<()> {
    //= https://www.rfc-editor.org/rfc/rfc9112#section-3.2.2
    //# a server MUST accept the absolute-form in requests even though most HTTP
    //# clients will only send the absolute-form in requests to proxies.
    let origin = match target.split_once("://") {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => {
            rest.find('/').map_or("/", |at| &rest[at..])
        }
        _ => target,
    };
    let path = origin.split(['?', '#']).next()?;
    decode(path.strip_prefix('/')?.as_bytes(), into)?;
    if into.contains(&0) {
        return None;
    }
    let is_folder = into.is_empty() || into.ends_with(b"/");
    // What stays of it goes to the front.
    let (mut at, mut end) = (0, 0);
    while at < into.len() {
        let len = into[at..].iter().position(|byte| *byte == b'/').unwrap_or(into.len() - at);
        match &into[at..at + len] {
            b"" | b"." => {}
            b".." => return None,
            _ => {
                if end > 0 {
                    into[end] = b'/';
                    end += 1;
                }
                into.copy_within(at..at + len, end);
                end += len;
            }
        }
        at += len + 1;
    }
    into.truncate(end);
    into.extend(is_folder.then_some(b'/'));
    Some(())
}

/// Undoes percent-encoding (RFC 3986 §2.1); `None` if something else follows a `%`.
fn decode(name: &[u8], into: &mut Vec<u8>) -> Option<()> {
    into.clear();
    let mut rest = name.iter();
    while let Some(byte) = rest.next() {
        into.push(match byte {
            b'%' => hex(*rest.next()?)? << 4 | hex(*rest.next()?)?,
            byte => *byte,
        });
    }
    Some(())
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses a request into recycled memory.
    fn parse(bytes: &[u8]) -> (Parsed, Request) {
        let mut request = Request::default();
        let before =
            b"GET /a/b/ HTTP/1.1\r\nHost: h\r\nRange: bytes=1-2\r\nIf-Match: a\r\nIf-Range: b\r\n\r\n";
        assert_eq!(super::parse(before, &mut request), Parsed::Request(before.len()));
        (super::parse(bytes, &mut request), request)
    }

    fn get(target: &str, fields: &str) -> (Parsed, Request) {
        parse(format!("GET {target} HTTP/1.1\r\nHost: h\r\n{fields}\r\n").as_bytes())
    }

    fn request(target: &str, fields: &str) -> Request {
        let (parsed, request) = get(target, fields);
        assert!(matches!(parsed, Parsed::Request(_)), "{parsed:?}");
        request
    }

    #[test]
    fn targets_mean_names_below_the_folder_and_none_leads_out() {
        for (target, name) in [
            ("/", "/"),
            ("/a/b.html", "a/b.html"),
            ("/a//./b/", "a/b/"),
            ("/a%20b?x=../y", "a b"),
            ("http://host:80/a", "a"),
            ("http://host", "/"),
            ("/%C3%A4", "ä"),
            ("/...", "..."),
        ] {
            assert_eq!(request(target, "").name, name.as_bytes(), "{target}");
        }
        for target in
            ["/../x", "/a/../../x", "/%2e%2e/x", "/a/%2E%2e", "/..%2fx", "/%zz", "/%2", "/a%00", "*", "x"]
        {
            assert_eq!(get(target, "").0, Parsed::Wrong(400), "{target}");
        }
    }

    #[test]
    fn a_head_in_pieces_is_waited_for_and_behind_it_another_may_follow() {
        let two = b"GET /1 HTTP/1.1\r\nHost: h\r\n\r\nGET /2 HTTP/1.1\r\nHost: h\r\n\r\n";
        for len in 0..28 {
            assert_eq!(parse(&two[..len]).0, Parsed::Incomplete, "{len}");
        }
        let (parsed, request) = parse(two);
        assert_eq!((parsed, request.name.as_slice()), (Parsed::Request(28), &b"1"[..]));
    }

    #[test]
    fn heads_that_are_too_long_or_wrong_have_their_status() {
        let fields: String = (0..65).map(|n| format!("x-{n}: y\r\n")).collect();
        assert_eq!(get("/", &fields).0, Parsed::Wrong(431));
        assert_eq!(parse(&vec![b'a'; HEAD_MAX]).0, Parsed::Wrong(431));
        assert_eq!(parse(b"GET / HTTP/1.1\r\n\r\n").0, Parsed::Wrong(400), "no host");
        assert_eq!(get("/", "Host: other\r\n").0, Parsed::Wrong(400), "two");
        assert_eq!(parse(b"POST / HTTP/1.1\r\nHost: h\r\n\r\n").0, Parsed::Wrong(405));
        assert_eq!(parse(b"GET / HTTP/2.0\r\n\r\n").0, Parsed::Wrong(505));
        assert_eq!(parse(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03").0, Parsed::Wrong(400), "TLS");
    }

    #[test]
    fn a_connection_is_kept_as_both_versions_say() {
        assert!(request("/", "").keeps);
        assert!(!request("/", "Connection: te, Close\r\n").keeps);
        assert!(!request("/", "Content-Length: 5\r\n").keeps, "what follows is not a request");
        assert!(!request("/", "Transfer-Encoding: chunked\r\n").keeps);
        let old = |fields: &str| parse(format!("GET / HTTP/1.0\r\n{fields}\r\n").as_bytes()).1;
        assert!(!old("").keeps);
        assert!(old("Connection: keep-alive\r\n").keeps);
    }

    #[test]
    fn a_body_whose_end_is_not_clear_to_all_is_refused() {
        for fields in [
            "Content-Length: 5\r\nContent-Length: 6\r\n",
            "Content-Length: 5, 6\r\n",
            "Content-Length: 5\r\nContent-Length: 5, 7\r\n",
            "Content-Length: +5\r\n",
            "Content-Length: -1\r\n",
            "Content-Length: 0x5\r\n",
            "Content-Length: 5 5\r\n",
            "Content-Length: \r\n",
            "Content-Length: 5,\r\n",
            "Content-Length: 99999999999999999999\r\n",
            "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
            "Transfer-Encoding: xchunked\r\n",
            "Transfer-Encoding: identity\r\n",
            "Transfer-Encoding: \r\n",
            "Transfer-Encoding: chunked, gzip\r\n",
            "Transfer-Encoding: chunked, chunked\r\n",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: \x0bchunked\r\n",
        ] {
            assert_eq!(get("/", fields).0, Parsed::Wrong(400), "{fields:?}");
        }
        for fields in
            ["Transfer-Encoding: gzip, chunked\r\n", "Transfer-Encoding: x\r\nTransfer-Encoding: chunked\r\n"]
        {
            assert_eq!(get("/", fields).0, Parsed::Wrong(501), "{fields:?}");
        }
        let old = b"GET / HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert_eq!(parse(old).0, Parsed::Wrong(400), "HTTP/1.0 has no transfer codings");
        for (fields, keeps) in [
            ("Content-Length: 0\r\n", true),
            ("Content-Length: 0\r\nContent-Length: 00\r\n", true),
            ("Content-Length: 5, 5\r\n", false),
            ("Transfer-Encoding: Chunked\r\n", false),
        ] {
            assert_eq!(request("/", fields).keeps, keeps, "{fields:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_answered(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..300)) {
            if let (Parsed::Request(len), request) = parse(&bytes) {
                assert!(len <= bytes.len() && (request.name == b"/" || !request.name.starts_with(b"/")));
            }
        }
    }
}
