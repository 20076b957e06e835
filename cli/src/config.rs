//! Reads the plugin's configuration file.

use std::path::Path;

use anyhow::Context;
use lanemate_driver::config::Config;

use crate::input;

/// The configuration in a file; its NCCL topology XML, if it names one, is found beside the file.
pub fn read(file: &Path) -> anyhow::Result<Config> {
    let text = input::text(file)?;
    let mut config = Config::parse(&text).with_context(|| input::name(file))?;
    let base = file.parent().unwrap_or(Path::new(""));
    config.topology_override = config.topology_override.map(|path| base.join(path));
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_is_told_with_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("c.yaml");
        std::fs::write(&file, "exclude: [{netdev: a}, {}]").unwrap();
        let error = format!("{:#}", read(&file).unwrap_err());
        let expect = format!("{}: exclude[1]: expected exactly one of", file.display());
        assert!(error.starts_with(&expect), "{error}");
    }

    #[test]
    fn an_override_is_found_beside_the_configuration() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("c.yaml");
        std::fs::write(&file, "topologyOverride: topo.xml\n").unwrap();
        assert_eq!(read(&file).unwrap().topology_override, Some(dir.path().join("topo.xml")));
    }
}
