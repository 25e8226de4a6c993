//! Parses bodies of groups: `multipart/mixed`, in the forms that clients send.
//!
//! <https://learn.microsoft.com/rest/api/storageservices/performing-entity-group-transactions>,
//! <https://www.rfc-editor.org/rfc/rfc2046#section-5.1>

use http::{HeaderMap, HeaderName, HeaderValue, Method};

use crate::errors::{Failure, Result};

/// A request inside a group.
#[derive(Debug)]
pub(crate) struct Part<'a> {
    pub(crate) method: Method,
    pub(crate) address: &'a str,
    pub(crate) headers: HeaderMap,
    pub(crate) body: &'a str,
    /// The client's name for the request, which the response repeats.
    pub(crate) content_id: Option<HeaderValue>,
}

/// The contents of a group: writes in one change set, or one read.
#[derive(Debug)]
pub(crate) enum Group<'a> {
    Changes(Vec<Part<'a>>),
    Read(Part<'a>),
}

/// One more than a group may have, so that an excess is detected and reported.
pub(crate) const MAX_PARTS: usize = table_core::store::limits::GROUP_OPERATIONS + 1;
/// Maximum bytes of a boundary. RFC 2046 allows 70. A longer boundary does no harm, so a client that exceeds the rule is served too.
const MAX_BOUNDARY_BYTES: usize = 128;
/// Maximum number of headers of a part: several times the number that clients send.
const MAX_HEADERS: usize = 64;

/// Parses a group.
pub(crate) fn read<'a>(content_type: &str, body: &'a str) -> Result<Group<'a>> {
    let boundary =
        boundary(content_type).ok_or_else(|| malformed("its content type has no boundary"))?;
    let mut parts = parts(body, boundary, Ending::Lenient)?.into_iter();
    let first = parts.next().ok_or_else(|| malformed("it has no parts"))?;
    if parts.next().is_some() {
        return Err(malformed(
            "it has more than one change set, or a query together with changes",
        ));
    }
    let (headers, content) = head(first)?;
    let content_type = headers
        .get("content-type")
        .and_then(|kind| kind.to_str().ok())
        .unwrap_or_default()
        .to_owned();
    if !is_mixed(&content_type) {
        return Ok(Group::Read(part(first)?));
    }
    let inner =
        self::boundary(&content_type).ok_or_else(|| malformed("its change set has no boundary"))?;
    let changes = self::parts(content, inner, Ending::Strict)?;
    changes
        .into_iter()
        .map(part)
        .collect::<Result<_>>()
        .map(Group::Changes)
}

fn is_mixed(content_type: &str) -> bool {
    content_type
        .trim_start()
        .get(..15)
        .is_some_and(|kind| kind.eq_ignore_ascii_case("multipart/mixed"))
}

/// Returns the boundary that a content type declares.
fn boundary(content_type: &str) -> Option<&str> {
    if !is_mixed(content_type) {
        return None;
    }
    let mut parameters = content_type
        .split(';')
        .filter_map(|parameter| parameter.split_once('='));
    let (_, value) = parameters.find(|(name, _)| name.trim().eq_ignore_ascii_case("boundary"))?;
    let value = value.trim().trim_matches('"');
    (1..=MAX_BOUNDARY_BYTES)
        .contains(&value.len())
        .then_some(value)
}

/// How the last delimiter of a sequence of parts may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// With its two hyphens: a sequence without them is truncated.
    Strict,
    /// Without the hyphens, if nothing follows. The crate `azure_data_tables` writes the end of a group so. What precedes the delimiter is
    /// complete, and a group has one part, so nothing is lost.
    Lenient,
}

/// Returns the texts between the delimiters of a boundary.
///
/// # Errors
/// The closing delimiter is missing, or text is outside of the delimiters. RFC 2046 has a reader ignore such text. Here it may be an operation
/// whose delimiter is missing, and the group would be carried out without it.
fn parts<'a>(text: &'a str, boundary: &str, ending: Ending) -> Result<Vec<&'a str>> {
    let (mut found, mut start, mut at) = (Vec::new(), None, 0);
    // One pass over the text, and parts borrow from it: a body of many delimiters costs no more than its own length.
    while at < text.len() {
        let line = text[at..].split_inclusive('\n').next().unwrap_or_default();
        let next = at + line.len();
        if let Some(delimiter) = delimiter(line, boundary) {
            match start {
                Some(start) => found.push(without_line_end(&text[start..at])),
                None if !text[..at].trim().is_empty() => {
                    return Err(malformed("text precedes its first boundary"));
                }
                None => {}
            }
            if delimiter == Delimiter::End {
                if !text[next..].trim().is_empty() {
                    return Err(malformed("text follows its last boundary"));
                }
                return Ok(found);
            }
            // The rest is not parsed: `batch::change` refuses a group with this many parts in any case.
            if found.len() == MAX_PARTS {
                return Ok(found);
            }
            start = Some(next);
        }
        at = next;
    }
    let has_end = start.is_some_and(|start| text[start..].trim().is_empty()) && !found.is_empty();
    if ending == Ending::Lenient && has_end {
        Ok(found)
    } else {
        Err(malformed("the body is truncated"))
    }
}

