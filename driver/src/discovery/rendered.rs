//! A directory that a captured machine was rendered to, with files, links and device nodes. What
//! NVIDIA's library says is none of them, so that the directory has the capture as well.

use super::capture::HostCapture;
use super::facts::NvmlFacts;
use super::gpu::{GpuLibrary, GpuLibraryError};
use super::host::{Host, HostError};

/// Where such a directory has the capture, relative to its root.
pub const RENDERED_FROM: &str = "capture.yaml";

/// Answers for NVIDIA's library from the capture in a rendered directory; no library where there is none.
pub struct RenderedLibrary<'a>(pub &'a dyn Host);

impl GpuLibrary for RenderedLibrary<'_> {
    fn read(&self) -> Result<Option<NvmlFacts>, GpuLibraryError> {
        let failed = |error: String| GpuLibraryError(format!("{RENDERED_FROM}: {error}"));
        let bytes = match self.0.file(RENDERED_FROM) {
            Err(HostError::Missing) => return Ok(None),
            read => read.map_err(|error| failed(error.to_string()))?,
        };
        let text = String::from_utf8(bytes).map_err(|error| failed(error.to_string()))?;
        let capture = HostCapture::parse(&text).map_err(|error| failed(error.to_string()))?;
        capture.read()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::host;

    fn holding(text: &str) -> HostCapture {
        let mut directory = HostCapture::new("n");
        directory.files.insert(RENDERED_FROM.to_owned(), text.as_bytes().to_vec());
        directory
    }

    #[test]
    fn a_rendered_directory_knows_what_the_library_said() {
        let capture = host("dgx-h100");
        let read = RenderedLibrary(&holding(&capture.to_yaml()).host()).read().unwrap();
        assert_eq!(read, capture.read().unwrap());
        assert_eq!(read.unwrap().gpus.len(), 8);
    }

    #[test]
    fn a_directory_without_a_capture_has_no_library_and_a_broken_one_says_so() {
        assert_eq!(RenderedLibrary(&HostCapture::new("n").host()).read(), Ok(None));
        let broken = RenderedLibrary(&holding("x: 1\n").host()).read().unwrap_err();
        assert!(broken.to_string().contains("capture.yaml: apiVersion"), "{broken}");
    }
}
