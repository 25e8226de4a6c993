//! Charts as SVG files.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use chrono::{Days, NaiveDate};
use examples::Result;
use plotters::chart::{ChartBuilder, ChartContext};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::{
    Cartesian2d, Circle, IntoDrawingArea, IntoFont, LineSeries, RGBColor, Rectangle, SVGBackend,
    WHITE,
};
use plotters::style::Color;

use crate::answer::temperature_range;

const SIZE: (u32, u32) = (960, 480);
const BLUE: RGBColor = RGBColor(0x1f, 0x6f, 0xb2);
const INK: RGBColor = RGBColor(0x33, 0x33, 0x33);
const GRID: RGBColor = RGBColor(0xdd, 0xdd, 0xdd);

type Chart<'a> = ChartContext<'a, SVGBackend<'a>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// The texts and the axes of a chart.
struct Frame<'a> {
    title: &'a str,
    x: (&'a str, Range<f64>),
    y: (&'a str, Range<f64>),
    x_text: &'a dyn Fn(&f64) -> String,
}

/// Draws a day's temperatures. The line is interrupted at hours without an observation.
pub(crate) fn temperatures(dir: &Path, title: &str, hours: &[Option<f64>]) -> Result<()> {
    let Some((low, high)) = temperature_range(hours) else {
        return Ok(());
    };
    let frame = Frame {
        title,
        x: ("local time", -0.5..23.5),
        y: ("°F", low.floor() - 1.0..high.ceil() + 1.0),
        x_text: &|hour| format!("{hour:02.0}:00"),
    };
    draw(&file(dir, "temperatures.svg")?, &frame, |chart| {
        let points = hours
            .iter()
            .enumerate()
            .map(|(hour, degrees)| degrees.map(|c| (hour as f64, c)));
        let points: Vec<_> = points.collect();
        for run in points.split(Option::is_none) {
            chart.draw_series(LineSeries::new(
                run.iter().flatten().copied(),
                BLUE.stroke_width(2),
            ))?;
        }
        chart.draw_series(
            points
                .into_iter()
                .flatten()
                .map(|at| Circle::new(at, 4, BLUE.filled())),
        )?;
        Ok(())
    })
}

/// Draws the number of flights per day.
pub(crate) fn flights_per_day(
    dir: &Path,
    name: &str,
    title: &str,
    flights: &BTreeMap<NaiveDate, u64>,
) -> Result<()> {
    let Some((first, last)) = flights.keys().next().zip(flights.keys().next_back()) else {
        return Ok(());
    };
    let day = |date: &NaiveDate| (*date - *first).num_days() as f64;
    // Bars of a few pixels have no space for gaps.
    let half = if flights.len() > 62 { 0.5 } else { 0.4 };
    let most = flights.values().max().copied().unwrap_or_default() as f64;
    let date = |day: &f64| {
        first
            .checked_add_days(Days::new(day.max(0.0) as u64))
            .unwrap_or(*first)
    };
    let frame = Frame {
        title,
        x: ("day of departure", -0.5..day(last) + 0.5),
        y: ("flights", 0.0..most * 1.05),
        x_text: &|day| date(day).format("%-d %b").to_string(),
    };
    draw(&file(dir, name)?, &frame, |chart| {
        let bar = |(date, flights): (&NaiveDate, &u64)| {
            let corners = [(day(date) - half, 0.0), (day(date) + half, *flights as f64)];
            Rectangle::new(corners, BLUE.filled())
        };
        chart.draw_series(flights.iter().map(bar))?;
        Ok(())
    })
}

fn file(dir: &Path, name: &str) -> Result<PathBuf> {
    fs::create_dir_all(dir)?;
    Ok(dir.join(name))
}

/// Draws a frame with its axes, and the contents that `series` adds.
fn draw(
    path: &Path,
    frame: &Frame<'_>,
    series: impl FnOnce(&mut Chart<'_>) -> Result<()>,
) -> Result<()> {
    let root = SVGBackend::new(path, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(frame.title, ("sans-serif", 24).into_font().color(&INK))
        .margin(16)
        .x_label_area_size(52)
        .y_label_area_size(60)
        .build_cartesian_2d(frame.x.1.clone(), frame.y.1.clone())?;
    axes(&mut chart, frame)?;
    series(&mut chart)?;
    root.present()?;
    Ok(())
}

fn axes(chart: &mut Chart<'_>, frame: &Frame<'_>) -> Result<()> {
    let text = ("sans-serif", 15).into_font().color(&INK);
    let mut mesh = chart.configure_mesh();
    mesh.disable_x_mesh()
        .light_line_style(WHITE)
        .bold_line_style(GRID)
        .axis_style(INK);
    mesh.label_style(text.clone())
        .axis_desc_style(text)
        .x_labels(13)
        .y_labels(8);
    mesh.x_desc(frame.x.0)
        .y_desc(frame.y.0)
        .x_label_formatter(frame.x_text);
    mesh.y_label_formatter(&|value| format!("{value:.1}").trim_end_matches(".0").to_owned())
        .draw()?;
    Ok(())
}
