//! `tables plot`.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use plotters::coord::Shift;
use plotters::prelude::{
    ChartBuilder, DrawingArea, IntoDrawingArea as _, IntoFont as _, RGBColor, Rectangle,
    SVGBackend, WHITE,
};
use plotters::style::Color as _;
use serde_json::json;
use table_core::model::{TableName, Ticks};
use table_patterns::examination::{CompareEntries, Examination, TableExamination};

use crate::failure::{Failure, Result};
use crate::output::{print_json, remark};
use crate::pace::{LongArgs, until_stopped};
use crate::progress::SharedProgress;
use crate::store::{Access, OpenStore, StoreName};
use crate::target_file::TargetFile;

/// Width and height.
const PIXELS: (u32, u32) = (960, 1440);
const BLUE: RGBColor = RGBColor(0x1f, 0x6f, 0xb2);
const INK: RGBColor = RGBColor(0x33, 0x33, 0x33);
const GRID: RGBColor = RGBColor(0xdd, 0xdd, 0xdd);
/// The characters of a PartitionKey below its bar.
const LABEL_CHARS: usize = 12;
/// The bars of the largest partitions.
const PARTITION_BARS: usize = 10;

/// A part of the picture.
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
/// The labels and heights of bars.
type Bars = Vec<(String, u64)>;

/// The arguments of `tables plot`.
#[derive(Debug, Args)]
pub(crate) struct PlotArgs {
    /// The store
    store: StoreName,
    /// The table
    table: TableName,
    /// The SVG file, which is replaced if it exists
    #[arg(long, value_name = "FILE.svg", value_parser = svg)]
    to: PathBuf,
    #[command(flatten)]
    long: LongArgs,
}

fn svg(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    match path
        .extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("svg"))
    {
        true => Ok(path),
        false => Err("the picture is SVG: give a file that ends in .svg".to_owned()),
    }
}

impl PlotArgs {
    /// Reads every row once, and draws. 1 request for the manifest, and 1 per page.
    pub(crate) async fn run(&self) -> Result<()> {
        let table = &self.table;
        let work = async |open: &mut OpenStore| {
            let found = self.examined(open);
            let found =
                until_stopped(found, "no file was written: run the same command again").await?;
            Ok((found, open.meter.total()))
        };
        let (found, requests) = self
            .store
            .with_open(Access::Read, self.long.pace, work)
            .await?;
        if !found.is_complete {
            return Err(Failure::Damaged(format!(
                "a page of the table '{table}' is damaged, and no file was written: `tables doctor` says more"
            )));
        }
        let picture = draw(table.as_str(), &found).map_err(Failure::failed)?;
        TargetFile::write_whole(&self.to, picture.as_bytes())?;
        if self.long.json {
            let report = json!({
                "table": table.as_str(), "file": self.to.display().to_string(), "rows": found.rows, "bytes": found.bytes,
                "partitions": found.partitions, "sizes": found.sizes, "writes": found.writes, "requests": requests,
            });
            return print_json(&report);
        }
        if !self.long.quiet {
            remark(&format!(
                "{table}: {} rows drawn, {requests} requests",
                found.rows
            ));
        }
        Ok(())
    }

    async fn examined(&self, open: &OpenStore) -> Result<TableExamination> {
        let tables = Some(std::slice::from_ref(&self.table));
        let progress = SharedProgress::new(open.progress_of(tables, "read", self.long.quiet).await);
        let shown = progress.clone();
        let examination = Examination::new(Arc::clone(&open.store), self.table.clone())
            .with_entries(CompareEntries::None)
            .on_progress(move |rows| shown.set(rows));
        let found = examination.run().await;
        progress.end();
        Ok(found?)
    }
}

/// The result of drawing; its errors have only text.
type Drawn<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Returns the picture: the largest partitions, the partitions by rows, the rows by size, and the writes over time.
fn draw(table: &str, found: &TableExamination) -> Drawn<String> {
    let mut picture = String::new();
    {
        // The block ends the borrow of `picture`.
        let root = SVGBackend::with_string(&mut picture, PIXELS).into_drawing_area();
        root.fill(&WHITE)?;
        let [largest, partitions, sizes, writes] = root
            .split_evenly((4, 1))
            .try_into()
            .map_err(|_| "the picture was not split into four charts")?;
        let counts = &found.partitions;
        let bars = counts
            .largest
            .iter()
            .take(PARTITION_BARS)
            .map(|size| (label(&size.partition), size.rows))
            .collect();
        chart(
            &largest,
            &format!("{table}: the largest of {} partitions", counts.count),
            "rows",
            &bars,
        )?;
        let bars = counts
            .by_rows
            .iter()
            .map(|(below, partitions)| (format!("< {below}"), *partitions))
            .collect();
        chart(
            &partitions,
            "partitions by their number of rows",
            "partitions",
            &bars,
        )?;
        let bars = found
            .sizes
            .iter()
            .skip_while(|size| size.rows == 0)
            .map(|size| (bytes(size.below), size.rows))
            .collect();
        chart(&sizes, "rows by their size", "rows", &bars)?;
        chart(&writes, &title(found), "rows", &over_time(found))?;
        root.present()?;
    }
    Ok(picture)
}

