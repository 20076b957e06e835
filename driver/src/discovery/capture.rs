//! `HostCapture` format v1: a machine as one YAML file.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Deserialize;

use super::capture_host::CaptureHost;
use super::facts::{DeviceNode, NvmlFacts};
use super::gpu::{GpuLibrary, GpuLibraryError};
use super::host::MAX_PATH_BYTES;
use super::nvml_section::NvmlSection;

/// `apiVersion` of the format.
pub const API_VERSION: &str = "lanemate.dev/capture-v1";
/// `kind` of the format.
pub const KIND: &str = "HostCapture";
/// Largest capture in bytes; the largest of the known machines takes 220 KiB.
pub const MAX_CAPTURE_BYTES: usize = 64 << 20;

/// A captured machine.
#[derive(Clone, Debug, PartialEq)]
pub struct HostCapture {
    /// `metadata.name`, the name of the node.
    pub name: String,
    /// `metadata.source`: where the facts come from.
    pub source: Option<String>,
    /// `metadata.derived`: rendered from public facts, not a raw dump.
    pub derived: bool,
    /// Content by path relative to the root.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Target, as written, by path of the link.
    pub links: BTreeMap<String, String>,
    /// Device nodes by path.
    pub devices: BTreeMap<String, DeviceNode>,
    /// What the NVIDIA library says; absent when the machine has none.
    pub nvml: Option<NvmlSection>,
    /// NCCL topology XML that is used instead of sysfs for nearness.
    pub topology_override: Option<String>,
}

/// A text that is no capture.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum CaptureError {
    /// Not YAML, or not of this shape; says where.
    #[error("read capture: {0}")]
    Yaml(String),
    /// Another format, or another version of it.
    #[error("{field}: expected {expected}, found {found:?}")]
    Format {
        /// `apiVersion` or `kind`.
        field: &'static str,
        /// The value that is understood.
        expected: &'static str,
        /// The value in the file.
        found: String,
    },
    /// One field makes no sense.
    #[error("{field}: {message}")]
    Field {
        /// The field, e.g. `files."sys/…"`.
        field: String,
        /// What was expected and what was found.
        message: String,
    },
}

#[derive(Deserialize)]
struct Head {
    #[serde(rename = "apiVersion", default)]
    api_version: Option<String>,
    #[serde(default)]
    kind: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Raw {
    api_version: String,
    kind: String,
    metadata: Metadata,
    #[serde(default)]
    files: BTreeMap<String, String>,
    #[serde(default)]
    links: BTreeMap<String, String>,
    #[serde(default)]
    devices: BTreeMap<String, RawNode>,
    #[serde(default)]
    nvml: Option<NvmlSection>,
    #[serde(default)]
    topology_override: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Metadata {
    name: String,
    #[serde(default)]
    source: Option<String>,
    #[serde(default)]
    derived: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawNode {
    #[serde(rename = "type")]
    kind: char,
    major: u32,
    minor: u32,
}

impl HostCapture {
    /// An empty capture with a name.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            source: None,
            derived: false,
            files: BTreeMap::new(),
            links: BTreeMap::new(),
            devices: BTreeMap::new(),
            nvml: None,
            topology_override: None,
        }
    }

    /// Reads the YAML text of a capture.
    pub fn parse(text: &str) -> Result<Self, CaptureError> {
        if text.len() > MAX_CAPTURE_BYTES {
            return Err(CaptureError::Yaml(format!("larger than {MAX_CAPTURE_BYTES} bytes")));
        }
        let raw: Raw = serde_saphyr::from_str(text).map_err(|error| explain(text, &error))?;
        check_format(Some(&raw.api_version), Some(&raw.kind))?;
        if raw.metadata.name.is_empty() {
            return Err(field("metadata.name", "expected a name"));
        }
        let mut capture = Self {
            source: raw.metadata.source,
            derived: raw.metadata.derived,
            links: raw.links,
            nvml: raw.nvml,
            topology_override: raw.topology_override,
            ..Self::new(raw.metadata.name)
        };
        for (path, content) in raw.files {
            let bytes = latin1(&content).map_err(|found| {
                let message =
                    format!("expected code points 0 to 255 (one byte each), found {found}");
                field(&format!("files.{path:?}"), message)
            })?;
            capture.files.insert(path, bytes);
        }
        for (path, RawNode { kind, major, minor }) in raw.devices {
            if !matches!(kind, 'c' | 'b') {
                let message = format!("expected c or b, found {kind:?}");
                return Err(field(&format!("devices.{path:?}.type"), message));
            }
            capture.devices.insert(path, DeviceNode { kind, major, minor });
        }
        capture.check()?;
        Ok(capture)
    }

    /// Checks what the types do not say: paths, and that nothing lies below a file, link or node.
    fn check(&self) -> Result<(), CaptureError> {
        let mut seen: BTreeMap<&str, &str> = BTreeMap::new();
        let sections = [
            ("files", self.files.keys().collect::<Vec<_>>()),
            ("links", self.links.keys().collect()),
            ("devices", self.devices.keys().collect()),
        ];
        for (section, paths) in &sections {
            for path in paths {
                if !is_relative_path(path) {
                    let message = "expected a path relative to the root, without . and ..";
                    return Err(field(&format!("{section}.{path:?}"), message));
                }
                if let Some(other) = seen.insert(path, section) {
                    let message = format!("already in {other}");
                    return Err(field(&format!("{section}.{path:?}"), message));
                }
            }
        }
        for (path, section) in &seen {
            let inside = parents(path).find(|parent| seen.contains_key(parent));
            if let Some(parent) = inside {
                let message = format!("lies below {parent:?}, which is no directory");
                return Err(field(&format!("{section}.{path:?}"), message));
            }
        }
        if let Some(nvml) = &self.nvml {
            nvml.facts().map_err(|(place, message)| field(&format!("nvml.{place}"), message))?;
        }
        Ok(())
    }

    /// The machine as a host to discover.
    pub fn host(&self) -> CaptureHost<'_> {
        CaptureHost::new(self)
    }

