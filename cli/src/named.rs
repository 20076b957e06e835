//! `FILE` or `NAME=FILE`, as `--host` and `--override` take it.

use std::path::PathBuf;
use std::str::FromStr;

use lanemate_api::validation::format::is_dns_subdomain;

/// A file, and the node it is meant for where the user says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedFile {
    /// Node name.
    pub name: Option<String>,
    /// Path.
    pub file: PathBuf,
}

/// A text that names no file.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a file")]
pub struct NoFile;

impl FromStr for NamedFile {
    type Err = NoFile;

    /// What stands before the first `=` is a name if it can be one; else the `=` is part of the path.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, file) = match text.split_once('=') {
            Some((name, file)) if is_dns_subdomain(name) => (Some(name.to_owned()), file),
            _ => (None, text),
        };
        if file.is_empty() { Err(NoFile) } else { Ok(Self { name, file: file.into() }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, name: Option<&str>, file: &str) {
        let expect = NamedFile { name: name.map(str::to_owned), file: file.into() };
        assert_eq!(text.parse::<NamedFile>(), Ok(expect));
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
        assert_eq!("".parse::<NamedFile>(), Err(NoFile));
        assert_eq!("n1=".parse::<NamedFile>(), Err(NoFile));
    }
}
