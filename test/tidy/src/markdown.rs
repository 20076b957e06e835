//! What a page in Markdown points to.

/// Below it lie the pages.
const DOCS: &str = "docs/";

/// Targets of links to files, without their anchors; addresses of the web are left out, and code.
pub fn links(text: &str) -> Vec<String> {
    // Every second part stands between backticks.
    let text: String = text.split('`').step_by(2).collect();
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    let targets = targets.map(|(target, _)| target.split('#').next().unwrap_or_default());
    let files = targets.filter(|target| !target.is_empty() && !target.contains("://"));
    files.map(str::to_owned).collect()
}

/// Words like `docs/user/cli.md`; a pattern such as `docs/*.md` is none.
pub fn paths(text: &str) -> Vec<String> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || "-_./*…".contains(letter);
    let words = text.split(|letter| !is_part(letter));
    let words = words.filter(|word| word.starts_with(DOCS) && !word.contains(['*', '…']));
    words.map(|word| word.trim_end_matches(['.', '/']).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_paths_are_found() {
        let text = "See [a](../b.md#c), [d](#e), [f](https://g/h) and `docs/user/x.md`. Not docs/*.md, `[x](y)`.";
        assert_eq!(links(text), ["../b.md"]);
        assert_eq!(paths(text), ["docs/user/x.md"]);
        assert_eq!(paths("mydocs/user/x.md"), Vec::<String>::new());
    }
}