    /// The YAML text; reading it gives this capture again.
    pub fn to_yaml(&self) -> String {
        let mut out = format!("apiVersion: {API_VERSION}\nkind: {KIND}\n");
        let source = self.source.as_deref();
        let source = source.map_or(String::new(), |source| format!(", source: {}", quoted(source)));
        let derived = if self.derived { ", derived: true" } else { "" };
        // Writing to a string cannot fail.
        let _ = writeln!(out, "metadata: {{name: {}{source}{derived}}}", quoted(&self.name));
        section(&mut out, "files", &self.files, |content| {
            quoted(&content.iter().map(|&byte| char::from(byte)).collect::<String>())
        });
        section(&mut out, "links", &self.links, |target| quoted(target));
        section(&mut out, "devices", &self.devices, |DeviceNode { kind, major, minor }| {
            format!("{{type: {kind}, major: {major}, minor: {minor}}}")
        });
        if let Some(nvml) = &self.nvml {
            out.push_str(&nvml.to_yaml());
        }
        if let Some(xml) = &self.topology_override {
            let _ = writeln!(out, "topologyOverride: {}", quoted(xml));
        }
        out
    }
}

impl GpuLibrary for HostCapture {
    fn read(&self) -> Result<Option<NvmlFacts>, GpuLibraryError> {
        let facts = self.nvml.as_ref().map(NvmlSection::facts).transpose();
        facts.map_err(|(place, message)| GpuLibraryError(format!("nvml.{place}: {message}")))
    }
}

/// A file of another version may hold other fields: its version is the thing to name.
fn explain(text: &str, error: &serde_saphyr::Error) -> CaptureError {
    let head: Result<Head, _> = serde_saphyr::from_str(text);
    if let Ok(head) = head
        && let Err(error) = check_format(head.api_version.as_deref(), head.kind.as_deref())
    {
        return error;
    }
    CaptureError::Yaml(error.without_snippet().to_string())
}

fn check_format(api_version: Option<&str>, kind: Option<&str>) -> Result<(), CaptureError> {
    for (field, expected, found) in [("apiVersion", API_VERSION, api_version), ("kind", KIND, kind)]
    {
        let found = found.unwrap_or_default();
        if found != expected {
            return Err(CaptureError::Format { field, expected, found: found.to_owned() });
        }
    }
    Ok(())
}

fn field(field: &str, message: impl Into<String>) -> CaptureError {
    CaptureError::Field { field: field.to_owned(), message: message.into() }
}

fn is_relative_path(path: &str) -> bool {
    path.len() <= MAX_PATH_BYTES
        && path.split('/').all(|component| !matches!(component, "" | "." | ".."))
}

/// The directories that a path lies in, outermost last.
fn parents(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(path.rsplit_once('/').map(|(parent, _)| parent), |path| {
        path.rsplit_once('/').map(|(parent, _)| parent)
    })
}

/// One byte for each code point, or the first one above 255.
fn latin1(text: &str) -> Result<Vec<u8>, String> {
    text.chars()
        .map(|c| u8::try_from(u32::from(c)).map_err(|_| format!("U+{:04X}", u32::from(c))))
        .collect()
}

fn section<T>(
    out: &mut String,
    name: &str,
    entries: &BTreeMap<String, T>,
    show: impl Fn(&T) -> String,
) {
    if entries.is_empty() {
        return;
    }
    let _ = writeln!(out, "{name}:");
    for (path, entry) in entries {
        let _ = writeln!(out, "  {}: {}", quoted(path), show(entry));
    }
}

/// A double-quoted YAML scalar in ASCII: every other character is escaped, since YAML allows no
/// control characters and reads some line separators as line ends.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            ' '..='~' => out.push(c),
            _ if u32::from(c) <= 0xffff => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            _ => {
                let _ = write!(out, "\\U{:08x}", u32::from(c));
            }
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests;
