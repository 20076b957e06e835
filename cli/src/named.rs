//! `FILE` or `NAME=FILE`, as `--host` and `--override` take it.

use std::convert::Infallible;
use std::path::PathBuf;
use std::str::FromStr;

/// A file, and the node it is meant for where the user says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedFile {
    /// Node name.
    pub name: Option<String>,
    /// Path.
    pub file: PathBuf,
}

impl FromStr for NamedFile {
    type Err = Infallible;

    /// What stands before the first `=` is a name if it can be one; else the `=` is part of the path.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text.split_once('=') {
            Some((name, file)) if is_node_name(name) => {
                Self { name: Some(name.to_owned()), file: file.into() }
            }
            _ => Self { name: None, file: text.into() },
        })
    }
}

/// Whether a text is a DNS subdomain, as the name of a node has to be.
pub fn is_node_name(text: &str) -> bool {
    let is_label = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    };
    text.len() <= 253 && text.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, name: Option<&str>, file: &str) {
        let Ok(named) = text.parse::<NamedFile>();
        assert_eq!(named, NamedFile { name: name.map(str::to_owned), file: file.into() });
    }

    #[test]
    fn a_node_name_before_the_first_equals_sign_is_a_name() {
        check("a.yaml", None, "a.yaml");
        check("n1=a.yaml", Some("n1"), "a.yaml");
        check("n1.example=dir/a=b.yaml", Some("n1.example"), "dir/a=b.yaml");
        check("./a=b.yaml", None, "./a=b.yaml");
        check("A=b.yaml", None, "A=b.yaml");
        check("=b.yaml", None, "=b.yaml");
        check("-a=b", None, "-a=b");
    }
}