fn title(found: &TableExamination) -> String {
    let interval = humantime::format_duration(std::time::Duration::from_secs(found.writes.seconds));
    format!("rows by the time of their last write, for each {interval}")
}

/// The bars of every interval, the empty ones included.
fn over_time(found: &TableExamination) -> Bars {
    let ends = found
        .writes
        .intervals
        .first()
        .zip(found.writes.intervals.last());
    let Some(((first, _), (last, _))) = ends else {
        return Bars::new();
    };
    // In ticks of 100 ns. The examination has only the intervals with writes, so the loop fills the gaps.
    let step = i64::try_from(found.writes.seconds)
        .unwrap_or(i64::MAX)
        .saturating_mul(10_000_000);
    let mut counts = found.writes.intervals.iter().peekable();
    let mut bars = Bars::new();
    let mut at = first.get();
    while at <= last.get() {
        let rows = counts
            .next_if(|(time, _)| time.get() <= at)
            .map_or(0, |(_, rows)| *rows);
        let time =
            Ticks::new(at).map(|time| time.to_datetime().format("%Y-%m-%d %H:%M:%S").to_string());
        bars.push((time.unwrap_or_default(), rows));
        at = at.saturating_add(step);
    }
    bars
}

fn bytes(below: u64) -> String {
    match below {
        0..1024 => format!("< {below} B"),
        1024..1_048_576 => format!("< {} KiB", below / 1024),
        _ => format!("< {} MiB", below / 1_048_576),
    }
}

/// The beginning of a key, in characters that every viewer shows.
fn label(key: &str) -> String {
    let shown = |c: char| {
        if c.is_alphanumeric() || "-_.:+ ".contains(c) {
            c
        } else {
            '·'
        }
    };
    let mut label: String = key.chars().take(LABEL_CHARS).map(shown).collect();
    if key.chars().nth(LABEL_CHARS).is_some() {
        label.push('…');
    }
    label
}

fn chart(area: &Area<'_>, title: &str, unit: &str, bars: &Bars) -> Drawn {
    let most = bars
        .iter()
        .map(|(_, height)| *height)
        .max()
        .unwrap_or_default()
        .max(1) as f64;
    let count = bars.len().max(1);
    let text = ("sans-serif", 14).into_font().color(&INK);
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 20).into_font().color(&INK))
        .margin(14)
        .x_label_area_size(36)
        .y_label_area_size(70)
        // The bar n reaches from n - 0.5 to n + 0.5, so that its name is below its middle.
        .build_cartesian_2d(-0.5..count as f64 - 0.5, 0.0..most * 1.05)?;
    let name = |at: &f64| {
        let is_middle = (at - at.round()).abs() < 1e-6;
        let bar = is_middle.then(|| bars.get(at.round() as usize)).flatten();
        bar.map(|(name, _)| name.clone()).unwrap_or_default()
    };
    let mut mesh = chart.configure_mesh();
    mesh.disable_x_mesh()
        .light_line_style(WHITE)
        .bold_line_style(GRID)
        .axis_style(INK);
    // A name for each bar where there is room: times are longer than the names of other bars.
    let names = if bars.len() > 25 { 6 } else { count };
    mesh.label_style(text.clone())
        .axis_desc_style(text)
        .x_labels(names)
        .y_labels(5)
        .y_desc(unit);
    mesh.x_label_formatter(&name)
        .y_label_formatter(&|value| format!("{value}"))
        .draw()?;
    let half = if bars.len() > 60 { 0.5 } else { 0.4 };
    chart.draw_series(bars.iter().enumerate().map(|(at, (_, height))| {
        let at = at as f64;
        Rectangle::new(
            [(at - half, 0.0), (at + half, *height as f64)],
            BLUE.filled(),
        )
    }))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_short_and_has_no_markup() {
        assert_eq!(label("<a>&\u{1b}\"'"), "·a·····");
        assert_eq!(label(&"x".repeat(13)), format!("{}…", "x".repeat(12)));
    }

    #[test]
    fn an_empty_table_is_drawn() {
        assert!(
            draw("Empty", &TableExamination::default())
                .unwrap()
                .starts_with("<svg")
        );
    }
}
