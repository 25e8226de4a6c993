//! Faults that `tables serve` injects, for tests of clients: `throttle=0.01,lose-answer=0.001`.

use std::str::FromStr;
use std::time::Duration;

use table_core::adapter::{Fault, FaultInjector, FaultRule};

/// Faults with their probabilities, in the order in which they are tried.
#[derive(Clone, Debug)]
pub(crate) struct Faults(Vec<FaultRule>);

/// The names of faults, for the help.
pub(crate) const FAULT_NAMES: &str = "\
Faults, each with the probability from 0 to 1 that it happens to a request:
  throttle=P        refused as busy: status 503; nothing is applied
  fail=P            refused by an error: status 500; nothing is applied
  lose-request=P    status 500 OperationTimedOut; nothing is applied
  lose-answer=P     status 500 OperationTimedOut; the request is applied
  delay=P:MS        answered after MS milliseconds
  short-page=P      a page of a query with at most one result and a continuation token";

impl Faults {
    /// Returns an injector that decides by the seed.
    pub(crate) fn injector(&self, seed: u64) -> FaultInjector {
        let injector = FaultInjector::new(seed);
        self.0.iter().for_each(|rule| injector.add(rule.clone()));
        injector
    }
}

impl FromStr for Faults {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.split(',')
            .map(parse_rule)
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

/// Parses `NAME=PROBABILITY`, or `delay=PROBABILITY:MILLISECONDS`.
fn parse_rule(text: &str) -> Result<FaultRule, String> {
    let (name, value) = text
        .trim()
        .split_once('=')
        .ok_or_else(|| format!("'{text}' has no '=': write NAME=PROBABILITY"))?;
    let (probability, millis) = match (name, value.split_once(':')) {
        ("delay", Some((probability, millis))) => (probability, millis),
        ("delay", None) => {
            return Err("a delay needs milliseconds: delay=PROBABILITY:MILLISECONDS".to_owned());
        }
        // The other faults have no time, and the zero is not used.
        _ => (value, "0"),
    };
    // No range contains NaN, which would parse as a number.
    let probability = probability.parse().ok().filter(|p| (0.0..=1.0).contains(p));
    let probability: f64 = probability
        .ok_or_else(|| format!("the probability in '{text}' is not a number from 0 to 1"))?;
    let millis = millis
        .parse()
        .map_err(|_| format!("'{text}' does not end in a number of milliseconds"))?;
    let fault = match name {
        "throttle" => Fault::Throttle { retry_after: None },
        "fail" => Fault::FailBefore,
        "lose-request" => Fault::LoseRequest,
        "lose-answer" => Fault::LoseAnswer,
        "delay" => Fault::Delay(Duration::from_millis(millis)),
        "short-page" => Fault::ShortPage(1),
        _ => {
            return Err(format!(
                "'{name}' is not a fault: use throttle, fail, lose-request, lose-answer, delay or short-page"
            ));
        }
    };
    Ok(FaultRule::new(fault).with_probability(probability))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_have_names_and_probabilities() {
        let read = |text: &str| text.parse::<Faults>();
        assert_eq!(
            read("throttle=0.5, lose-answer=1,delay=0.1:50,short-page=0")
                .unwrap()
                .0
                .len(),
            4
        );
        for (text, reason) in [
            ("throttle", "has no '='"),
            ("throttle=2", "not a number from 0 to 1"),
            ("throttle=NaN", "not a number from 0 to 1"),
            ("delay=0.1", "needs milliseconds"),
            ("delay=0.1:soon", "number of milliseconds"),
            ("explode=1", "not a fault"),
            ("", "has no '='"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
