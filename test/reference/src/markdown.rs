//! Pages and tables in Markdown.

/// What stands below the title of each page.
const ORIGIN: &str =
    "Made from the code: `UPDATE_GOLDEN=1 cargo test -p lanemate-reference` writes it anew.";

/// A page with its title, an introduction and the rest.
pub fn page(title: &str, introduction: &str, rest: &str) -> String {
    format!("# {title}\n\n{introduction}\n\n{ORIGIN}\n\n{}\n", rest.trim_end())
}

/// A table; cells are Markdown already, but for the bars.
pub fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut text = line(head.iter().map(|cell| (*cell).to_owned()).collect());
    text += &format!("|{}\n", "---|".repeat(head.len()));
    for row in rows {
        text += &line(row.iter().map(|cell| one_line(cell).replace('|', "\\|")).collect());
    }
    text
}

/// A text of which nothing is Markdown, outside of code.
pub fn plain(text: &str) -> String {
    // Every second part stands between backticks.
    let parts = text.split('`').enumerate();
    let escaped = parts.map(|(index, part)| match index % 2 {
        0 => part.replace('<', "\\<").replace('*', "\\*"),
        _ => part.to_owned(),
    });
    escaped.collect::<Vec<_>>().join("`")
}

/// As code; nothing stays nothing.
pub fn code(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("`{text}`") }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
