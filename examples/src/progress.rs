//! Progress on a terminal: bars and spinners on standard error, if that is a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Creates a bar with a known number of items.
pub fn bar(name: &str, items: usize) -> ProgressBar {
    let style = "{prefix:>12} {bar:40} {human_pos:>7}/{human_len} {per_sec:>12} {msg}";
    with_style(ProgressBar::new(items as u64), name, style)
}

/// Creates a spinner, for an unknown number of items. It turns until it is abandoned.
pub fn spinner(name: &str) -> ProgressBar {
    let spinner = with_style(
        ProgressBar::new_spinner(),
        name,
        "{prefix:>12} {spinner} {human_pos:>9} {per_sec:>14} {msg}",
    );
    spinner.enable_steady_tick(Duration::from_millis(200));
    spinner
}

fn with_style(bar: ProgressBar, name: &str, template: &str) -> ProgressBar {
    let style =
        ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    bar.with_prefix(name.to_owned()).with_style(style)
}
