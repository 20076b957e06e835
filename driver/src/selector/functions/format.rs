//! Named formats of Kubernetes: `format.dns1123Label().validate(text)` is none where the text fits.

use super::super::eval::no_overload;
use super::super::value::{Budget, Evaluated, Value};
use super::{Declaration, global, member};

pub(super) const FUNCTIONS: &[Declaration] = &[
    global("format.named", "string -> optional(format)", named),
    global("format.dns1123Label", "-> format", |_, _| Ok(Value::Format(Format::Dns1123Label))),
    global("format.dns1123Subdomain", "-> format", |_, _| {
        Ok(Value::Format(Format::Dns1123Subdomain))
    }),
    global("format.dns1035Label", "-> format", |_, _| Ok(Value::Format(Format::Dns1035Label))),
    global("format.qualifiedName", "-> format", |_, _| Ok(Value::Format(Format::QualifiedName))),
    global("format.labelValue", "-> format", |_, _| Ok(Value::Format(Format::LabelValue))),
    global("format.uuid", "-> format", |_, _| Ok(Value::Format(Format::Uuid))),
    member("validate", "format, string -> optional(list(string))", validate),
];

/// A format that a text may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Format {
    Dns1123Label,
    Dns1123Subdomain,
    Dns1035Label,
    QualifiedName,
    LabelValue,
    Uuid,
}

impl Format {
    const NAMED: [(&str, Format); 6] = [
        ("dns1123Label", Self::Dns1123Label),
        ("dns1123Subdomain", Self::Dns1123Subdomain),
        ("dns1035Label", Self::Dns1035Label),
        ("qualifiedName", Self::QualifiedName),
        ("labelValue", Self::LabelValue),
        ("uuid", Self::Uuid),
    ];

    fn fits(self, text: &str) -> bool {
        match self {
            Self::Dns1123Label => is_label(text),
            Self::Dns1123Subdomain => is_subdomain(text),
            Self::Dns1035Label => {
                is_label(text) && text.starts_with(|c: char| c.is_ascii_lowercase())
            }
            Self::QualifiedName => match text.split_once('/') {
                Some((prefix, name)) => is_subdomain(prefix) && is_name(name),
                None => is_name(text),
            },
            Self::LabelValue => text.is_empty() || is_name(text),
            Self::Uuid => is_uuid(text),
        }
    }

    fn name(self) -> &'static str {
        let found = Self::NAMED.iter().find(|(_, format)| *format == self);
        found.map_or("format", |(name, _)| name)
    }
}

/// Lower-case letters, digits and inner hyphens, at most 63.
fn is_label(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=63).contains(&text.len())
        && text.chars().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// Labels without a limit of their own, at most 253 characters together.
fn is_subdomain(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let label = |label: &str| {
        !label.is_empty()
            && label.chars().all(inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(label)
}

/// Letters, digits and inner `-`, `_` and `.`, at most 63.
fn is_name(text: &str) -> bool {
    let outer = |c: char| c.is_ascii_alphanumeric();
    (1..=63).contains(&text.len())
        && text.chars().all(|c| outer(c) || matches!(c, '-' | '_' | '.'))
        && text.starts_with(outer)
        && text.ends_with(outer)
}

/// Hexadecimal digits in groups of 8, 4, 4, 4 and 12.
fn is_uuid(text: &str) -> bool {
    let groups: Vec<&str> = text.split('-').collect();
    groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12])
        && groups.iter().all(|group| group.bytes().all(|digit| digit.is_ascii_hexdigit()))
}

fn named<'a>(args: &[Value<'a>], _: &mut Budget) -> Evaluated<'a> {
    let [Value::Text(name)] = args else { return Err(no_overload("format.named", args)) };
    let found = Format::NAMED.iter().find(|(known, _)| **known == **name);
    Ok(found.map_or(Value::NONE, |(_, format)| Value::some(Value::Format(*format))))
}

fn validate<'a>(args: &[Value<'a>], budget: &mut Budget) -> Evaluated<'a> {
    let [Value::Format(format), Value::Text(text)] = args else {
        return Err(no_overload("validate", args));
    };
    budget.spend_text(text.len())?;
    if format.fits(text) {
        return Ok(Value::NONE);
    }
    let problem = std::format!("{text:?} is no {}", format.name());
    Ok(Value::some(Value::list(vec![Value::text(problem)], budget)?))
}
