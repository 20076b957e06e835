//! Vital product data of a PCI function: the identifier string and the keywords.
//! PCI Local Bus Specification 3.0, appendix I.

use std::collections::BTreeMap;
use std::ops::Range;

const IDENTIFIER: u8 = 0x82;
const READ_ONLY: u8 = 0x90;
const READ_WRITE: u8 = 0x91;
const END: u8 = 0x78;
/// Key of the identifier string among the keywords; no keyword of the specification is called so.
pub(super) const IDENTIFIER_KEY: &str = "ID";

/// Where one value stands in the data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Field {
    /// Keyword, e.g. `V3`.
    pub keyword: String,
    /// Bytes of the value.
    pub value: Range<usize>,
}

/// The data makes no sense from here on; the fields before it stand.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("vital product data makes no sense at byte {0}")]
pub(super) struct VpdError(pub usize);

/// The fields, and the byte after the end mark or the error where the data breaks off. Each round
/// takes at least three bytes, so the length bounds it.
pub(super) fn fields(bytes: &[u8]) -> (Vec<Field>, Result<usize, VpdError>) {
    let mut found = Vec::new();
    let mut at = 0;
    loop {
        let Some(&tag) = bytes.get(at) else { return (found, Err(VpdError(at))) };
        if tag == END {
            return (found, Ok(at + 1));
        }
        let Some(content) = large_resource(bytes, at) else {
            return (found, Err(VpdError(at)));
        };
        match tag {
            IDENTIFIER => {
                let value = content.clone();
                found.push(Field { keyword: IDENTIFIER_KEY.to_owned(), value });
            }
            READ_ONLY | READ_WRITE => {
                if let Err(error) = keywords(bytes, content.clone(), &mut found) {
                    return (found, Err(error));
                }
            }
            _ => return (found, Err(VpdError(at))),
        }
        at = content.end;
    }
}

/// Content of the large resource whose tag stands at a byte; two bytes of length follow the tag.
fn large_resource(bytes: &[u8], at: usize) -> Option<Range<usize>> {
    let length = u16::from_le_bytes([*bytes.get(at + 1)?, *bytes.get(at + 2)?]);
    let content = at + 3..at + 3 + usize::from(length);
    (content.end <= bytes.len()).then_some(content)
}

fn keywords(bytes: &[u8], content: Range<usize>, found: &mut Vec<Field>) -> Result<(), VpdError> {
    let mut at = content.start;
    while at < content.end {
        let head = bytes.get(at..at + 3).ok_or(VpdError(at))?;
        let value = at + 3..at + 3 + usize::from(head[2]);
        let keyword = &head[..2];
        if value.end > content.end || !keyword.iter().all(u8::is_ascii_alphanumeric) {
            return Err(VpdError(at));
        }
        let keyword = String::from_utf8_lossy(keyword).into_owned();
        at = value.end;
        found.push(Field { keyword, value });
    }
    Ok(())
}

/// The values by keyword. Binary ones (`RV`, `RW`) are left out; the first of a keyword counts.
pub(super) fn parse(bytes: &[u8]) -> (BTreeMap<String, String>, Result<(), VpdError>) {
    let (fields, result) = fields(bytes);
    let mut values = BTreeMap::new();
    for Field { keyword, value } in fields {
        let text = bytes.get(value).and_then(|value| std::str::from_utf8(value).ok());
        let Some(text) = text else { continue };
        let text = text.trim_matches(|c: char| c == '\0' || c.is_whitespace());
        if !text.is_empty() && keyword != "RV" && keyword != "RW" {
            values.entry(keyword).or_insert_with(|| text.to_owned());
        }
    }
    (values, result.map(|_| ()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &[u8] =
        b"\x82\x06\x00ConneX\x90\x14\x00PN\x03ABCSN\x02\xff\xfeV3\x02ab\x52V\x01\x00\x78rest";

    #[test]
    fn identifier_and_keywords_are_read_and_values_that_are_no_text_left_out() {
        let (values, result) = parse(SAMPLE);
        let listed: Vec<String> = values.iter().map(|(k, v)| format!("{k}={v}")).collect();
        assert_eq!(listed, ["ID=ConneX", "PN=ABC", "V3=ab"]);
        assert_eq!(result, Ok(()));
    }

    #[test]
    fn broken_data_keeps_what_came_before_and_says_where() {
        for cut in 0..SAMPLE.len() - 5 {
            assert!(parse(&SAMPLE[..cut]).1.is_err(), "{cut}");
        }
        let (values, result) = parse(&SAMPLE[..15]);
        assert_eq!((values.len(), result), (1, Err(VpdError(9))));
        assert_eq!(parse(b"y").1, Err(VpdError(0)));
        assert_eq!(parse(&[0xff; 64]).1, Err(VpdError(0)));
        assert_eq!(parse(b"\x90\x03\x00P\xc3\x00\x78").1, Err(VpdError(3)));
    }
}
