//! The only window on the machine: reads below a given root, live or captured, and one resolver of
//! links that never leaves it.
// The core is free of IO; this file is the place where discovery touches the file system.
#![allow(clippy::disallowed_methods)]

use std::borrow::Cow;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::PathBuf;

use super::facts::DeviceNode;

/// Largest file that is read. Kernel attributes are one page, binary ones (VPD) up to 32 KiB,
/// routing tables some 100 KiB.
pub const MAX_FILE_BYTES: usize = 1 << 20;
/// Most entries of one directory: a PCI segment cannot hold more functions (256 buses x 32 x 8).
pub const MAX_ENTRIES: usize = 65_536;
/// Most links on the way to one file, as in the kernel.
pub const MAX_LINKS: usize = 40;
/// Longest path in bytes, as in the kernel.
pub const MAX_PATH_BYTES: usize = 4096;

/// What can be asked of a machine. Paths are relative to its root, without a leading slash, and
/// free of links: callers resolve them with [`realpath`] first (only the last component of `link`
/// may be one).
pub trait Host {
    /// Content of a regular file of at most [`MAX_FILE_BYTES`].
    fn file(&self, path: &str) -> Result<Vec<u8>, HostError>;
    /// Target of a link as written; `None` when there is no link at the path.
    fn link(&self, path: &str) -> Result<Option<String>, HostError>;
    /// Names in a directory, sorted; at most [`MAX_ENTRIES`]. Names that are not UTF-8 are left
    /// out.
    fn names(&self, path: &str) -> Result<Vec<String>, HostError>;
    /// Kind and numbers of a device node.
    fn device(&self, path: &str) -> Result<DeviceNode, HostError>;
    /// Something is at the path.
    fn exists(&self, path: &str) -> bool;
}

/// Why something could not be read. The path stands beside it, in the problem.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum HostError {
    /// Nothing is there.
    #[error("not there")]
    Missing,
    /// The file is too large.
    #[error("larger than {MAX_FILE_BYTES} bytes")]
    TooLarge,
    /// The directory is too large.
    #[error("more than {MAX_ENTRIES} entries")]
    TooManyEntries,
    /// Probably a loop.
    #[error("more than {MAX_LINKS} links on the way")]
    TooManyLinks,
    /// The path is too long.
    #[error("path longer than {MAX_PATH_BYTES} bytes")]
    PathTooLong,
    /// Another kind of entry than asked for.
    #[error("not a {0}")]
    NotA(&'static str),
    /// What the operating system says.
    #[error("{0}")]
    Io(String),
}

impl HostError {
    fn from_io(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Self::Missing,
            _ => Self::Io(error.to_string()),
        }
    }
}

/// A path below the root in which every link is followed. The thing itself may be missing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RealPath(String);

impl RealPath {
    /// The root itself.
    pub(super) fn root() -> Self {
        Self(String::new())
    }

    /// Relative to the root, without a leading slash; empty for the root itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The components, outermost first.
    pub fn components(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.0.split('/').filter(|component| !component.is_empty())
    }

