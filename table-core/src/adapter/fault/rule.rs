use fastrand::Rng;

use super::Fault;
use crate::adapter::call::Call;
use crate::model::TableName;
use crate::store::OperationKind;

/// Which requests a [`Fault`] happens to, and when.
///
/// A new rule applies to every request that the fault can happen to. Narrow it with the methods.
///
/// ```
/// use table_core::adapter::{Fault, FaultRule};
/// use table_core::store::OperationKind;
/// // The answers to the second and fourth insert are lost.
/// let rule = FaultRule::new(Fault::LoseAnswer).on(OperationKind::Insert).every(2).times(2);
/// ```
#[derive(Clone, Debug)]
pub struct FaultRule {
    fault: Fault,
    kinds: Vec<OperationKind>,
    table: Option<TableName>,
    when: When,
    times: u64,
}

#[derive(Clone, Copy, Debug)]
enum When {
    Every(u64),
    Nth(u64),
    Chance(f64),
}

impl FaultRule {
    /// Creates a rule for this fault.
    pub const fn new(fault: Fault) -> Self {
        Self { fault, kinds: Vec::new(), table: None, when: When::Every(1), times: u64::MAX }
    }

    /// Applies only to this kind of request. Call it repeatedly for several kinds.
    #[must_use]
    pub fn on(mut self, kind: OperationKind) -> Self {
        self.kinds.push(kind);
        self
    }

    /// Applies only to requests to this table, compared without case.
    #[must_use]
    pub fn in_table(mut self, table: TableName) -> Self {
        self.table = Some(table);
        self
    }

    /// Applies only to the `n`th matching request, starting at 1.
    #[must_use]
    pub const fn nth(mut self, n: u64) -> Self {
        self.when = When::Nth(n);
        self
    }

    /// Applies only to every `k`th matching request: 1 is each, 0 is none.
    #[must_use]
    pub const fn every(mut self, k: u64) -> Self {
        self.when = When::Every(k);
        self
    }

    /// Applies to each matching request with this probability, from 0 to 1, by the injector's seed.
    #[must_use]
    pub const fn with_probability(mut self, probability: f64) -> Self {
        self.when = When::Chance(probability);
        self
    }

    /// Applies at most this many times.
    #[must_use]
    pub const fn times(mut self, times: u64) -> Self {
        self.times = times;
        self
    }

    fn fits(&self, call: &Call<'_>) -> bool {
        let named = |table: &TableName| {
            call.table.is_some_and(|called| called.as_str().eq_ignore_ascii_case(table.as_str()))
        };
        self.fault.can_happen_to(call.kind)
            && (self.kinds.is_empty() || self.kinds.contains(&call.kind))
            && self.table.as_ref().is_none_or(named)
    }
}

/// A rule with the counts of its matches and faults.
#[derive(Debug)]
pub(super) struct ActiveRule {
    rule: FaultRule,
    /// The number of requests that the rule fits.
    fitted: u64,
    /// The number of those that got the fault.
    struck: u64,
}

impl ActiveRule {
    pub(super) const fn new(rule: FaultRule) -> Self {
        Self { rule, fitted: 0, struck: 0 }
    }

    /// Returns the fault if the rule applies to this request.
    pub(super) fn strike(&mut self, call: &Call<'_>, rng: &mut Rng) -> Option<Fault> {
        if self.struck == self.rule.times || !self.rule.fits(call) {
            return None;
        }
        self.fitted += 1;
        let now = match self.rule.when {
            When::Every(k) => k > 0 && self.fitted.is_multiple_of(k),
            When::Nth(n) => self.fitted == n,
            When::Chance(probability) => rng.f64() < probability,
        };
        self.struck += u64::from(now);
        now.then_some(self.rule.fault)
    }
}
