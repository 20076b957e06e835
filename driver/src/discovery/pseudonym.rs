//! Replacements for identifying values: counters in the form and length of the value, the same for
//! the same value. Zeros mean "none" and stay.

use std::collections::BTreeMap;

/// What has been replaced so far, by kind.
#[derive(Default)]
pub(super) struct Pseudonyms {
    hardware: BTreeMap<String, String>,
    guids: BTreeMap<String, String>,
    prefixes: BTreeMap<String, String>,
    uuids: BTreeMap<String, String>,
    addresses: BTreeMap<String, String>,
    serials: BTreeMap<String, String>,
}

/// Prefix of link-local addresses and of the default InfiniBand subnet.
const LINK_LOCAL: &str = "fe80000000000000";
/// First 24 digits of an IPv4 address in IPv6 form.
const MAPPED: &str = "00000000000000000000ffff";

impl Pseudonyms {
    /// Groups of two digits: hardware addresses of Ethernet (6 groups) and of IPoIB (4 groups that
    /// tell the queue pair, then a GID); other lengths as serial numbers.
    pub(super) fn pairs(&mut self, text: &str) -> String {
        let digits = text.replace(':', "").to_lowercase();
        let replaced = match digits.len() {
            12 => self.digits(&digits),
            40 => {
                let (queue_pair, gid) = digits.split_at(8);
                queue_pair.to_owned() + &self.gid(gid)
            }
            _ => self.serial(&digits),
        };
        grouped(&replaced, 2)
    }

    /// Groups of four digits: GUIDs (4 groups) and GIDs (8 groups); other lengths as serial
    /// numbers.
    pub(super) fn quads(&mut self, text: &str) -> String {
        let digits = text.replace(':', "").to_lowercase();
        let replaced = match digits.len() {
            16 => self.digits(&digits),
            32 => self.gid(&digits),
            _ => self.serial(&digits),
        };
        grouped(&replaced, 4)
    }

    /// 12 digits of a hardware address or 16 of a GUID, without colons.
    pub(super) fn digits(&mut self, digits: &str) -> String {
        let digits = digits.to_lowercase();
        if digits.len() == 12 {
            // A locally administered address.
            return replace(&mut self.hardware, &digits, |n| format!("02{n:010x}"));
        }
        replace(&mut self.guids, &digits, |n| format!("02{n:014x}"))
    }

    /// 32 digits of a GID or IPv6 address: a prefix, and what identifies the port below it.
    pub(super) fn gid(&mut self, digits: &str) -> String {
        let digits = digits.to_lowercase();
        if let Some(address) = digits.strip_prefix(MAPPED) {
            return MAPPED.to_owned() + &self.ipv4(address);
        }
        let (prefix, port) = digits.split_at_checked(16).unwrap_or((&digits, ""));
        let prefix = match prefix {
            LINK_LOCAL => LINK_LOCAL.to_owned(),
            // A unique local prefix.
            prefix => replace(&mut self.prefixes, prefix, |n| format!("fd{n:014x}")),
        };
        prefix + &self.digits(port)
    }

    /// 8 digits of an IPv4 address.
    pub(super) fn ipv4(&mut self, digits: &str) -> String {
        let key = digits.to_lowercase();
        let replaced = replace(&mut self.addresses, &key, |n| format!("{:08x}", 0x0a00_0000 + n));
        if digits == key { replaced } else { replaced.to_uppercase() }
    }

    /// A UUID with or without dashes: the two forms of one UUID get the two forms of one
    /// replacement.
    pub(super) fn uuid(&mut self, text: &str) -> String {
        let digits = text.replace('-', "").to_lowercase();
        let replaced =
            replace(&mut self.uuids, &digits, |n| format!("00000000000040008000{n:012x}"));
        if !text.contains('-') {
            return replaced;
        }
        let parts = [0..8, 8..12, 12..16, 16..20, 20..32];
        parts.map(|part| replaced.get(part).unwrap_or_default().to_owned()).join("-")
    }

    /// Any other value: a number of the same length, cut from the left when the value is too short
    /// for it.
    pub(super) fn serial(&mut self, text: &str) -> String {
        let length = text.chars().count();
        replace(&mut self.serials, text, |n| {
            let padded = format!("{n:0>length$}");
            padded.get(padded.len() - length..).unwrap_or_default().to_owned()
        })
    }
}

/// The replacement of a value; values of zeros (or ones, for broadcast) alone say nothing and stay.
fn replace(
    table: &mut BTreeMap<String, String>,
    value: &str,
    make: impl FnOnce(usize) -> String,
) -> String {
    if value.bytes().all(|digit| digit == b'0') || value.bytes().all(|digit| digit == b'f') {
        return value.to_owned();
    }
    if let Some(known) = table.get(value) {
        return known.clone();
    }
    let made = make(table.len() + 1);
    table.insert(value.to_owned(), made.clone());
    made
}

/// Digits in groups with colons between them.
fn grouped(digits: &str, size: usize) -> String {
    let digits: Vec<char> = digits.chars().collect();
    digits.chunks(size).map(String::from_iter).collect::<Vec<_>>().join(":")
}
