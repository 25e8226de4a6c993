use proptest::prelude::*;

use crate::model::{EdmValue, Entity, Properties, Ticks, ValueRef};

fn value() -> impl Strategy<Value = EdmValue> {
    prop_oneof![
        any::<Vec<u8>>().prop_map(EdmValue::from),
        any::<bool>().prop_map(EdmValue::from),
        (0..=Ticks::MAX.get()).prop_map(|t| EdmValue::from(Ticks::new(t).unwrap())),
        any::<f64>().prop_map(EdmValue::from),
        any::<u128>().prop_map(|n| EdmValue::from(uuid::Uuid::from_u128(n))),
        any::<i32>().prop_map(EdmValue::from),
        any::<i64>().prop_map(EdmValue::from),
        ".*".prop_map(EdmValue::from),
    ]
}

#[derive(Clone, Debug)]
enum Step {
    Put(u8, EdmValue, bool),
    SetPlain(u8, EdmValue),
    Remove(u8),
    Merge(Vec<(u8, EdmValue)>),
    RetainUnmarked,
    Clear,
}

fn step() -> impl Strategy<Value = Step> {
    let name = 0..6_u8;
    prop_oneof![
        6 => (name.clone(), value(), any::<bool>()).prop_map(|(n, v, mark)| Step::Put(n, v, mark)),
        1 => (name.clone(), value()).prop_map(|(n, v)| Step::SetPlain(n, v)),
        2 => name.clone().prop_map(Step::Remove),
        2 => proptest::collection::vec((name, value()), 0..4).prop_map(Step::Merge),
        1 => Just(Step::RetainUnmarked),
        1 => Just(Step::Clear),
    ]
}

/// Names of different lengths; one of them is a prefix of the others.
fn name(n: u8) -> String {
    "é".repeat(usize::from(n))
}

/// The reference model: a list of pairs.
#[derive(Default)]
struct Model(Vec<(String, EdmValue, bool)>);

impl Model {
    fn put(&mut self, name: String, value: EdmValue, mark: bool) {
        match self.0.iter_mut().find(|(n, ..)| *n == name) {
            Some(found) => *found = (name, value, mark || found.2),
            None => self.0.push((name, value, mark)),
        }
    }

    fn set_plain(&mut self, name: String, value: EdmValue) {
        match self.0.iter_mut().find(|(n, ..)| *n == name) {
            Some(found) => *found = (name, value, false),
            None => self.0.push((name, value, false)),
        }
    }

    fn apply(&mut self, step: Step) {
        match step {
            Step::SetPlain(n, value) => self.set_plain(name(n), value),
            Step::Put(n, value, mark) => self.put(name(n), value, mark),
            Step::Remove(n) => self.0.retain(|(found, ..)| *found != name(n)),
            Step::Merge(patch) => patch
                .into_iter()
                .for_each(|(n, value)| self.put(name(n), value, false)),
            Step::RetainUnmarked => self.0.retain(|(.., mark)| !mark),
            Step::Clear => self.0.clear(),
        }
    }
}

fn apply(properties: &mut Properties, step: Step) {
    match step {
        Step::Put(n, value, false) => properties.set(&name(n), value),
        Step::Put(n, value, true) => properties.set_encrypted(&name(n), value),
        Step::SetPlain(n, value) => properties.set_plain(&name(n), value),
        Step::Remove(n) => {
            let there = properties.find(&name(n)).is_some();
            assert_eq!(properties.remove(&name(n)), there);
        }
        Step::Merge(patch) => {
            properties.merge(&patch.into_iter().map(|(n, v)| (name(n), v)).collect());
        }
        Step::RetainUnmarked => properties.retain(|p| !p.is_encrypted()),
        Step::Clear => properties.clear(),
    }
}

/// Compares Doubles by their bits, so that NaN is included.
fn comparable(value: ValueRef<'_>) -> String {
    if let ValueRef::Double(v) = value {
        format!("{:x}", v.to_bits())
    } else {
        format!("{value:?}")
    }
}