/// A line that separates the parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Delimiter {
    /// Before a part.
    Part,
    /// After the last part.
    End,
}

/// Returns the delimiter of a line; `None` for a line of a part.
fn delimiter(line: &str, boundary: &str) -> Option<Delimiter> {
    match line.strip_prefix("--")?.strip_prefix(boundary)?.trim_end() {
        "" => Some(Delimiter::Part),
        "--" => Some(Delimiter::End),
        _ => None,
    }
}

/// Removes the line end before a delimiter, which belongs to the delimiter.
fn without_line_end(text: &str) -> &str {
    let text = text.strip_suffix('\n').unwrap_or(text);
    text.strip_suffix('\r').unwrap_or(text)
}

/// Returns the headers of a part, and the text after the empty line that follows them.
fn head(text: &str) -> Result<(HeaderMap, &str)> {
    let (mut headers, mut at) = (HeaderMap::new(), 0);
    for line in text.split_inclusive('\n') {
        at += line.len();
        let line = line.trim_end_matches(['\r', '\n']);
        if line.is_empty() {
            return Ok((headers, &text[at..]));
        }
        let (name, value) = line
            .split_once(':')
            .ok_or_else(|| malformed("a header has no colon"))?;
        let name = HeaderName::from_bytes(name.trim().as_bytes());
        let value = HeaderValue::from_bytes(value.trim().as_bytes());
        let (Ok(name), Ok(value)) = (name, value) else {
            return Err(malformed("a header is malformed"));
        };
        // hyper bounds the headers of a request; the headers of parts are inside its body, so they need a bound of their own.
        if headers.len() == MAX_HEADERS {
            return Err(malformed("a part has too many headers"));
        }
        headers.append(name, value);
    }
    Ok((headers, ""))
}

/// Parses a request inside a part of type `application/http`.
fn part(text: &str) -> Result<Part<'_>> {
    let (outer, request) = head(text)?;
    // Some clients send another empty line before the request line.
    let request = request.trim_start_matches(['\r', '\n']);
    let (line, rest) = request.split_once('\n').unwrap_or((request, ""));
    let mut words = line.split_ascii_whitespace();
    let (Some(method), Some(address), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(malformed("a part has no request line"));
    };
    let method =
        Method::from_bytes(method.as_bytes()).map_err(|_| malformed("a part has no method"))?;
    if !version.starts_with("HTTP/") {
        return Err(malformed("a part's request line has no version"));
    }
    let (headers, body) = head(rest)?;
    let content_id = headers
        .get("content-id")
        .or_else(|| outer.get("content-id"))
        .cloned();
    Ok(Part {
        method,
        address,
        headers,
        body: body.trim(),
        content_id,
    })
}