    /// A path is this one or a directory on the way to it: it has no links either.
    fn leads_through(&self, path: &str) -> bool {
        self.0.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// The path of a name below, not resolved.
    pub fn child(&self, name: &str) -> String {
        let mut path = String::with_capacity(self.0.len() + 1 + name.len());
        path.push_str(&self.0);
        if !path.is_empty() {
            path.push('/');
        }
        path.push_str(name);
        path
    }
}

/// Follows every link of a path from the root, at most [`MAX_LINKS`]. Absolute targets are taken
/// below the root, and `..` stops at the root. What a dangling link names is the answer: only
/// reading it fails.
pub fn realpath(host: &dyn Host, path: &str) -> Result<RealPath, HostError> {
    let root = RealPath::root();
    realpath_from(host, &root, path, &root)
}

/// The same, from a directory that is resolved already. What leads to `known` is not asked for
/// again: paths that follow each other share most of their way.
pub(super) fn realpath_from(
    host: &dyn Host,
    directory: &RealPath,
    path: &str,
    known: &RealPath,
) -> Result<RealPath, HostError> {
    let mut real = if path.starts_with('/') { String::new() } else { directory.0.clone() };
    let mut rest = Cow::Borrowed(path);
    let mut at = 0;
    let mut links = 0;
    // Each round takes a component off `rest`, which grows by a bounded target at most 40 times.
    while let Some(ahead) = rest.get(at..).filter(|ahead| !ahead.is_empty()) {
        let component = ahead.split('/').next().unwrap_or_default();
        let (parent, length) = (real.len(), component.len());
        at += length + 1;
        match component {
            "" | "." => continue,
            ".." => {
                real.truncate(real.rfind('/').unwrap_or(0));
                continue;
            }
            name => {
                if !real.is_empty() {
                    real.push('/');
                }
                real.push_str(name);
            }
        }
        if real.len() + ahead.len() - length > MAX_PATH_BYTES {
            return Err(HostError::PathTooLong);
        }
        if known.leads_through(&real) {
            continue;
        }
        let Some(target) = host.link(&real)? else { continue };
        links += 1;
        if links > MAX_LINKS {
            return Err(HostError::TooManyLinks);
        }
        real.truncate(if target.starts_with('/') { 0 } else { parent });
        rest = Cow::Owned(format!("{target}/{}", rest.get(at..).unwrap_or_default()));
        at = 0;
    }
    Ok(RealPath(real))
}

/// The text of a file below the root, links followed, without the space around it. Absent when it
/// cannot be read.
pub fn trimmed_text(host: &dyn Host, path: &str) -> Option<String> {
    let path = realpath(host, path).ok()?;
    let text = String::from_utf8(host.file(path.as_str()).ok()?).ok()?;
    Some(text.trim().to_owned())
}

/// What the kernel draws at random at each boot; absent where the root does not show it.
pub fn boot_id(host: &dyn Host) -> Option<String> {
    trimmed_text(host, "proc/sys/kernel/random/boot_id").filter(|id| !id.is_empty())
}

/// The machine below a directory: `/` for the one we run on.
#[derive(Clone, Debug)]
pub struct LiveHost {
    root: PathBuf,
}

impl LiveHost {
    /// The machine below this root.
    pub fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// The root shows the machine that this program runs on. In a container the machine's files are
    /// below another directory, so the directory does not tell.
    pub fn is_this_machine(&self) -> bool {
        let here = boot_id(&Self::new("/".into()));
        here.is_some() && here == boot_id(self)
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    fn metadata(&self, path: &str) -> Result<fs::Metadata, HostError> {
        fs::symlink_metadata(self.at(path)).map_err(|error| HostError::from_io(&error))
    }
}

impl Host for LiveHost {
    fn file(&self, path: &str) -> Result<Vec<u8>, HostError> {
        // A pipe would block, a device could do anything.
        if !self.metadata(path)?.file_type().is_file() {
            return Err(HostError::NotA("file"));
        }
        let file = fs::File::open(self.at(path)).map_err(|error| HostError::from_io(&error))?;
        let mut content = Vec::new();
        let limit = MAX_FILE_BYTES as u64 + 1;
        file.take(limit).read_to_end(&mut content).map_err(|error| HostError::from_io(&error))?;
        if content.len() > MAX_FILE_BYTES { Err(HostError::TooLarge) } else { Ok(content) }
    }

    fn link(&self, path: &str) -> Result<Option<String>, HostError> {
        match fs::read_link(self.at(path)) {
            Ok(target) => match target.into_os_string().into_string() {
                Ok(target) => Ok(Some(target)),
                Err(_) => Err(HostError::NotA("link with a UTF-8 target")),
            },
            // EINVAL says that it is no link.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(None),
            Err(error) => match HostError::from_io(&error) {
                HostError::Missing => Ok(None),
                other => Err(other),
            },
        }
    }

    fn names(&self, path: &str) -> Result<Vec<String>, HostError> {
        let entries = fs::read_dir(self.at(path)).map_err(|error| HostError::from_io(&error))?;
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| HostError::from_io(&error))?;
            if names.len() == MAX_ENTRIES {
                return Err(HostError::TooManyEntries);
            }
            names.extend(entry.file_name().into_string());
        }
        names.sort();
        Ok(names)
    }

    fn device(&self, path: &str) -> Result<DeviceNode, HostError> {
        let metadata = self.metadata(path)?;
        let kind = match metadata.file_type() {
            kind if kind.is_char_device() => 'c',
            kind if kind.is_block_device() => 'b',
            _ => return Err(HostError::NotA("device node")),
        };
        let (major, minor) = split_device_number(metadata.rdev());
        Ok(DeviceNode { kind, major, minor })
    }

    fn exists(&self, path: &str) -> bool {
        self.metadata(path).is_ok()
    }
}

