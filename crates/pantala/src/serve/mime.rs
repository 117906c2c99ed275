//! Media types, by the end of a file's name.

/// The media type of a file of this name (RFC 9110 §8.3.1).
pub(super) fn of(name: &[u8]) -> &'static str {
    let end = name.rsplit(|byte| *byte == b'.').next().filter(|end| end.len() < name.len());
    let end = end.map(<[u8]>::to_ascii_lowercase).unwrap_or_default();
    match end.as_slice() {
        b"html" | b"htm" => "text/html; charset=utf-8",
        b"css" => "text/css; charset=utf-8",
        b"js" | b"mjs" => "text/javascript; charset=utf-8",
        b"txt" | b"md" | b"toml" | b"rs" | b"c" | b"h" | b"log" => "text/plain; charset=utf-8",
        b"csv" => "text/csv; charset=utf-8",
        b"json" | b"map" => "application/json",
        b"xml" => "application/xml",
        b"pdf" => "application/pdf",
        b"wasm" => "application/wasm",
        b"zip" => "application/zip",
        b"gz" | b"tgz" => "application/gzip",
        b"svg" => "image/svg+xml",
        b"png" => "image/png",
        b"jpg" | b"jpeg" => "image/jpeg",
        b"gif" => "image/gif",
        b"webp" => "image/webp",
        b"avif" => "image/avif",
        b"ico" => "image/x-icon",
        b"woff2" => "font/woff2",
        b"woff" => "font/woff",
        b"mp3" => "audio/mpeg",
        b"ogg" => "audio/ogg",
        b"mp4" => "video/mp4",
        b"webm" => "video/webm",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_follows_from_the_end_of_the_name_in_any_case() {
        for (name, is) in [
            ("index.html", "text/html; charset=utf-8"),
            ("a/b.tar.GZ", "application/gzip"),
            ("PNG", "application/octet-stream"),
            ("noend.", "application/octet-stream"),
        ] {
            assert_eq!(of(name.as_bytes()), is, "{name}");
        }
    }
}