pub(crate) fn malformed(reason: &str) -> Failure {
    Failure::invalid_input(format!("The batch request is malformed: {reason}."))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const OUTER: &str = "multipart/mixed; boundary=batch_1";

    fn changes(text: &str) -> Vec<Part<'_>> {
        match read(OUTER, text).unwrap() {
            Group::Changes(parts) => parts,
            Group::Read(part) => panic!("{part:?}"),
        }
    }

    fn group(line_end: &str, parts: &[&str]) -> String {
        let mut text =
            "--batch_1\nContent-Type: multipart/mixed; boundary=\"set_1\"\n\n".to_owned();
        for part in parts {
            text.push_str(
                "--set_1\nContent-Type: application/http\nContent-Transfer-Encoding: binary\n\n",
            );
            text.push_str(part);
            text.push('\n');
        }
        text.push_str("--set_1--\n--batch_1--\n");
        text.replace('\n', line_end)
    }

    const INSERT: &str = "POST http://h/acc/T HTTP/1.1\nContent-ID: 7\nContent-Type: application/json\n\n{\"A\":\"--set_2\"}\n";
    const DELETE: &str = "DELETE /acc/T(PartitionKey='p',RowKey='r') HTTP/1.1\nIf-Match: *\n\n";

    #[test]
    fn parts_are_read_with_every_kind_of_line_end() {
        for line_end in ["\n", "\r\n"] {
            let text = group(line_end, &[INSERT, DELETE]);
            let parts = changes(&text);
            assert_eq!(parts.len(), 2);
            assert_eq!(&parts[0].method, &Method::POST);
            assert_eq!(parts[0].address, "http://h/acc/T");
            assert_eq!(parts[0].body, "{\"A\":\"--set_2\"}");
            assert_eq!(parts[0].content_id.as_ref().unwrap(), "7");
            assert_eq!(&parts[1].method, &Method::DELETE);
            assert_eq!(parts[1].body, "");
            assert_eq!(parts[1].headers["if-match"], "*");
        }
    }

    #[test]
    fn a_single_query_is_a_valid_group() {
        let text = "--batch_1\r\nContent-Type: application/http\r\n\r\nGET /acc/T() HTTP/1.1\r\n\r\n\r\n--batch_1--";
        assert!(matches!(read(OUTER, text), Ok(Group::Read(part)) if part.address == "/acc/T()"));
    }

    #[test]
    fn the_last_delimiter_of_a_group_may_lack_its_hyphens() {
        for line_end in ["\n", "\r\n"] {
            let whole = group(line_end, &[INSERT, DELETE]);
            let whole = whole.trim_end().strip_suffix("--").unwrap();
            for end in ["", "\n", "\r\n", " \n"] {
                assert_eq!(changes(&format!("{whole}{end}")).len(), 2, "{end:?}");
            }
        }
        let read_ =
            "--batch_1\nContent-Type: application/http\n\nGET /acc/T() HTTP/1.1\n\n\n--batch_1\n";
        assert!(matches!(read(OUTER, read_), Ok(Group::Read(_))));
    }

    /// A change set is executed as a whole, so nothing of one that was cut may be executed.
    #[test]
    fn a_cut_change_set_is_refused() {
        let whole = group("\n", &[INSERT, DELETE]).replace("--batch_1--\n", "--batch_1\n");
        let end = whole.find("--set_1--").unwrap() + "--set_1--".len();
        for length in 0..end {
            for rest in ["", "\n--batch_1\n", "\n--batch_1--\n"] {
                let text = format!("{}{rest}", &whole[..length]);
                assert!(read(OUTER, &text).is_err(), "{text}");
            }
        }
        assert!(
            read(OUTER, &whole[..end]).is_err(),
            "the delimiter of the group is missing"
        );
        assert_eq!(changes(&whole).len(), 2);
    }

    #[test]
    fn invalid_groups_are_refused() {
        let whole = group("\r\n", &[INSERT]);
        assert!(read("application/json", &whole).is_err());
        assert!(read("multipart/mixed", &whole).is_err());
        assert!(read("multipart/mixed; boundary=other", &whole).is_err());
        for text in [
            "",
            "--batch_1--",
            &whole[..whole.len() - 20],
            &whole.replace("POST http://h/acc/T HTTP/1.1", "POST"),
            &whole.replace("POST http", "PO ST http"),
            &whole.replace("; boundary=\"set_1\"", ""),
            &whole.replace("Content-ID: 7", "Content-ID"),
            &whole.replace("Content-ID: 7", "Content ID: 7"),
            &format!(
                "{}{whole}",
                whole.trim_end().trim_end_matches("--batch_1--")
            ),
        ] {
            assert!(read(OUTER, text).is_err(), "{text}");
        }
    }

    /// The operation of such a text would be left out.
    #[test]
    fn text_outside_of_the_delimiters_is_refused() {
        for line_end in ["\n", "\r\n"] {
            let whole = group(line_end, &[INSERT, DELETE]);
            for delimiter in ["--set_1", "--batch_1"] {
                let (at, _) = whole.match_indices(delimiter).next().unwrap();
                let line = whole[at..].split_inclusive('\n').next().unwrap();
                let without = format!("{}{}", &whole[..at], &whole[at + line.len()..]);
                assert!(read(OUTER, &without).is_err(), "{without}");
                let preceded = format!("{}x{line_end}{}", &whole[..at], &whole[at..]);
                assert!(read(OUTER, &preceded).is_err(), "{preceded}");
                let blank = format!("{} {line_end}{line_end}{}", &whole[..at], &whole[at..]);
                assert_eq!(changes(&blank).len(), 2, "{blank}");
            }
            for end in ["--set_1--", "--batch_1--"] {
                let followed = whole.replace(end, &format!("{end}{line_end}x"));
                assert!(read(OUTER, &followed).is_err(), "{followed}");
                let blank = whole.replace(end, &format!("{end}{line_end} {line_end}"));
                assert_eq!(changes(&blank).len(), 2, "{blank}");
            }
        }
    }

    #[test]
    fn parts_beyond_the_limit_are_not_read() {
        let text = group("\r\n", &[DELETE; 5000]);
        assert_eq!(changes(&text).len(), MAX_PARTS);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(
            pieces in proptest::collection::vec(prop::sample::select(vec![
                "--batch_1", "--set_1", "--", "\r\n", "\n", "\r\n\r\n", "Content-Type: ", "multipart/mixed; boundary=set_1",
                "application/http", "GET /a HTTP/1.1", ":", "é", "x",
            ]), 0..30),
        ) {
            let _ = read(OUTER, &pieces.concat());
        }
    }
}
