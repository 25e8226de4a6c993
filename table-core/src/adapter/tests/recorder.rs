use std::collections::{BTreeMap, HashMap};
use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{DefaultGuard, set_default};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

/// The traces of this thread.
#[derive(Clone, Default)]
pub(super) struct Traces {
    events: Arc<Mutex<Vec<String>>>,
    spans: Arc<Mutex<Spans>>,
}

type Fields = BTreeMap<&'static str, String>;

#[derive(Default)]
struct Spans {
    fields: Vec<Fields>,
    by_id: HashMap<Id, usize>,
}

/// Records until the guard is dropped.
pub(super) fn record() -> (Traces, DefaultGuard) {
    let traces = Traces::default();
    let guard = set_default(tracing_subscriber::registry().with(traces.clone()));
    (traces, guard)
}

impl Traces {
    /// Returns the events as `LEVEL field=value …`.
    pub(super) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.events.lock().unwrap())
    }

    /// Returns the fields of the last span, and its name as `span`.
    pub(super) fn last_span(&self) -> Fields {
        self.spans
            .lock()
            .unwrap()
            .fields
            .last()
            .cloned()
            .unwrap_or_default()
    }
}

struct Visitor<'a>(&'a mut Fields);

impl Visit for Visitor<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }
}

impl<S: Subscriber> Layer<S> for Traces {
    fn on_new_span(&self, span: &Attributes<'_>, id: &Id, _: Context<'_, S>) {
        let mut fields = Fields::from([("span", span.metadata().name().to_owned())]);
        span.record(&mut Visitor(&mut fields));
        let spans = &mut *self.spans.lock().unwrap();
        spans.by_id.insert(id.clone(), spans.fields.len());
        spans.fields.push(fields);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: Context<'_, S>) {
        let spans = &mut *self.spans.lock().unwrap();
        values.record(&mut Visitor(&mut spans.fields[spans.by_id[id]]));
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut fields = Fields::new();
        event.record(&mut Visitor(&mut fields));
        let mut line = event.metadata().level().to_string();
        fields
            .iter()
            .for_each(|(name, value)| write!(line, " {name}={value}").unwrap());
        self.events.lock().unwrap().push(line);
    }
}
