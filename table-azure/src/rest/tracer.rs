//! Wraps the caller's tracer: expected statuses are not reported as errors, and keys are reported only if
//! allowed.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use azure_core::http::{Context, InstrumentationOptions, Request};
use azure_core::tracing::{
    AsAny, Attribute, AttributeValue, Span, SpanGuard, SpanKind, SpanStatus, Tracer, TracerProvider,
};
use table_core::adapter::TraceKeys;

use super::hide_keys::hidden_text;

/// Statuses that programs expect: not found, already exists, condition not met. Spans with the error status
/// would be noise.
const EXPECTED_STATUSES: [u16; 3] = [404, 409, 412];

const STATUS: &str = "http.response.status_code";
const ERROR: &str = "error.type";
const URL: &str = "url.full";

/// Wraps the tracer of these options, if there is one.
pub(crate) fn wrap_tracer(options: &mut InstrumentationOptions, keys: TraceKeys) {
    if let Some(provider) = options.tracer_provider.take() {
        options.tracer_provider = Some(Arc::new(QuietProvider { provider, keys }));
    }
}

/// Wraps the tracers of a provider.
#[derive(Debug)]
struct QuietProvider {
    provider: Arc<dyn TracerProvider>,
    keys: TraceKeys,
}

/// Starts spans of the caller's tracer, without keys in their attributes unless keys are allowed.
#[derive(Debug)]
struct QuietTracer {
    tracer: Arc<dyn Tracer>,
    keys: TraceKeys,
}

/// Passes a span on, without the error status of expected HTTP statuses.
struct QuietSpan {
    span: Arc<dyn Span>,
    is_expected: AtomicBool,
}

impl TracerProvider for QuietProvider {
    fn get_tracer(
        &self,
        namespace_name: Option<&'static str>,
        crate_name: &'static str,
        crate_version: Option<&'static str>,
    ) -> Arc<dyn Tracer> {
        let tracer = self
            .provider
            .get_tracer(namespace_name, crate_name, crate_version);
        Arc::new(QuietTracer {
            tracer,
            keys: self.keys,
        })
    }
}

impl QuietTracer {
    fn attributes(&self, mut attributes: Vec<Attribute>) -> Vec<Attribute> {
        if self.keys == TraceKeys::Hidden {
            for attribute in attributes
                .iter_mut()
                .filter(|attribute| attribute.key == URL)
            {
                if let AttributeValue::String(url) = &mut attribute.value {
                    *url = hidden_text(url);
                }
            }
        }
        attributes
    }
}

impl Tracer for QuietTracer {
    fn start_span(
        &self,
        name: Cow<'static, str>,
        kind: SpanKind,
        attributes: Vec<Attribute>,
    ) -> Arc<dyn Span> {
        quiet_span(
            self.tracer
                .start_span(name, kind, self.attributes(attributes)),
        )
    }

    fn start_span_with_parent(
        &self,
        name: Cow<'static, str>,
        kind: SpanKind,
        attributes: Vec<Attribute>,
        parent: Arc<dyn Span>,
    ) -> Arc<dyn Span> {
        let attributes = self.attributes(attributes);
        quiet_span(
            self.tracer
                .start_span_with_parent(name, kind, attributes, parent),
        )
    }

    fn namespace(&self) -> Option<&'static str> {
        self.tracer.namespace()
    }
}

fn quiet_span(span: Arc<dyn Span>) -> Arc<dyn Span> {
    Arc::new(QuietSpan {
        span,
        is_expected: AtomicBool::new(false),
    })
}

/// Returns the caller's own span, because its tracer looks for that type in a parent.
impl AsAny for QuietSpan {
    fn as_any(&self) -> &dyn std::any::Any {
        self.span.as_any()
    }
}

impl Span for QuietSpan {
    fn is_recording(&self) -> bool {
        self.span.is_recording()
    }

    fn span_id(&self) -> [u8; 8] {
        self.span.span_id()
    }

    fn end(&self) {
        self.span.end();
    }

    /// The HTTP status attribute is set before the span's status.
    fn set_status(&self, status: SpanStatus) {
        if !self.is_expected.load(Ordering::Relaxed) {
            self.span.set_status(status);
        }
    }

    fn set_attribute(&self, key: &'static str, value: AttributeValue) {
        if key == STATUS
            && EXPECTED_STATUSES
                .iter()
                .any(|status| value == i64::from(*status))
        {
            self.is_expected.store(true, Ordering::Relaxed);
        }
        if key == ERROR
            && EXPECTED_STATUSES
                .iter()
                .any(|status| value == status.to_string().as_str())
        {
            return;
        }
        self.span.set_attribute(key, value);
    }

    fn record_error(&self, error: &dyn std::error::Error) {
        self.span.record_error(error);
    }

    fn set_current(&self, context: &Context<'_>) -> Box<dyn SpanGuard> {
        self.span.set_current(context)
    }

    fn propagate_headers(&self, request: &mut Request) {
        self.span.propagate_headers(request);
    }
}
