//! NCCL topology XML as an override: the switches that a virtual machine hides from sysfs.
//!
//! Only the nesting of `pci` elements counts. Everything else (link widths of 0, unknown tags and
//! attributes, `net` and `gpu` elements) is read over.

use std::collections::BTreeMap;

use roxmltree::{Document, Node, ParsingOptions};

use super::place::Place;
use crate::ids::PciAddress;

/// The `pci` elements of an NCCL topology XML.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Override {
    members: BTreeMap<PciAddress, Member>,
}

/// A function with at least one `pci` parent.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Member {
    /// `busid` of each parent as written, in lower case, outermost first.
    parents: Vec<String>,
    /// Nothing lies below it: a function and no switch.
    leaf: bool,
}

/// A text that is no NCCL topology.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum OverrideError {
    /// More text than any machine needs.
    #[error("read NCCL topology: {size} bytes: expected at most {MAX_BYTES}")]
    TooLarge {
        /// Bytes of the text.
        size: usize,
    },
    /// Not well-formed.
    #[error("read NCCL topology: line {line}: {message}: expected well-formed XML without a DTD")]
    Xml {
        /// Line, from 1.
        line: u32,
        /// What the parser met.
        message: String,
    },
    /// Some other document.
    #[error("read NCCL topology: line {line}: <{found}>: expected <system> as the outermost tag")]
    Root {
        /// Line, from 1.
        line: u32,
        /// The outermost tag.
        found: String,
    },
    /// A `pci` element without its address.
    #[error(
        "read NCCL topology: line {line}: <pci> without busid: expected busid=\"DDDD:BB:DD.F\""
    )]
    NoBusId {
        /// Line, from 1.
        line: u32,
    },
    /// A `busid` that is no address.
    #[error(
        "read NCCL topology: line {line}: busid {found:?}: expected DDDD:BB:DD.F in hexadecimal"
    )]
    BusId {
        /// Line, from 1.
        line: u32,
        /// The value.
        found: String,
    },
    /// Nested deeper than PCIe can be.
    #[error("read NCCL topology: line {line}: expected at most {MAX_DEPTH} tags inside each other")]
    TooDeep {
        /// Line, from 1.
        line: u32,
    },
    /// One address at two places.
    #[error(
        "read NCCL topology: line {line}: {address} has other parents above: expected each function once"
    )]
    Twice {
        /// Line, from 1.
        line: u32,
        /// The address.
        address: PciAddress,
    },
}

/// The largest file that NCCL writes for 16 GPUs is below 100 KiB; ten times that.
const MAX_BYTES: usize = 1 << 20;
/// A bus number has 8 bits, so 256 buses of one segment; published places hold far fewer.
const MAX_DEPTH: usize = 64;
/// The shortest element takes 4 bytes.
const MAX_NODES: u32 = 1 << 18;

impl Override {
    /// Reads the XML text. Addresses may be in upper case.
    pub fn parse(text: &str) -> Result<Self, OverrideError> {
        if text.len() > MAX_BYTES {
            return Err(OverrideError::TooLarge { size: text.len() });
        }
        let options = ParsingOptions { nodes_limit: MAX_NODES, ..ParsingOptions::default() };
        let document = Document::parse_with_options(text, options).map_err(|error| {
            OverrideError::Xml { line: line_of(&error, text), message: error.to_string() }
        })?;
        let root = document.root_element();
        if root.tag_name().name() != "system" {
            let found = root.tag_name().name().to_owned();
            return Err(OverrideError::Root { line: line(root), found });
        }
        let mut topology = Self::default();
        for element in root.descendants().filter(|node| node.has_tag_name("pci")) {
            topology.add(element)?;
        }
        Ok(topology)
    }

    fn add(&mut self, element: Node<'_, '_>) -> Result<(), OverrideError> {
        let (_, address) = bus_id(element)?;
        let mut parents = Vec::new();
        for (depth, above) in element.ancestors().skip(1).enumerate() {
            if depth > MAX_DEPTH {
                return Err(OverrideError::TooDeep { line: line(element) });
            }
            if above.has_tag_name("pci") {
                parents.push(bus_id(above)?.0);
            }
        }
        parents.reverse();
        if parents.is_empty() {
            return Ok(());
        }
        let leaf = !element.children().any(|child| child.has_tag_name("pci"));
        let before = self
            .members
            .entry(address)
            .or_insert_with(|| Member { parents: parents.clone(), leaf });
        if before.parents != parents {
            return Err(OverrideError::Twice { line: line(element), address });
        }
        Ok(())
    }

