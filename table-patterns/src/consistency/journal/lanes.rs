//! Work on rows, in lanes: the lanes run at the same time, and the work of one lane in its order.

use std::collections::{BTreeMap, BTreeSet};

use crate::entry::Location;

/// Puts numbered work into lanes. Work on the same row is in the same lane, in the order in which it was given.
pub(super) fn lanes<T>(work: impl IntoIterator<Item = (usize, Vec<Location>, T)>) -> Vec<Vec<(usize, T)>> {
    let mut lanes: Vec<Vec<(usize, T)>> = Vec::new();
    let mut lane_of: BTreeMap<Location, usize> = BTreeMap::new();
    for (number, rows, work) in work {
        let mut found =
            rows.iter().filter_map(|row| lane_of.get(row).copied()).collect::<BTreeSet<_>>().into_iter();
        let lane = found.next().unwrap_or(lanes.len());
        if lane == lanes.len() {
            lanes.push(Vec::new());
        }
        // The work needs rows of several lanes, so from now on these are one lane.
        for other in found {
            let moved = std::mem::take(&mut lanes[other]);
            lanes[lane].extend(moved);
            lane_of.values_mut().filter(|of| **of == other).for_each(|of| *of = lane);
        }
        lanes[lane].push((number, work));
        lane_of.extend(rows.into_iter().map(|row| (row, lane)));
    }
    // Only now: `lane_of` refers to lanes by position, so an emptied lane had to keep its place.
    lanes.retain(|lane| !lane.is_empty());
    for lane in &mut lanes {
        // A lane that has absorbed others has their work at its end.
        lane.sort_by_key(|(number, _)| *number);
    }
    lanes
}

#[cfg(test)]
mod tests {
    use table_core::model::{Key, TableName};
    use table_core::store::Result;

    use super::*;

    fn row(name: &str) -> Result<Location> {
        Ok(Location { table: TableName::new("Cities")?, key: Key::new(name, "")? })
    }

    #[test]
    fn work_on_one_row_keeps_its_order() -> Result<()> {
        let all = [vec!["a"], vec!["b"], vec!["c", "d"], vec!["a", "b"], vec!["d"], vec![]];
        let all: Vec<Vec<_>> =
            all.into_iter().map(|rows| rows.into_iter().map(row).collect()).collect::<Result<_>>()?;
        let numbered = all.into_iter().enumerate().map(|(number, rows)| (number, rows, ()));
        let numbers: Vec<Vec<_>> = lanes(numbered)
            .into_iter()
            .map(|lane| lane.into_iter().map(|(number, ())| number).collect())
            .collect();
        assert_eq!(numbers, [vec![0, 1, 3], vec![2, 4], vec![5]]);
        Ok(())
    }
}
