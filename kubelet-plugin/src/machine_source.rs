//! Reads the machine: the live one below a root, or a captured one. Each reading is fresh.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lanemate_driver::discovery::capture::MAX_CAPTURE_BYTES;
use lanemate_driver::discovery::facts::Problem;
use lanemate_driver::discovery::host::boot_id;
use lanemate_driver::discovery::nvml::library_of;
use lanemate_driver::discovery::{CaptureError, GpuLibrary, Host, HostCapture, LiveHost};
use lanemate_driver::machine::Machine;
use lanemate_driver::prepare::PrepareOptions;
use lanemate_driver::topology::{Override, OverrideError};

use crate::settings::{MachineSettings, TopologyOverride};
use crate::state::Reading;

/// Where readings come from.
pub struct MachineSource {
    node: String,
    settings: MachineSettings,
    metadata_dir: String,
    kind: Kind,
    /// What was wrong at the last reading: it is told once, not every minute.
    told: BTreeSet<String>,
}

enum Kind {
    Live(LiveHost),
    /// The capture as last understood.
    Captured(Box<Captured>),
}

/// A captured machine.
struct Captured {
    text: String,
    capture: HostCapture,
    /// The override that stands in the capture.
    own: Option<TopologyOverride>,
}

/// A file that is no captured machine.
#[derive(Debug, thiserror::Error)]
pub enum MachineSourceError {
    /// The file gives no text.
    #[error("read --root {file}: {error}")]
    Read {
        /// The file.
        file: PathBuf,
        /// What the operating system says.
        error: io::Error,
    },
    /// The file is too large.
    #[error("read --root {file}: expected at most {} MiB", MAX_CAPTURE_BYTES >> 20)]
    TooLarge {
        /// The file.
        file: PathBuf,
    },
    /// The text is no capture.
    #[error("read --root {file}: expected a file of lanemate capture: {error}")]
    Capture {
        /// The file.
        file: PathBuf,
        /// What is wrong. The message has it, so it is no source of its own.
        error: CaptureError,
    },
    /// The capture's own override cannot be understood.
    #[error("read --root {file}: topologyOverride: {error}")]
    Override {
        /// The file.
        file: PathBuf,
        /// What is wrong. The message has it, so it is no source of its own.
        error: OverrideError,
    },
}

impl MachineSource {
    /// Looks at the root; a captured machine is read, so that a broken file shows at once.
    ///
    /// # Errors
    /// A file that is no captured machine.
    pub fn open(
        node: String,
        settings: MachineSettings,
        metadata_dir: &Path,
    ) -> Result<Self, MachineSourceError> {
        let kind = if settings.root.is_file() {
            Kind::Captured(Box::new(Captured::read(&settings.root)?))
        } else {
            Kind::Live(LiveHost::new(settings.root.clone()))
        };
        // Settings are UTF-8 text.
        let metadata_dir = metadata_dir.to_string_lossy().into_owned();
        Ok(Self { node, settings, metadata_dir, kind, told: BTreeSet::new() })
    }

    /// Reads the machine. Never fails: what cannot be read is logged, and the rest stands. While a
    /// capture cannot be understood, the last one that could stands.
    pub fn read(&mut self) -> Reading {
        let mut trouble = BTreeSet::new();
        if let Kind::Captured(captured) = &mut self.kind
            && let Err(error) = captured.refresh(&self.settings.root)
        {
            trouble.insert(format!("{error}; the machine is taken to be as last read"));
        }
        let reading = match &self.kind {
            Kind::Live(host) => self.read_from(host, &*library_of(host), None, &mut trouble),
            Kind::Captured(captured) => {
                let Captured { capture, own, .. } = captured.as_ref();
                self.read_from(&capture.host(), capture, own.as_ref(), &mut trouble)
            }
        };
        self.tell(trouble);
        reading
    }

    /// The configuration's override goes before the capture's own.
    fn read_from(
        &self,
        host: &dyn Host,
        gpus: &dyn GpuLibrary,
        own: Option<&TopologyOverride>,
        trouble: &mut BTreeSet<String>,
    ) -> Reading {
        let MachineSettings { config, topology_override, driver_root, .. } = &self.settings;
        let xml = topology_override.as_ref().or(own);
        let parsed = xml.map(|xml| &xml.parsed);
        let machine = Machine::read(&self.node, host, gpus, parsed, &config.policy);
        let (mut options, problems) =
            PrepareOptions::read(host, &machine.facts, driver_root, self.metadata_dir.clone());
        options.topology_override = xml.map(|xml| xml.text.clone());
        let shown = |Problem { path, message }: &Problem| format!("{path}: {message}");
        trouble.extend(machine.inventory.problems.iter().chain(&problems).map(shown));
        Reading { machine: Arc::new(machine), options: Arc::new(options), boot_id: boot_id(host) }
    }

    fn tell(&mut self, trouble: BTreeSet<String>) {
        for problem in trouble.difference(&self.told) {
            tracing::warn!(%problem, "the machine cannot be read as a whole");
        }
        for problem in self.told.difference(&trouble) {
            tracing::info!(%problem, "no longer a problem");
        }
        self.told = trouble;
    }
}

impl Captured {
    fn read(file: &Path) -> Result<Self, MachineSourceError> {
        Self::parse(file, text(file)?)
    }

    /// The machine as the file has it now.
    fn refresh(&mut self, file: &Path) -> Result<(), MachineSourceError> {
        let text = text(file)?;
        if text != self.text {
            *self = Self::parse(file, text)?;
        }
        Ok(())
    }

    fn parse(file: &Path, text: String) -> Result<Self, MachineSourceError> {
        let file = || file.to_owned();
        let capture = HostCapture::parse(&text)
            .map_err(|error| MachineSourceError::Capture { file: file(), error })?;
        let parse = |text: String| {
            let parsed = Override::parse(&text)
                .map_err(|error| MachineSourceError::Override { file: file(), error })?;
            Ok(TopologyOverride { text, parsed })
        };
        let own = capture.topology_override.clone().map(parse).transpose()?;
        Ok(Self { text, capture, own })
    }
}

fn text(file: &Path) -> Result<String, MachineSourceError> {
    let failed = |error| MachineSourceError::Read { file: file.to_owned(), error };
    let mut text = String::new();
    let limit = MAX_CAPTURE_BYTES as u64 + 1;
    File::open(file).and_then(|open| open.take(limit).read_to_string(&mut text)).map_err(failed)?;
    if text.len() > MAX_CAPTURE_BYTES {
        return Err(MachineSourceError::TooLarge { file: file.to_owned() });
    }
    Ok(text)
}

#[cfg(test)]
mod tests;
