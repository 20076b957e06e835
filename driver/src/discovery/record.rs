//! Turns a machine into a capture: a host that notes exactly what discovery reads.

use std::cell::RefCell;

use super::capture::HostCapture;
use super::facts::{DeviceNode, Facts, NvmlFacts};
use super::gpu::{GpuLibrary, GpuLibraryError};
use super::host::{Host, HostError};
use super::nvml_section::NvmlSection;

/// Discovers a machine and gives the facts with the capture that leads to the same facts. Nothing
/// is replaced in it: see [`anonymise`](super::anonymise::anonymise). What could not be read is not
/// there, so it may lead to another message in a problem.
pub fn record(host: &dyn Host, gpus: &dyn GpuLibrary, name: &str) -> (HostCapture, Facts) {
    let recorder = Recorder { host, gpus, capture: RefCell::new(HostCapture::new(name)) };
    let facts = super::discover(&recorder, &recorder);
    (recorder.capture.into_inner(), facts)
}

/// Passes every question on, and notes the answers that found something. Discovery reads something
/// below every name that it takes from a directory, so the names need no note.
struct Recorder<'a> {
    host: &'a dyn Host,
    gpus: &'a dyn GpuLibrary,
    capture: RefCell<HostCapture>,
}

impl Host for Recorder<'_> {
    fn file(&self, path: &str) -> Result<Vec<u8>, HostError> {
        let content = self.host.file(path)?;
        self.capture.borrow_mut().files.insert(path.to_owned(), content.clone());
        Ok(content)
    }

    fn link(&self, path: &str) -> Result<Option<String>, HostError> {
        let target = self.host.link(path)?;
        if let Some(target) = &target {
            self.capture.borrow_mut().links.insert(path.to_owned(), target.clone());
        }
        Ok(target)
    }

    fn names(&self, path: &str) -> Result<Vec<String>, HostError> {
        self.host.names(path)
    }

    fn device(&self, path: &str) -> Result<DeviceNode, HostError> {
        let node = self.host.device(path)?;
        self.capture.borrow_mut().devices.insert(path.to_owned(), node);
        Ok(node)
    }

    fn exists(&self, path: &str) -> bool {
        self.host.exists(path)
    }
}

impl GpuLibrary for Recorder<'_> {
    fn read(&self) -> Result<Option<NvmlFacts>, GpuLibraryError> {
        let facts = self.gpus.read()?;
        self.capture.borrow_mut().nvml = facts.as_ref().map(NvmlSection::from_facts);
        Ok(facts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{HOSTS, facts, host};

    #[test]
    fn what_is_recorded_leads_to_the_same_facts_and_is_part_of_the_machine() {
        for name in HOSTS {
            let machine = host(name);
            let (recorded, seen) = record(&machine.host(), &machine, name);
            let again = super::super::discover(&recorded.host(), &recorded);
            assert_eq!(seen, facts(name), "{name}");
            assert_eq!(again, seen, "{name}");
            assert_eq!(HostCapture::parse(&recorded.to_yaml()).as_ref(), Ok(&recorded), "{name}");
            assert!(recorded.files.len() < machine.files.len(), "{name}");
            for (path, content) in &recorded.files {
                assert_eq!(machine.files.get(path), Some(content), "{name}: {path}");
            }
        }
    }

    #[test]
    fn a_file_that_discovery_does_not_read_is_not_recorded() {
        let mut machine = host("workstation-no-nic");
        machine.files.insert("etc/shadow".into(), b"secret".to_vec());
        let (recorded, _) = record(&machine.host(), &machine, "w");
        assert!(!recorded.files.contains_key("etc/shadow"));
        assert!(!recorded.files.keys().any(|path| path.ends_with("boot_id")));
    }
}
