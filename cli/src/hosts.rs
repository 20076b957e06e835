//! The machines that a command is about: this one, or captured ones, each with its override and the
//! site's configuration.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, anyhow, bail};
use lanemate_api::validation::format::is_dns_subdomain;
use lanemate_driver::discovery::host::trimmed_text;
use lanemate_driver::discovery::nvml::library_of;
use lanemate_driver::discovery::{GpuLibrary, Host, HostCapture, LiveHost};
use lanemate_driver::inventory::Policy;
use lanemate_driver::machine::Machine;
use lanemate_driver::topology::Override;

use crate::args::{LiveArgs, MachineArgs};
use crate::config;
use crate::input;
use crate::named::NamedFile;
use crate::run::Usage;

/// A machine that was read.
pub struct Loaded {
    /// Where it came from.
    pub source: Source,
    /// What it is and offers.
    pub machine: Machine,
    /// The NCCL topology XML that decides nearness, as written.
    pub override_xml: Option<String>,
}

/// A machine that can be read.
pub struct Source {
    /// Node name.
    pub name: String,
    kind: Kind,
}

enum Kind {
    Live(LiveHost),
    /// With the override that stands in the capture.
    Captured(Box<HostCapture>, Option<Xml>),
}

/// Reads all machines of a command, in the order of the command line.
pub fn read(args: &MachineArgs) -> anyhow::Result<Vec<Loaded>> {
    let config = args.config.as_deref().map(config::read).transpose()?.unwrap_or_default();
    let sources = sources(&args.hosts, &args.live)?;
    let overrides = overrides(&args.overrides, &sources)?;
    let read = |file| Xml::read(file).context("topologyOverride of the configuration");
    let of_config = config.topology_override.as_deref().map(read).transpose()?;
    let loaded = |source: Source| {
        let xml = overrides.get(&source.name).or(of_config.as_ref());
        let (machine, override_xml) = source.read(xml, &config.policy);
        Loaded { source, machine, override_xml }
    };
    Ok(sources.into_iter().map(loaded).collect())
}

/// All machines of a command, without where they came from.
pub fn machines(args: &MachineArgs) -> anyhow::Result<Vec<Machine>> {
    Ok(read(args)?.into_iter().map(|loaded| loaded.machine).collect())
}

/// The only machine of a command that is about one.
pub fn only(args: &MachineArgs) -> anyhow::Result<Loaded> {
    let mut all = read(args)?;
    match (all.pop(), all.is_empty()) {
        (Some(only), true) => Ok(only),
        _ => Err(Usage("this command is about one machine: expected one --host".to_owned()).into()),
    }
}

/// The captured machines, or else the live one.
pub fn sources(hosts: &[NamedFile], live: &LiveArgs) -> anyhow::Result<Vec<Source>> {
    if hosts.is_empty() {
        return Ok(vec![Source::live(live)?]);
    }
    let mut sources = Vec::<Source>::new();
    let mut files = BTreeMap::<String, &Path>::new();
    for host in hosts {
        let source = Source::captured(host)?;
        let file = host.file.as_path();
        if let Some(other) = files.insert(source.name.clone(), file) {
            let field = if host.name.is_some() { "--host" } else { "metadata.name" };
            bail!(
                "{}: {field}: expected a name of its own, found {:?}, which {} has too; \
                 --host NAME=FILE gives another",
                input::name(file),
                source.name,
                input::name(other)
            );
        }
        sources.push(source);
    }
    Ok(sources)
}

/// An NCCL topology XML, as written and as understood.
struct Xml {
    text: String,
    parsed: Override,
}

impl Xml {
    fn read(file: &Path) -> anyhow::Result<Self> {
        Self::parse(input::text(file)?).with_context(|| input::name(file))
    }

    fn parse(text: String) -> anyhow::Result<Self> {
        let parsed = Override::parse(&text)?;
        Ok(Self { text, parsed })
    }
}

