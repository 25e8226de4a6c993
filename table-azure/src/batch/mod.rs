//! Entity group transactions: one multipart request.
//!
//! <https://learn.microsoft.com/rest/api/storageservices/performing-entity-group-transactions>

#[cfg(test)]
mod tests;

use std::ops::Range;

use memchr::memchr;
use table_core::model::{ETag, TableName};
use table_core::store::{ErrorKind, GroupTransaction, Operation, Outcome, Written, limits};
use table_core::{Error, Result};
use uuid::Uuid;

use crate::endpoint::Endpoint;
use crate::operation::Write;
use crate::rest::{Answer, Failure, Subject, no_etag, pause};
use crate::wire::EntityEncoder;

/// Reads the answer to a group. The outer status carries no result, so every inner status is checked.
///
/// # Errors
/// Returns the error of the failed operation. If the answer is incomplete or malformed, the error's outcome
/// is ambiguous.
pub(crate) fn read_answer(
    answer: &Answer,
    table: &TableName,
    group: &GroupTransaction,
) -> Result<Vec<Written>> {
    let text =
        std::str::from_utf8(&answer.body).map_err(|_| unreadable("the body is not UTF-8"))?;
    let boundary = answer
        .header("content-type")
        .and_then(boundary)
        .ok_or_else(|| unreadable("the content type has no boundary"))?;
    let parts = responses(text, boundary)
        .ok_or_else(|| unreadable("the body is truncated or malformed"))?;
    // This check precedes the search for a refusal: with too many parts, it is not certain that the answer is to this request.
    if parts.len() > group.len() {
        return Err(unreadable(&format!(
            "the body has at least {} parts for {} operations",
            parts.len(),
            group.len()
        )));
    }
    // A refused group has one part, whatever the number of its operations.
    if let Some(refused) = parts.iter().find(|part| !(200..300).contains(&part.status)) {
        return Err(refusal(refused, answer, table, group));
    }
    if parts.len() != group.len() {
        return Err(unreadable(&format!(
            "the body has {} parts for {} operations",
            parts.len(),
            group.len()
        )));
    }
    // A status of success that the protocol does not define. A proxy may have written it, and the write may not have happened.
    if let Some(part) = parts.iter().find(|part| !SUCCESS.contains(&part.status)) {
        return Err(unreadable(&format!(
            "a part has the unexpected status {}",
            part.status
        )));
    }
    parts
        .iter()
        .zip(group.operations())
        .map(|(part, operation)| written(part, operation))
        .collect()
}

/// The statuses of successful operations.
const SUCCESS: [u16; 2] = [201, 204];

/// Returns the result of a successful operation. Only deletions have no ETag.
fn written(part: &PartResponse<'_>, operation: &Operation) -> Result<Written> {
    match operation {
        Operation::Delete(..) => Ok(Written::deleted()),
        _ => part
            .etag
            .map(|etag| Written::version(ETag::from(etag)))
            .ok_or_else(no_etag),
    }
}

/// Returns the error of a refused group: the error of the operation that the service names, or of the whole group.
fn refusal(
    part: &PartResponse<'_>,
    answer: &Answer,
    table: &TableName,
    group: &GroupTransaction,
) -> Error {
    let wait = pause(part.retry_after_ms, part.retry_after);
    let mut failure =
        Failure::of_body(part.status, part.body.as_bytes()).within(part.code, wait, answer);
    // The message of the service starts with the index of the operation: `1:The specified entity already exists.`
    // (<https://learn.microsoft.com/rest/api/storageservices/performing-entity-group-transactions>).
    let index = failure
        .take_index()
        .or_else(|| (group.len() == 1).then_some(0));
    let named = index.and_then(|index| Some((index, group.operations().get(index)?)));
    let Some((index, operation)) = named else {
        return failure.into_error(&Subject::Table(table), true);
    };
    let error = failure.into_error(&Subject::Entity(table, operation.key()), true);
    // Other errors, such as a missing table or a busy service, would repeat themselves for every operation. They are
    // reported for the group.
    if is_about_one_operation(error.kind()) {
        Error::in_transaction(index, error)
    } else {
        error
    }
}

