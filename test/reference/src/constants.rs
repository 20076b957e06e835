//! String constants of a Rust file and the comments on them.

/// A constant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Constant {
    /// Its name in Rust.
    pub name: String,
    /// What it says.
    pub value: String,
    /// Its comment, on one line.
    pub meaning: String,
}

/// All constants of a file that hold a text.
pub fn of(source: &str) -> Vec<Constant> {
    let mut found = Vec::new();
    let mut comment: Vec<&str> = Vec::new();
    for line in source.lines() {
        if let Some(text) = line.strip_prefix("///") {
            comment.push(text.trim());
            continue;
        }
        if let Some((name, value)) = constant(line) {
            let meaning = comment.join(" ");
            found.push(Constant { name: name.to_owned(), value: value.to_owned(), meaning });
        }
        comment.clear();
    }
    found
}

fn constant(line: &str) -> Option<(&str, &str)> {
    let line = line.strip_prefix("pub ").unwrap_or(line);
    let (name, rest) = line.strip_prefix("const ")?.split_once(": &str = \"")?;
    Some((name, rest.strip_suffix("\";")?))
}

/// Names of constants in a comment, as rustdoc links them, replaced by what they say.
pub fn resolved(text: &str, all: &[Constant]) -> String {
    let replace = |text: String, constant: &Constant| {
        let link = format!("[`{}`]", constant.name);
        text.replace(&link, &format!("`{}`", constant.value))
    };
    all.iter().fold(text.to_owned(), replace)
}
