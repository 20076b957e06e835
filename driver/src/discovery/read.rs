//! Typed reading: what cannot be read or made sense of becomes a problem, and the rest stands.

use super::facts::Problem;
use super::host::{Host, HostError, RealPath, realpath_from};

/// Reads from a host and gathers the problems.
pub(super) struct Reader<'a> {
    host: &'a dyn Host,
    /// The path that was resolved last.
    last: RealPath,
    problems: Vec<Problem>,
}

/// How a text was understood: a value, the kernel's word for "unknown", or nonsense.
pub(super) enum Parsed<T> {
    Value(T),
    Unknown,
    Malformed,
}

impl<T> Parsed<T> {
    /// Nonsense where there is no value.
    pub(super) fn or_malformed(value: Option<T>) -> Self {
        value.map_or(Self::Malformed, Self::Value)
    }
}

impl<'a> Reader<'a> {
    pub(super) fn new(host: &'a dyn Host) -> Self {
        Self { host, last: RealPath::root(), problems: Vec::new() }
    }

    /// The problems, sorted, each once.
    pub(super) fn into_problems(mut self) -> Vec<Problem> {
        self.problems.sort();
        self.problems.dedup();
        self.problems
    }

    pub(super) fn problem(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.problems.push(Problem { path: path.into(), message: message.into() });
    }

    pub(super) fn add_problems(&mut self, problems: impl IntoIterator<Item = Problem>) {
        self.problems.extend(problems);
    }

    /// The directory or file that a path means; `None` with a problem when its links do not end.
    pub(super) fn real(&mut self, path: &str) -> Option<RealPath> {
        self.real_below(&RealPath::root(), path)
    }

    /// The same from a resolved directory.
    pub(super) fn real_below(&mut self, directory: &RealPath, path: &str) -> Option<RealPath> {
        let real = realpath_from(self.host, directory, path, &self.last);
        let real = self.keep(|| directory.child(path), real)?;
        self.last.clone_from(&real);
        Some(real)
    }

    /// Names in a directory, sorted; none when it is missing.
    pub(super) fn names(&mut self, directory: &RealPath) -> Vec<String> {
        let names = self.host.names(directory.as_str());
        self.keep(|| directory.as_str().to_owned(), names).unwrap_or_default()
    }

    /// Names in a directory below a resolved one, and its own real path.
    pub(super) fn names_below(
        &mut self,
        directory: &RealPath,
        path: &str,
    ) -> Option<(RealPath, Vec<String>)> {
        let real = self.real_below(directory, path)?;
        let names = self.names(&real);
        Some((real, names))
    }

    /// Last component of what a link points at, without following it: the target may be missing.
    pub(super) fn link_name(&mut self, directory: &RealPath, name: &str) -> Option<String> {
        let path = directory.child(name);
        let target = self.host.link(&path);
        let target = self.keep(|| path, target)??;
        target.rsplit('/').find(|component| !component.is_empty()).map(str::to_owned)
    }

    /// The path is a link.
    pub(super) fn is_link(&self, directory: &RealPath, name: &str) -> bool {
        matches!(self.host.link(&directory.child(name)), Ok(Some(_)))
    }

    /// Content of a file; `None` when it is missing, with a problem when it cannot be read.
    pub(super) fn bytes(&mut self, directory: &RealPath, name: &str) -> Option<Vec<u8>> {
        let content = self.content(directory, name);
        self.keep(|| directory.child(name), content)
    }

    /// Content of a file that the kernel often refuses to read, without a word about that.
    pub(super) fn quiet_text(&mut self, directory: &RealPath, name: &str) -> Option<String> {
        let content = self.content(directory, name).ok()?;
        let text = String::from_utf8(content).ok()?;
        Some(text.trim().to_owned())
    }

    /// Trimmed text of a file; `None` when it is missing or empty.
    pub(super) fn text(&mut self, directory: &RealPath, name: &str) -> Option<String> {
        let content = self.bytes(directory, name)?;
        match String::from_utf8(content) {
            Ok(text) => Some(text.trim().to_owned()).filter(|text| !text.is_empty()),
            Err(_) => {
                self.problem(directory.child(name), "expected UTF-8 text");
                None
            }
        }
    }

    /// A value that is ordinarily absent on some machines: no problem when the file is missing.
    pub(super) fn optional<T>(
        &mut self,
        directory: &RealPath,
        name: &str,
        expected: &str,
        parse: impl Fn(&str) -> Parsed<T>,
    ) -> Option<T> {
        match self.content(directory, name) {
            Err(HostError::Missing) => None,
            content => self.parsed(|| directory.child(name), expected, content, parse),
        }
    }

    /// A value that every machine has: a problem when the file is missing.
    pub(super) fn required<T>(
        &mut self,
        directory: &RealPath,
        name: &str,
        expected: &str,
        parse: impl Fn(&str) -> Parsed<T>,
    ) -> Option<T> {
        let content = self.content(directory, name);
        self.parsed(|| directory.child(name), expected, content, parse)
    }

    /// The host, for what is not a file.
    pub(super) fn host(&self) -> &'a dyn Host {
        self.host
    }

    fn content(&self, directory: &RealPath, name: &str) -> Result<Vec<u8>, HostError> {
        // Nearly every name in a resolved directory is a file and no link.
        if !name.contains('/') {
            match self.host.file(&directory.child(name)) {
                Err(HostError::NotA(_)) => {}
                content => return content,
            }
        }
        let real = realpath_from(self.host, directory, name, &self.last)?;
        self.host.file(real.as_str())
    }

    /// The path is for a problem, which is rare.
    fn parsed<T>(
        &mut self,
        path: impl FnOnce() -> String,
        expected: &str,
        content: Result<Vec<u8>, HostError>,
        parse: impl Fn(&str) -> Parsed<T>,
    ) -> Option<T> {
        let content = match content {
            Ok(content) => content,
            Err(error) => {
                self.problem(path(), format!("expected {expected}: {error}"));
                return None;
            }
        };
        let text = String::from_utf8_lossy(&content);
        match parse(text.trim()) {
            Parsed::Value(value) => Some(value),
            Parsed::Unknown => None,
            Parsed::Malformed => {
                self.problem(path(), format!("expected {expected}, found {}", shown(text.trim())));
                None
            }
        }
    }

    fn keep<T>(
        &mut self,
        path: impl FnOnce() -> String,
        result: Result<T, HostError>,
    ) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(HostError::Missing) => None,
            Err(error) => {
                self.problem(path(), error.to_string());
                None
            }
        }
    }
}

/// A found text for a message: quoted, at most 40 characters.
pub(super) fn shown(text: &str) -> String {
    let start: String = text.chars().take(40).collect();
    let dots = if start.len() < text.len() { "…" } else { "" };
    format!("{start:?}{dots}")
}