/// Whether the error concerns a single operation, and not the table, the caller or the service.
const fn is_about_one_operation(kind: &ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::EntityNotFound { .. }
            | ErrorKind::EntityAlreadyExists { .. }
            | ErrorKind::PreconditionFailed { .. }
            | ErrorKind::Rejected(_)
            | ErrorKind::LimitExceeded { .. }
    )
}

/// Returns the error of an answer that cannot be read. The service may have committed the group, so the outcome is ambiguous.
fn unreadable(reason: &str) -> Error {
    let kind = ErrorKind::Service(format!("the answer to a group cannot be read: {reason}"));
    Error::new(kind).with_outcome(Outcome::Ambiguous)
}

/// The response to one operation: a part of the body.
#[derive(Debug)]
pub(crate) struct PartResponse<'a> {
    status: u16,
    etag: Option<&'a str>,
    code: Option<&'a str>,
    retry_after: Option<&'a str>,
    retry_after_ms: Option<&'a str>,
    body: &'a str,
}

/// Maximum nesting of multipart parts. An answer of the service nests once: the change set.
const MAX_DEPTH: usize = 4;

/// Maximum number of parts kept: one more than a group's operations, so that an excess is detected.
const MAX_PARTS: usize = limits::GROUP_OPERATIONS + 1;

/// Returns the responses of a multipart body, including those in nested parts; `None` if the body is
/// truncated or malformed.
pub(crate) fn responses<'a>(text: &'a str, boundary: &str) -> Option<Vec<PartResponse<'a>>> {
    let (mut lines, mut responses) = (Lines { text, offset: 0 }, Vec::new());
    read_parts(&mut lines, boundary, MAX_DEPTH, &mut responses).map(|()| responses)
}

/// Reads the parts of one boundary up to its closing delimiter.
fn read_parts<'a>(
    lines: &mut Lines<'a>,
    boundary: &str,
    depth: usize,
    responses: &mut Vec<PartResponse<'a>>,
) -> Option<()> {
    while let (_, Delimiter::Next) = lines.seek_delimiter(boundary)? {
        // Enough to see that there are too many. The rest of a hostile answer is not parsed.
        if responses.len() == MAX_PARTS {
            return Some(());
        }
        // A part is either a set of parts (the change set) or one response.
        match lines
            .read_header(boundary)?
            .content_type
            .and_then(self::boundary)
        {
            Some(inner) => read_parts(lines, inner, depth.checked_sub(1)?, responses)?,
            None => responses.push(read_response(lines, boundary)?),
        }
    }
    Some(())
}

fn read_response<'a>(lines: &mut Lines<'a>, boundary: &str) -> Option<PartResponse<'a>> {
    let header = lines.read_header(boundary)?;
    let status = header
        .first
        .strip_prefix("HTTP/")?
        .split_ascii_whitespace()
        .nth(1)?
        .parse()
        .ok()?;
    let from = lines.offset;
    let (to, _) = lines.seek_delimiter(boundary)?;
    // Back to the delimiter: the caller reads it and learns whether another part follows.
    lines.offset = to;
    let body = &lines.text[from..to];
    let PartHeader {
        etag,
        code,
        retry_after,
        retry_after_ms,
        ..
    } = header;
    Some(PartResponse {
        status,
        etag,
        code,
        retry_after,
        retry_after_ms,
        body,
    })
}

/// A body that is read line by line.
struct Lines<'a> {
    text: &'a str,
    /// The number of bytes read so far.
    offset: usize,
}

/// A line that separates parts.
enum Delimiter {
    Next,
    Last,
}

