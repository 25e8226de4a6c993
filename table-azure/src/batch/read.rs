use memchr::{memchr, memchr_iter, memmem};
use table_core::model::{ETag, TableName};
use table_core::store::{ErrorKind, GroupTransaction, Operation, Outcome, Written};
use table_core::{Error, Result};

use crate::rest::{Answer, Failure, Subject, no_etag};

/// What became of a group: the outer status says nothing, every inner one counts.
///
/// # Errors
/// The operation that failed; or, if the answer cannot be read to its end, that the outcome is unknown.
pub(crate) fn read_answer(
    answer: &Answer,
    table: &TableName,
    group: &GroupTransaction,
) -> Result<Vec<Written>> {
    let text = std::str::from_utf8(&answer.body).map_err(|_| unreadable("it is not UTF-8"))?;
    let boundary =
        answer.header("content-type").and_then(boundary).ok_or_else(|| unreadable("it has no boundary"))?;
    let parts = responses(text, boundary).ok_or_else(|| unreadable("it is cut off"))?;
    if let Some(refused) = parts.iter().find(|part| !(200..300).contains(&part.status)) {
        return Err(refusal(refused, answer, table, group));
    }
    if parts.len() != group.len() {
        return Err(unreadable(&format!("it has {} parts for {} operations", parts.len(), group.len())));
    }
    parts.iter().zip(group.operations()).map(|(part, operation)| written(part, operation)).collect()
}

fn written(part: &Response<'_>, operation: &Operation) -> Result<Written> {
    match operation {
        Operation::Delete(..) => Ok(Written::deleted()),
        _ => part.header("etag").map(|etag| Written::version(ETag::from(etag))).ok_or_else(no_etag),
    }
}

fn refusal(part: &Response<'_>, answer: &Answer, table: &TableName, group: &GroupTransaction) -> Error {
    let mut failure = Failure::of_body(part.status, part.body.as_bytes()).within(answer);
    let index = failure.take_index();
    let Some(operation) = group.operations().get(index) else {
        return failure.into_error(&Subject::Table(table), true);
    };
    let error = failure.into_error(&Subject::Entity(table, operation.key()), true);
    if is_about_one(error.kind()) { Error::in_transaction(index, error) } else { error }
}

/// Whether the error is one operation's, not the table's, the caller's or the service's.
const fn is_about_one(kind: &ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::EntityNotFound { .. }
            | ErrorKind::EntityAlreadyExists { .. }
            | ErrorKind::PreconditionFailed { .. }
            | ErrorKind::InvalidRequest(_)
    )
}

fn unreadable(reason: &str) -> Error {
    let kind = ErrorKind::Service(format!("a group's answer that cannot be read: {reason}"));
    Error::new(kind).with_outcome(Outcome::Ambiguous)
}

/// One inner response.
#[derive(Debug)]
pub(crate) struct Response<'a> {
    status: u16,
    head: &'a str,
    body: &'a str,
}

impl<'a> Response<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let (head, body) = head_and_body(text);
        let (status_line, head) = head.split_once('\n').unwrap_or((head, ""));
        let status = status_line.strip_prefix("HTTP/")?.split_ascii_whitespace().nth(1)?.parse().ok()?;
        Some(Self { status, head, body })
    }

    fn header(&self, name: &str) -> Option<&'a str> {
        header(self.head, name)
    }
}

/// How deep parts lie in parts: an answer has one, the set of changes.
const DEPTH: usize = 4;

/// The responses of a multipart body, those of parts within parts included; `None` if it is cut
/// off or malformed.
pub(crate) fn responses<'a>(text: &'a str, boundary: &str) -> Option<Vec<Response<'a>>> {
    let mut found = Vec::new();
    read_parts(text, boundary, DEPTH, &mut found).map(|()| found)
}

fn read_parts<'a>(text: &'a str, boundary: &str, depth: usize, found: &mut Vec<Response<'a>>) -> Option<()> {
    for part in parts(text, boundary)? {
        let (head, body) = head_and_body(part);
        match header(head, "content-type").and_then(self::boundary) {
            Some(inner) => read_parts(body, inner, depth.checked_sub(1)?, found)?,
            None => found.push(Response::parse(body)?),
        }
    }
    Some(())
}

/// The texts between the boundary's lines.
fn parts<'a>(text: &'a str, boundary: &str) -> Option<Vec<&'a str>> {
    let delimiter = ["--", boundary].concat();
    let (mut parts, mut start) = (Vec::new(), None);
    for at in memmem::find_iter(text.as_bytes(), &delimiter) {
        if at > 0 && text.as_bytes()[at - 1] != b'\n' {
            continue;
        }
        let rest = &text[at + delimiter.len()..];
        let line = memchr(b'\n', rest.as_bytes()).map_or(rest, |end| &rest[..=end]);
        let after = text.len() - rest.len() + line.len();
        match line.trim_end() {
            "" => parts.extend(start.replace(after).map(|start| &text[start..at])),
            "--" => {
                parts.extend(start.map(|start| &text[start..at]));
                return Some(parts);
            }
            _ => {}
        }
    }
    None
}

/// Up to the first empty line, and after it.
fn head_and_body(text: &str) -> (&str, &str) {
    let text = text.trim_start_matches(['\r', '\n']);
    let mut start = 0;
    for end in memchr_iter(b'\n', text.as_bytes()) {
        if matches!(&text[start..end], "" | "\r") {
            return (&text[..start], &text[end + 1..]);
        }
        start = end + 1;
    }
    (text, "")
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let ends = memchr_iter(b'\n', head.as_bytes()).chain([head.len()]);
    let mut start = 0;
    let mut lines = ends.map(|end| &head[std::mem::replace(&mut start, end + 1).min(end)..end]);
    lines.find_map(|line| {
        let (found, value) = line.split_at_checked(name.len())?;
        let value = value.strip_prefix(':').filter(|_| found.eq_ignore_ascii_case(name))?;
        Some(value.trim())
    })
}

/// The boundary that a content type names.
fn boundary(content_type: &str) -> Option<&str> {
    let mut parameters = content_type.split(';').filter_map(|p| p.split_once('='));
    let (_, value) = parameters.find(|(name, _)| name.trim().eq_ignore_ascii_case("boundary"))?;
    Some(value.trim().trim_matches('"'))
}