    /// No function has a parent.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The places of the functions named here. Their host bridge is that of the lowest address
    /// below the outermost parent, so that the class to functions outside stays that of sysfs;
    /// where none of these has one, there is no place.
    pub fn places<'a>(
        &self,
        host_bridge: impl Fn(PciAddress) -> Option<&'a str>,
    ) -> BTreeMap<PciAddress, Place> {
        let mut outermost: BTreeMap<&str, &str> = BTreeMap::new();
        for (address, member) in self.members.iter().filter(|(_, member)| member.leaf) {
            if let (Some(parent), Some(bridge)) = (member.parents.first(), host_bridge(*address)) {
                outermost.entry(parent).or_insert(bridge);
            }
        }
        let place = |member: &Member| {
            let (first, rest) = member.parents.split_first()?;
            let bridge = outermost.get(first.as_str())?;
            Some(Place::new((*bridge).to_owned(), first.clone(), rest.iter().cloned()))
        };
        self.members.iter().filter_map(|(address, m)| Some((*address, place(m)?))).collect()
    }
}

fn bus_id(element: Node<'_, '_>) -> Result<(String, PciAddress), OverrideError> {
    let Some(written) = element.attribute("busid") else {
        return Err(OverrideError::NoBusId { line: line(element) });
    };
    let lower = written.to_ascii_lowercase();
    match lower.parse() {
        Ok(address) => Ok((lower, address)),
        Err(_) => Err(OverrideError::BusId { line: line(element), found: written.to_owned() }),
    }
}

/// The parser gives no position for a text that ends too early.
fn line_of(error: &roxmltree::Error, text: &str) -> u32 {
    match error {
        roxmltree::Error::UnclosedRootNode => {
            u32::try_from(text.lines().count()).unwrap_or(u32::MAX).max(1)
        }
        _ => error.pos().row,
    }
}

fn line(node: Node<'_, '_>) -> u32 {
    node.document().text_pos_at(node.range().start).row
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(text: &str) -> Vec<String> {
        let bridge = |address: PciAddress| match address.domain {
            0 => Some("pci0000:10"),
            1 => Some("pci0001:00"),
            _ => None,
        };
        let places = Override::parse(text).unwrap().places(bridge);
        places.iter().map(|(address, place)| format!("{address} {place}")).collect()
    }

    #[test]
    fn a_function_takes_the_host_bridge_of_its_lowest_sibling_and_its_parents_as_written() {
        let text = r#"<system version="1"><cpu numaid="0">
            <pci busid="FFFF:FF:01.0" link_width="0" odd="1"><unknown/>
              <pci busid="0001:0A:00.0"><gpu dev="0"/></pci>
              <pci busid="ffff:ff:02.0"><net/><pci busid="0000:0B:00.0"/></pci>
            </pci></cpu><pci busid="0000:0c:00.0"/></system>"#;
        assert_eq!(
            places(text),
            [
                "0000:0b:00.0 pci0000:10/ffff:ff:01.0/ffff:ff:02.0",
                "0001:0a:00.0 pci0000:10/ffff:ff:01.0",
                "ffff:ff:02.0 pci0000:10/ffff:ff:01.0",
            ]
        );
    }

    #[test]
    fn a_function_without_a_pci_parent_keeps_its_place() {
        assert!(places(r#"<system><pci busid="0000:0c:00.0"/></system>"#).is_empty());
    }

    #[test]
    fn a_switch_below_which_nothing_exists_here_gives_no_place() {
        let text =
            r#"<system><pci busid="ffff:ff:01.0"><pci busid="0009:00:00.0"/></pci></system>"#;
        assert!(places(text).is_empty());
    }

    #[test]
    fn an_error_names_the_line_and_what_was_expected() {
        let (open, close) = ("<a>".repeat(80), "</a>".repeat(80));
        let deep = format!("<system>{open}<pci busid='0000:0c:00.0'/>{close}</system>");
        for (text, message) in [
            ("<system>\n<pci", "line 2: "),
            ("", "expected well-formed XML"),
            ("\n<graphs/>", "line 2: <graphs>: expected <system>"),
            (
                "<system>\n\n<pci class='0x03'/></system>",
                "line 3: <pci> without busid: expected busid=",
            ),
            ("<system>\n<pci busid='x'/></system>", "line 2: busid \"x\": expected DDDD:BB:DD.F"),
            (&deep, "expected at most 64 tags"),
            (&"x".repeat(MAX_BYTES + 1), "1048577 bytes: expected at most 1048576"),
            (
                "<system><pci busid='ffff:ff:01.0'><pci busid='0000:01:00.0'/></pci>\n
                 <pci busid='ffff:ff:02.0'><pci busid='0000:01:00.0'/></pci></system>",
                "line 3: 0000:01:00.0 has other parents above",
            ),
        ] {
            let error = Override::parse(text).unwrap_err().to_string();
            assert!(error.contains(message), "{error:?} lacks {message:?}");
        }
    }
}