/// The first line of a part's header, and the fields that are used.
#[derive(Default)]
struct PartHeader<'a> {
    first: &'a str,
    content_type: Option<&'a str>,
    etag: Option<&'a str>,
    code: Option<&'a str>,
    retry_after: Option<&'a str>,
    retry_after_ms: Option<&'a str>,
}

impl<'a> PartHeader<'a> {
    #[inline]
    fn read_field(&mut self, line: &'a str) {
        self.content_type = self.content_type.or_else(|| field(line, "content-type"));
        self.etag = self.etag.or_else(|| field(line, "etag"));
        self.code = self.code.or_else(|| field(line, "x-ms-error-code"));
        self.retry_after = self.retry_after.or_else(|| field(line, "retry-after"));
        self.retry_after_ms = self
            .retry_after_ms
            .or_else(|| field(line, "x-ms-retry-after-ms"));
    }
}

impl<'a> Lines<'a> {
    /// Returns the next line without its line end; `None` after the last line.
    #[inline]
    fn line(&mut self) -> Option<&'a str> {
        let rest = self
            .text
            .get(self.offset..)
            .filter(|rest| !rest.is_empty())?;
        let line = memchr(b'\n', rest.as_bytes()).map_or(rest, |end| &rest[..end]);
        self.offset += line.len() + 1;
        Some(line.strip_suffix('\r').unwrap_or(line))
    }

    /// Skips to the next delimiter of the boundary and past it. Returns where the delimiter starts.
    fn seek_delimiter(&mut self, boundary: &str) -> Option<(usize, Delimiter)> {
        loop {
            let start = self.offset;
            if let Some(delimiter) = delimiter(self.line()?, boundary) {
                return Some((start, delimiter));
            }
        }
    }

    /// Reads a header up to the empty line at its end or up to a delimiter, which stays unread. Empty lines before the header are skipped.
    fn read_header(&mut self, boundary: &str) -> Option<PartHeader<'a>> {
        let mut header = PartHeader::default();
        loop {
            let start = self.offset;
            let line = self.line()?;
            if delimiter(line, boundary).is_some() {
                self.offset = start;
                return Some(header);
            }
            match (line, header.first) {
                ("", "") => continue,
                ("", _) => return Some(header),
                (_, "") => header.first = line,
                _ => {}
            }
            header.read_field(line);
        }
    }
}

#[inline]
fn delimiter(line: &str, boundary: &str) -> Option<Delimiter> {
    // White space may follow a boundary: <https://www.rfc-editor.org/rfc/rfc2046#section-5.1.1>. Any other text makes
    // it another, longer boundary.
    match line.strip_prefix("--")?.strip_prefix(boundary)?.trim_end() {
        "" => Some(Delimiter::Next),
        "--" => Some(Delimiter::Last),
        _ => None,
    }
}

/// Returns the value of the line if the line is the header field `name`.
#[inline]
fn field<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    if line.as_bytes().get(name.len()) != Some(&b':') {
        return None;
    }
    let (found, value) = line.split_at_checked(name.len())?;
    found.eq_ignore_ascii_case(name).then(|| value[1..].trim())
}

/// Returns the boundary that a content type declares.
fn boundary(content_type: &str) -> Option<&str> {
    let mut parameters = content_type.split(';').filter_map(|p| p.split_once('='));
    let (_, value) = parameters.find(|(name, _)| name.trim().eq_ignore_ascii_case("boundary"))?;
    Some(value.trim().trim_matches('"'))
}

/// The body of a group transaction, and its content type.
pub(crate) struct GroupBody {
    pub(crate) content_type: String,
    pub(crate) bytes: Vec<u8>,
}

