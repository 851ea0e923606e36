//! How many worlds are done, for whoever looks.

use indicatif::{ProgressBar, ProgressStyle};

use crate::output::Output;

pub(super) fn bar(worlds: u64, output: &Output) -> ProgressBar {
    if !output.shows_progress() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} worlds, {eta} left")
        .expect("the template is valid");
    ProgressBar::new(worlds).with_style(style)
}
