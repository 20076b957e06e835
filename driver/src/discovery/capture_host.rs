//! A captured machine as a host to discover.

use std::collections::{BTreeMap, BTreeSet};

use super::capture::HostCapture;
use super::facts::DeviceNode;
use super::host::{Host, HostError, MAX_ENTRIES, MAX_FILE_BYTES};

/// A captured machine as a host. Directories are implied by their entries.
#[derive(Clone, Debug, Default)]
pub struct CaptureHost<'a> {
    entries: BTreeMap<Key<'a>, Entry<'a>>,
}

/// A path after its length: long paths that begin alike are told apart without reading them.
type Key<'a> = (usize, &'a str);

/// What is at a path.
#[derive(Clone, Debug)]
enum Entry<'a> {
    File(&'a [u8]),
    Link(&'a str),
    Device(DeviceNode),
    Directory(BTreeSet<&'a str>),
}

impl<'a> CaptureHost<'a> {
    pub(super) fn new(capture: &'a HostCapture) -> Self {
        let mut host = Self::default();
        for (path, content) in &capture.files {
            host.insert(path, Entry::File(content));
        }
        for (path, target) in &capture.links {
            host.insert(path, Entry::Link(target));
        }
        for (path, node) in &capture.devices {
            host.insert(path, Entry::Device(*node));
        }
        host
    }

    /// Adds an entry, and its name to the directories above up to the first that is known already,
    /// at the latest the root.
    fn insert(&mut self, path: &'a str, entry: Entry<'a>) {
        self.entries.insert((path.len(), path), entry);
        let mut below = path;
        loop {
            let (parent, name) = below.rsplit_once('/').unwrap_or(("", below));
            let known = self.entries.contains_key(&(parent.len(), parent));
            let directory = self.entries.entry((parent.len(), parent));
            if let Entry::Directory(names) =
                directory.or_insert_with(|| Entry::Directory(BTreeSet::new()))
            {
                names.insert(name);
            }
            if known || parent.is_empty() {
                break;
            }
            below = parent;
        }
    }

    fn entry<'b>(&'b self, path: &'b str) -> Option<&'b Entry<'b>> {
        self.entries.get(&(path.len(), path))
    }
}

impl Host for CaptureHost<'_> {
    fn file(&self, path: &str) -> Result<Vec<u8>, HostError> {
        match self.entry(path) {
            Some(Entry::File(content)) if content.len() > MAX_FILE_BYTES => {
                Err(HostError::TooLarge)
            }
            Some(Entry::File(content)) => Ok(content.to_vec()),
            Some(_) => Err(HostError::NotA("file")),
            None => Err(HostError::Missing),
        }
    }

    fn link(&self, path: &str) -> Result<Option<String>, HostError> {
        Ok(match self.entry(path) {
            Some(Entry::Link(target)) => Some((*target).to_owned()),
            _ => None,
        })
    }

    fn names(&self, path: &str) -> Result<Vec<String>, HostError> {
        match self.entry(path) {
            Some(Entry::Directory(names)) if names.len() > MAX_ENTRIES => {
                Err(HostError::TooManyEntries)
            }
            Some(Entry::Directory(names)) => {
                Ok(names.iter().map(|&name| name.to_owned()).collect())
            }
            _ => Err(HostError::Missing),
        }
    }

    fn device(&self, path: &str) -> Result<DeviceNode, HostError> {
        match self.entry(path) {
            Some(Entry::Device(node)) => Ok(*node),
            Some(_) => Err(HostError::NotA("device node")),
            None => Err(HostError::Missing),
        }
    }

    fn exists(&self, path: &str) -> bool {
        self.entry(path).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_implied_by_their_entries() {
        let mut capture = HostCapture::new("n");
        capture.files.insert("a/b/c".to_owned(), b"x".to_vec());
        capture.links.insert("a/l".to_owned(), "b".to_owned());
        let host = capture.host();
        assert_eq!(host.names("").unwrap(), ["a"]);
        assert_eq!(host.names("a").unwrap(), ["b", "l"]);
        assert_eq!(host.names("a/b").unwrap(), ["c"]);
        assert_eq!(host.names("a/b/c"), Err(HostError::Missing));
        assert_eq!(host.file("a/b"), Err(HostError::NotA("file")));
        assert_eq!(host.file("z"), Err(HostError::Missing));
        assert_eq!(host.link("a/l"), Ok(Some("b".to_owned())));
        assert_eq!(host.link("a/b/c"), Ok(None));
        assert_eq!(host.device("a/b/c"), Err(HostError::NotA("device node")));
        assert_eq!((host.exists("a/b"), host.exists("a/c")), (true, false));
    }
}