/// Major and minor number from `st_rdev`, in the layout of the Linux C libraries: minor bits 0-7
/// and 20-43, major bits 8-19 and 44-63 of the number.
fn split_device_number(number: u64) -> (u32, u32) {
    let major = ((number >> 8) & 0xfff) | ((number >> 32) & 0xffff_f000);
    let minor = (number & 0xff) | ((number >> 12) & 0xffff_ff00);
    // Both are below 2^32 by the masks.
    (major as u32, minor as u32)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn tree() -> (tempfile::TempDir, LiveHost) {
        let outside = tempfile::tempdir().unwrap();
        let root = outside.path().join("root");
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::write(outside.path().join("secret"), "secret").unwrap();
        fs::write(root.join("a/b/file"), "text\n").unwrap();
        for (link, target) in [
            ("loop", "loop"),
            ("absolute", "/a/b"),
            ("up", "../../../../../a/b/file"),
            ("out", "../secret"),
            ("dangling", "a/nothing"),
            ("a/chain", "../absolute/file"),
        ] {
            symlink(target, root.join(link)).unwrap();
        }
        symlink(outside.path().join("secret"), root.join("out-absolute")).unwrap();
        let host = LiveHost::new(root);
        (outside, host)
    }

    fn read(host: &LiveHost, path: &str) -> Result<Vec<u8>, HostError> {
        host.file(realpath(host, path)?.as_str())
    }

    #[test]
    fn links_are_followed_below_the_root_and_never_out_of_it() {
        let (_outside, host) = tree();
        for path in ["a/b/file", "absolute/file", "up", "a/chain", "/a/./b/../b/file"] {
            assert_eq!(read(&host, path), Ok(b"text\n".to_vec()), "{path}");
        }
        for path in ["out", "out-absolute", "dangling", "a/b/file/x", "../secret"] {
            assert_eq!(read(&host, path), Err(HostError::Missing), "{path}");
        }
        assert_eq!(read(&host, "loop"), Err(HostError::TooManyLinks));
        assert_eq!(realpath(&host, "dangling").unwrap().as_str(), "a/nothing");
    }

    #[test]
    fn a_path_that_never_ends_is_refused() {
        let (_outside, host) = tree();
        let path = "b/".repeat(3000);
        assert_eq!(realpath(&host, &path), Err(HostError::PathTooLong));
    }

    #[test]
    fn files_have_a_largest_size_and_must_be_files() {
        let (_outside, host) = tree();
        fs::write(host.at("fits"), vec![b'x'; MAX_FILE_BYTES]).unwrap();
        fs::write(host.at("large"), vec![b'x'; MAX_FILE_BYTES + 1]).unwrap();
        assert_eq!(read(&host, "fits").map(|content| content.len()), Ok(MAX_FILE_BYTES));
        assert_eq!(read(&host, "large"), Err(HostError::TooLarge));
        assert_eq!(read(&host, "a"), Err(HostError::NotA("file")));
        assert_eq!(host.names("a"), Ok(vec!["b".to_owned(), "chain".to_owned()]));
        assert_eq!(host.names("none"), Err(HostError::Missing));
    }

    #[test]
    fn a_root_is_this_machine_by_its_boot_id() {
        let (_outside, host) = tree();
        assert!(!host.is_this_machine());
        let here = boot_id(&LiveHost::new("/".into())).unwrap();
        let file = host.at("proc/sys/kernel/random/boot_id");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, format!("{here}\n")).unwrap();
        assert!(host.is_this_machine());
        fs::write(&file, "\n").unwrap();
        assert_eq!((boot_id(&host), host.is_this_machine()), (None, false));
    }

    #[test]
    fn device_nodes_are_told_from_files() {
        let live = LiveHost::new(PathBuf::from("/"));
        let null = DeviceNode { kind: 'c', major: 1, minor: 3 };
        assert_eq!(live.device("dev/null"), Ok(null));
        let (_outside, host) = tree();
        assert_eq!(host.device("a/b/file"), Err(HostError::NotA("device node")));
    }

    #[test]
    fn device_numbers_beyond_eight_bits_are_split_rightly() {
        assert_eq!(split_device_number(0xe7c0), (231, 192));
        assert_eq!(split_device_number(0x1231_fe45), (510, 0x1_2345));
        assert_eq!(split_device_number(0x1234_59ab_cde6_78f0), (0x1234_5678, 0x9abc_def0));
    }
}
