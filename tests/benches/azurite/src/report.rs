use crate::measure::{Cost, Operation};
use crate::median::median;

/// The costs of every round, by client.
pub(crate) struct Costs {
    sides: Vec<&'static str>,
    rounds: Vec<Vec<Cost>>,
}

impl Costs {
    pub(crate) fn new(sides: &[&'static str]) -> Self {
        Self {
            sides: sides.to_vec(),
            rounds: vec![Vec::new(); sides.len()],
        }
    }

    pub(crate) fn add(&mut self, side: usize, cost: Cost) {
        self.rounds[side].push(cost);
    }

    fn median(&self, side: usize, of: impl Fn(&Cost) -> f64) -> f64 {
        median(self.rounds[side].iter().map(of).collect())
    }
}

/// Prints a table of medians, and their ratios to the hand-written client.
pub(crate) fn print(operation: Operation, costs: &Costs) {
    println!(
        "\n{}\n\n| client | CPU s per 1,000 | to hand-written | per s |\n|---|---|---|---|",
        operation.name()
    );
    let base = costs.sides.iter().position(|side| *side == "direct");
    for (index, side) in costs.sides.iter().enumerate() {
        let cpu = costs.median(index, |cost| cost.cpu);
        let ratio = base.map(|base| cpu / costs.median(base, |cost| cost.cpu));
        let ratio = ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}"));
        println!(
            "| {side} | {cpu:.5} | {ratio} | {:.0} |",
            costs.median(index, |cost| cost.rate)
        );
    }
}
