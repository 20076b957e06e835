//! Replaces in a capture what identifies a machine: serial numbers, GUIDs, hardware and IP
//! addresses, GPU UUIDs and names of hosts. Equal values get equal replacements of the same length,
//! and zeros stay zeros, so the capture leads to the same topology.

use regex::bytes::{Captures, Regex};

use super::capture::HostCapture;
use super::pseudonym::Pseudonyms;
use super::vpd;

/// Name of an anonymised machine.
pub const NAME: &str = "captured-host";
/// Files whose whole content identifies something.
const WHOLE: [&str; 9] = [
    "serial",
    "serial_number",
    "unique_id",
    "board_serial",
    "chassis_serial",
    "product_serial",
    "phys_port_id",
    "phys_switch_id",
    "machine-id",
];
/// Files that hold the name of the host; the RDMA node description begins with it.
const HOST_NAMES: [&str; 3] = ["hostname", "domainname", "node_desc"];
/// Keywords of vital product data that identify the board: serial number, network address, two UUIDs.
const BOARD: [&str; 4] = ["SN", "NA", "V3", "VU"];
/// Begins the keywords of the system's maker and owner, among them the asset tag.
const SYSTEM: char = 'Y';

/// A pattern of this file that does not compile, which its tests rule out.
#[derive(Debug, thiserror::Error)]
#[error("compile a pattern of identifying values: {0}")]
pub struct AnonymiseError(#[from] regex::Error);

struct Anonymiser {
    names: Pseudonyms,
    /// UUIDs; groups of two digits (hardware addresses, 6 or 20 of them); groups of four (GUIDs and
    /// GIDs); names that udev makes of them.
    identifiers: Regex,
    /// Addresses in the IPv6 routing table.
    address: Regex,
    /// Who built the kernel module, and where.
    builder: Regex,
    /// Attributes of an NCCL topology XML.
    xml: Regex,
}

/// The capture with everything replaced that identifies the machine. Replacements are counters, so
/// nothing of a value can be told from its replacement.
pub fn anonymise(capture: &HostCapture) -> Result<HostCapture, AnonymiseError> {
    let mut anonymiser = Anonymiser::new()?;
    let mut out = HostCapture::new(NAME);
    out.source.clone_from(&capture.source);
    out.derived = capture.derived;
    for (path, content) in &capture.files {
        let path = anonymiser.text(path);
        let content = anonymiser.content(&path, content);
        out.files.insert(path, content);
    }
    for (path, target) in &capture.links {
        let path = anonymiser.text(path);
        out.links.insert(path, anonymiser.text(target));
    }
    for (path, &node) in &capture.devices {
        out.devices.insert(anonymiser.text(path), node);
    }
    out.nvml.clone_from(&capture.nvml);
    for device in out.nvml.iter_mut().flat_map(|nvml| &mut nvml.devices) {
        device.uuid = device.uuid.as_deref().map(|uuid| anonymiser.text(uuid));
        device.serial = device.serial.as_deref().map(|serial| anonymiser.names.serial(serial));
    }
    out.topology_override = capture.topology_override.as_deref().map(|xml| anonymiser.xml(xml));
    Ok(out)
}

impl Anonymiser {
    fn new() -> Result<Self, AnonymiseError> {
        let identifiers = Regex::new(concat!(
            r"(?-u)(?P<uuid>\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b)",
            r"|(?P<pairs>\b[0-9a-fA-F]{2}(?::[0-9a-fA-F]{2}){5,19}\b)",
            r"|(?P<quads>\b[0-9a-fA-F]{4}(?::[0-9a-fA-F]{4}){3,7}\b)",
            r"|(?P<prefix>(?:en|wl|ww|ib|roce|iw|opa|hfi|usnic)x)",
            r"(?P<digits>[0-9a-fA-F]{16}|[0-9a-fA-F]{12})",
        ))?;
        let xml = r#"(?-u)(?P<head>\b(?:guid|host_hash)="(?:0x)?)(?P<value>[0-9a-fA-F]+)"#;
        Ok(Self {
            names: Pseudonyms::default(),
            identifiers,
            address: Regex::new(r"(?-u)\b[0-9a-fA-F]{32}\b")?,
            builder: Regex::new(r"(?-u)\([^()@\s]+@[^()\s]+\)")?,
            xml: Regex::new(xml)?,
        })
    }

    fn content(&mut self, path: &str, content: &[u8]) -> Vec<u8> {
        match path.rsplit('/').next().unwrap_or_default() {
            "vpd" => self.vpd(content),
            "route" if path.starts_with("proc/") => self.routes(content),
            "ipv6_route" if path.starts_with("proc/") => {
                let names = &mut self.names;
                let replace = |found: &Captures<'_>| names.gid(&text_of(&found[0]));
                self.address.replace_all(content, replace).into_owned()
            }
            "version" if path.starts_with("proc/driver/") => {
                self.builder.replace_all(content, &b"(root@builder)"[..]).into_owned()
            }
            file if WHOLE.contains(&file) => {
                let text = text_of(content);
                format!("{}\n", self.names.serial(text.trim())).into_bytes()
            }
            file if HOST_NAMES.contains(&file) => format!("{NAME}\n").into_bytes(),
            _ => self.bytes(content),
        }
    }

    fn text(&mut self, text: &str) -> String {
        text_of(&self.bytes(text.as_bytes()))
    }

    fn bytes(&mut self, content: &[u8]) -> Vec<u8> {
        let names = &mut self.names;
        let replace = |found: &Captures<'_>| {
            let group = |name: &str| found.name(name).map(|found| text_of(found.as_bytes()));
            if let Some(uuid) = group("uuid") {
                names.uuid(&uuid)
            } else if let Some(pairs) = group("pairs") {
                names.pairs(&pairs)
            } else if let Some(quads) = group("quads") {
                names.quads(&quads)
            } else {
                let digits = names.digits(&group("digits").unwrap_or_default());
                group("prefix").unwrap_or_default() + &digits
            }
        };
        self.identifiers.replace_all(content, replace).into_owned()
    }

    /// Destination and gateway are the second and third column. Zeros, which make a default route,
    /// stay.
    fn routes(&mut self, content: &[u8]) -> Vec<u8> {
        let text = text_of(content);
        let mut out = String::with_capacity(text.len());
        for line in text.split_inclusive('\n') {
            for (column, field) in line.split_inclusive('\t').enumerate() {
                let value = field.trim();
                let address = value.len() == 8 && value.bytes().all(|b| b.is_ascii_hexdigit());
                if (1..=2).contains(&column) && address {
                    out.push_str(&field.replace(value, &self.names.ipv4(value)));
                } else {
                    out.push_str(&self.text(field));
                }
            }
        }
        out.into_bytes()
    }

    fn xml(&mut self, xml: &str) -> String {
        let names = &mut self.names;
        let replace = |found: &Captures<'_>| {
            let group = |name: &str| found.name(name).map(|found| text_of(found.as_bytes()));
            group("head").unwrap_or_default() + &names.serial(&group("value").unwrap_or_default())
        };
        let replaced = self.xml.replace_all(xml.as_bytes(), replace).into_owned();
        text_of(&self.bytes(&replaced))
    }

    /// Replaces in place, since the lengths stand before the values. What follows the end or cannot
    /// be understood is blanked: it might hold anything.
    fn vpd(&mut self, content: &[u8]) -> Vec<u8> {
        let (fields, result) = vpd::fields(content);
        let mut out = content.to_vec();
        for vpd::Field { keyword, value } in &fields {
            let Some(found) = content.get(value.clone()) else { continue };
            let replaced = match keyword.as_str() {
                // A checksum, and room for writing.
                "RV" | "RW" => continue,
                keyword if BOARD.contains(&keyword) || keyword.starts_with(SYSTEM) => {
                    self.board(found)
                }
                _ => self.bytes(found),
            };
            let Some(place) = out.get_mut(value.clone()) else { continue };
            if place.len() == replaced.len() {
                place.copy_from_slice(&replaced);
            } else {
                // No replacement is longer or shorter; were one, the value must not stay.
                place.fill(b'0');
            }
        }
        let understood = result.unwrap_or_else(|vpd::VpdError(at)| at);
        out.iter_mut().skip(understood).for_each(|byte| *byte = 0xff);
        let checksum = fields.iter().find(|field| field.keyword == "RV");
        if let Some(at) = checksum.map(|field| field.value.start)
            && sum(content, at + 1) == 0
        {
            let before = sum(&out, at);
            out.iter_mut().skip(at).take(1).for_each(|byte| *byte = before.wrapping_neg());
        }
        out
    }

    /// A UUID with or without dashes keeps its kind, whatever follows it; anything else is a serial
    /// number.
    fn board(&mut self, value: &[u8]) -> Vec<u8> {
        if self.identifiers.find(value).is_some_and(|found| found.start() == 0) {
            return self.bytes(value);
        }
        let text: String = value.iter().map(|&byte| char::from(byte)).collect();
        match text.split_at_checked(32) {
            Some((digits, rest)) if digits.bytes().all(|b| b.is_ascii_hexdigit()) => {
                (self.names.uuid(digits) + rest).into_bytes()
            }
            _ => self.names.serial(&text).into_bytes(),
        }
    }
}

/// Sum of the first bytes: the first byte of `RV` makes that of all bytes up to it zero.
fn sum(bytes: &[u8], count: usize) -> u8 {
    bytes.iter().take(count).fold(0, |sum, byte| sum.wrapping_add(*byte))
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests;