/// The override of each host that has one on the command line.
fn overrides(args: &[NamedFile], sources: &[Source]) -> anyhow::Result<BTreeMap<String, Xml>> {
    let mut overrides = BTreeMap::new();
    for NamedFile { name, file } in args {
        let known = || sources.iter().map(|source| source.name.as_str()).collect::<Vec<_>>();
        let name = match (name, sources) {
            (Some(name), _) if known().contains(&name.as_str()) => name.clone(),
            (Some(name), _) => {
                let known = known().join(", ");
                let message = format!("--override: no host is named {name:?}: expected {known}");
                return Err(Usage(message).into());
            }
            (None, [only]) => only.name.clone(),
            (None, _) => {
                let message = "--override: with several hosts, expected NAME=FILE";
                return Err(Usage(message.to_owned()).into());
            }
        };
        if overrides.contains_key(&name) {
            return Err(Usage(format!("--override: {name:?} has two")).into());
        }
        overrides.insert(name, Xml::read(file)?);
    }
    Ok(overrides)
}

impl Source {
    fn live(args: &LiveArgs) -> anyhow::Result<Self> {
        let root = args.root.display();
        if !args.root.is_dir() {
            bail!("{root}: --root: expected a directory");
        }
        let host = LiveHost::new(args.root.clone());
        let name = args.node.clone().or_else(|| host_name(&host)).ok_or_else(|| {
            anyhow!("{root}: no host name below it: expected one, or --node NAME")
        })?;
        if !is_dns_subdomain(&name) {
            let message = format!(
                "--node: expected lower-case letters, digits, - and . (a node's name), found {name:?}"
            );
            return Err(Usage(message).into());
        }
        Ok(Self { name, kind: Kind::Live(host) })
    }

    /// A captured machine, under the name given with it or its own.
    pub fn captured(file: &NamedFile) -> anyhow::Result<Self> {
        let path = input::name(&file.file);
        let text = input::text(&file.file)?;
        let capture = HostCapture::parse(&text).with_context(|| path.clone())?;
        let xml = capture.topology_override.clone().map(Xml::parse).transpose();
        let xml = xml.with_context(|| format!("{path}: topologyOverride"))?;
        let name = file.name.clone().unwrap_or_else(|| capture.name.clone());
        Ok(Self { name, kind: Kind::Captured(Box::new(capture), xml) })
    }

    /// Does something with the machine's files and GPU library.
    pub fn with_host<T>(&self, work: impl FnOnce(&dyn Host, &dyn GpuLibrary) -> T) -> T {
        match &self.kind {
            Kind::Live(host) => work(host, &*library_of(host)),
            Kind::Captured(capture, _) => work(&capture.host(), capture.as_ref()),
        }
    }

    /// The capture that the machine was read from, if it is captured.
    pub fn capture(&self) -> Option<&HostCapture> {
        match &self.kind {
            Kind::Live(_) => None,
            Kind::Captured(capture, _) => Some(capture),
        }
    }

    /// Reads the machine; an override from outside goes before its own.
    fn read(&self, xml: Option<&Xml>, policy: &Policy) -> (Machine, Option<String>) {
        let own = match &self.kind {
            Kind::Live(_) => None,
            Kind::Captured(_, own) => own.as_ref(),
        };
        let xml = xml.or(own);
        let parsed = xml.map(|xml| &xml.parsed);
        let machine =
            self.with_host(|host, gpus| Machine::read(&self.name, host, gpus, parsed, policy));
        (machine, xml.map(|xml| xml.text.clone()))
    }
}

/// The host name below the root, in lower case as kubelet makes a node name of it.
fn host_name(host: &LiveHost) -> Option<String> {
    let read = |path: &str| {
        let name = trimmed_text(host, path)?.to_lowercase();
        (!name.is_empty() && name != "(none)").then_some(name)
    };
    read("proc/sys/kernel/hostname").or_else(|| read("etc/hostname"))
}
