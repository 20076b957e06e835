//! The page of taints, labels and other names that appear in a cluster.

use crate::markdown::{code, page, table};
use crate::{constants, repository};

const SOURCE: &str = "api/src/names.rs";

/// The page.
///
/// # Errors
/// When the source cannot be read.
pub fn render() -> Result<String, String> {
    let all = constants::of(&repository::read(SOURCE)?);
    let row = |constant: &constants::Constant| {
        vec![code(&constant.value), constants::resolved(&constant.meaning, &all)]
    };
    let rows: Vec<Vec<String>> = all.iter().map(row).collect();
    Ok(page(
        "Taints, labels and names",
        "Every name of ours that appears in a cluster. What each taint means for pods and nodes: \
         [operations](../operations.md#taints).",
        &table(&["name", "what it is"], &rows),
    ))
}