impl GroupBody {
    /// Encodes a group as a multipart body: a batch with one change set, which contains a part for each operation.
    pub(crate) fn new(
        endpoint: &Endpoint,
        table: &TableName,
        group: &GroupTransaction,
    ) -> Result<Self> {
        // Random, so that no property value contains a boundary: a value with a known boundary could add operations to the group.
        let (batch, changeset) = (Uuid::new_v4(), Uuid::new_v4());
        let (batch, changeset) = (format!("batch_{batch}"), format!("changeset_{changeset}"));
        // An estimate: 1024 bytes for each operation.
        let mut bytes = Vec::with_capacity(256 + group.len() * 1024);
        push(
            &mut bytes,
            &[
                "--",
                &batch,
                "\r\nContent-Type: multipart/mixed; boundary=",
                &changeset,
                "\r\n",
            ],
        );
        let entities = EntityEncoder::default();
        let mut body = BodyWriter {
            endpoint,
            table,
            changeset,
            bytes,
            first_insert: None,
            entities,
        };
        for (index, operation) in group.operations().iter().enumerate() {
            let write = Write::new(operation, endpoint.is_cosmos)
                .map_err(|e| Error::in_transaction(index, e))?;
            body.push_part(&write);
        }
        let BodyWriter {
            changeset,
            mut bytes,
            ..
        } = body;
        push(
            &mut bytes,
            &["\r\n--", &changeset, "--\r\n--", &batch, "--\r\n"],
        );
        Ok(Self {
            content_type: format!("multipart/mixed; boundary={batch}"),
            bytes,
        })
    }
}

/// Writes the parts of a body.
struct BodyWriter<'a> {
    endpoint: &'a Endpoint,
    table: &'a TableName,
    changeset: String,
    bytes: Vec<u8>,
    /// The bytes of the first insert up to its entity. All other inserts begin with the same bytes, so they
    /// are copied.
    first_insert: Option<Range<usize>>,
    entities: EntityEncoder,
}

impl BodyWriter<'_> {
    fn push_part(&mut self, write: &Write<'_>) {
        match (&self.first_insert, write.key) {
            // The head of an insert names the table alone. The head of any other write has a key and a condition.
            (Some(insert), None) => self.bytes.extend_from_within(insert.clone()),
            (_, key) => {
                let from = self.bytes.len();
                self.push_part_header(write);
                if key.is_none() {
                    self.first_insert = Some(from..self.bytes.len());
                }
            }
        }
        if let Some(entity) = write.entity {
            self.entities.encode(entity, &mut self.bytes);
        }
    }

    fn push_part_header(&mut self, write: &Write<'_>) {
        let path = write.path(self.table);
        let out = &mut self.bytes;
        push(
            out,
            &[
                "\r\n--",
                &self.changeset,
                "\r\nContent-Type: application/http\r\n",
            ],
        );
        push(out, &["Content-Transfer-Encoding: binary\r\n\r\n"]);
        // The URL of a part is absolute, as in the service's examples
        // (<https://learn.microsoft.com/rest/api/storageservices/performing-entity-group-transactions>), and has no
        // SAS: the outer request is authorized for all of them.
        push(
            out,
            &[
                write.method.as_str(),
                " ",
                self.endpoint.root().as_str(),
                &path,
                " HTTP/1.1\r\n",
            ],
        );
        push(
            out,
            &["Accept: application/json;odata=minimalmetadata\r\nDataServiceVersion: 3.0\r\n"],
        );
        if let Some(verb) = write.x_http_method {
            push(out, &["X-HTTP-Method: ", verb, "\r\n"]);
        }
        if write.prefers_no_content() {
            push(out, &["Prefer: return-no-content\r\n"]);
        }
        if let Some(if_match) = &write.if_match {
            push(out, &["If-Match: ", if_match, "\r\n"]);
        }
        let json = if write.entity.is_some() {
            "Content-Type: application/json\r\n"
        } else {
            ""
        };
        push(out, &[json, "\r\n"]);
    }
}

fn push(out: &mut Vec<u8>, parts: &[&str]) {
    parts
        .iter()
        .for_each(|part| out.extend_from_slice(part.as_bytes()));
}
