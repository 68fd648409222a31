//! The figures as JSON, for the page: `docs/metrics.md` says what is in it.

use super::figures::Figures;

/// The text of `/stats.json`.
pub fn text(figures: &Figures) -> String {
    serde_json::to_string(figures).expect("the figures have texts for keys and no broken number")
}