proptest! {
    #[test]
    fn properties_behave_like_a_list_of_pairs(steps in proptest::collection::vec(step(), 0..20)) {
        let (mut properties, mut model) = (Properties::new(), Model::default());
        for step in steps {
            apply(&mut properties, step.clone());
            model.apply(step);
        }
        prop_assert_eq!(properties.len(), model.0.len());
        prop_assert_eq!(properties.is_empty(), model.0.is_empty());
        for (found, (name, value, mark)) in properties.iter().zip(&model.0) {
            prop_assert_eq!((found.name(), found.is_encrypted()), (&**name, *mark));
            prop_assert_eq!(comparable(found.value()), comparable(value.as_ref()));
            prop_assert_eq!(properties.get(name).map(comparable), Some(comparable(value.as_ref())));
        }
        let packed = Properties::from_packed(properties.as_packed().to_vec()).unwrap();
        prop_assert_eq!(packed.into_packed(), properties.into_packed());
    }

    /// Accepted bytes can be read completely; all others are refused, without a panic or an endless loop.
    #[test]
    fn damaged_bytes_are_refused_or_readable(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        readable_if_taken(&bytes);
    }

    /// One wrong byte in valid ones gives lengths, tags and texts that are almost valid.
    #[test]
    fn flipped_bytes_are_refused_or_readable(
        values in proptest::collection::vec(value(), 1..5),
        at in any::<usize>(),
        byte in any::<u8>(),
    ) {
        let named = values.into_iter().enumerate().map(|(n, value)| (format!("N{n}"), value));
        let mut bytes = named.collect::<Properties>().into_packed();
        let at = at % bytes.len();
        bytes[at] = byte;
        readable_if_taken(&bytes);
    }

    /// Truncated bytes are refused, unless they end at the end of a property.
    #[test]
    fn truncated_bytes_are_refused(values in proptest::collection::vec(value(), 1..5), cut in any::<usize>()) {
        let (mut properties, mut ends) = (Properties::new(), vec![0]);
        for (n, value) in values.into_iter().enumerate() {
            properties.set(&format!("N{n}"), value);
            ends.push(properties.as_packed().len());
        }
        let cut = cut % properties.as_packed().len();
        let taken = Properties::from_packed(properties.as_packed()[..cut].to_vec());
        prop_assert_eq!(taken.is_ok(), ends.contains(&cut));
    }
}

fn readable_if_taken(bytes: &[u8]) {
    let Ok(taken) = Properties::from_packed(bytes.to_vec()) else {
        return;
    };
    let mut copy = Properties::new();
    taken
        .iter()
        .for_each(|p| copy.push(p.name(), p.value(), p.is_encrypted()));
    assert_eq!(copy.as_packed().len(), bytes.len());
    assert_eq!(copy.len(), taken.len());
    let _ = format!("{taken:?}");
}

/// A name that exceeds the format is cut between characters, and the following properties stay readable.
#[test]
fn overlong_names_leave_the_rest_readable() {
    let mut properties = Properties::new();
    properties.set(&"é".repeat(40_000), 1);
    properties.set("B", 2);
    assert_eq!(properties.len(), 2);
    assert_eq!(properties.get("B"), Some(ValueRef::Int32(2)));
    assert!(Properties::from_packed(properties.into_packed()).is_ok());
}

#[test]
fn marked_values_are_never_shown() {
    let mut properties = Properties::new();
    properties.set("Shown", "open");
    properties.set_encrypted("Hidden", "hunter2");
    let shown = format!(
        "{properties:?} {:?} {:?}",
        properties.find("Hidden"),
        properties.iter()
    );
    assert!(
        shown.contains("open") && shown.contains("Hidden"),
        "{shown}"
    );
    assert!(!shown.contains("hunter2"), "{shown}");
}

/// A mark is removed only by `set_plain` and `remove`.
#[test]
fn a_mark_belongs_to_the_name() {
    let marked = |properties: &Properties| properties.find("A").is_some_and(|a| a.is_encrypted());
    let mut properties = Properties::new();
    properties.set("A", 0);
    assert!(!marked(&properties));
    let patch = |mark| {
        let mut patch = Properties::new();
        patch.put("A", ValueRef::Int32(3), mark);
        patch
    };
    properties.merge(&patch(true));
    assert!(marked(&properties));
    properties.merge(&patch(false));
    properties.set("A", "of another type");
    properties.put("A", ValueRef::Int32(4), false);
    assert!(marked(&properties));
    let entity = Entity::new("p", "r").unwrap();
    assert!(marked(
        Entity::from_parts(entity.key().clone(), properties.clone())
            .with("A", 5)
            .properties()
    ));
    properties.set_plain("A", 6);
    assert!(!marked(&properties));
    properties.set_encrypted("A", 7);
    properties.remove("A");
    properties.set("A", 8);
    assert!(!marked(&properties));
}
