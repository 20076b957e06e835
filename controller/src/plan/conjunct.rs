//! Reads `device.driver == "x"` off a CEL expression, where it is one of the operands of a conjunction.

/// The driver that every device has for which the expression is true, as far as one operand of its outermost `&&` says
/// so plainly. Absent also where the text has forms that are not read here: the caller then goes by devices.
pub fn named_driver(expression: &str) -> Option<String> {
    operands(expression)?.into_iter().find_map(driver_of)
}

/// The operands of the outermost conjunction; none where the outermost operator is another one.
fn operands(expression: &str) -> Option<Vec<&str>> {
    let bytes = expression.as_bytes();
    let mut operands = Vec::new();
    let (mut start, mut at, mut depth) = (0, 0, 0_usize);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' | b'\'' => {
                at = after_text(bytes, at)?;
                continue;
            }
            // A comment may hold anything.
            b'/' if bytes.get(at + 1) == Some(&b'/') => return None,
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.checked_sub(1)?,
            b'?' | b'|' if depth == 0 => return None,
            b'&' if depth == 0 => {
                operands.push(expression.get(start..at)?);
                at += 1;
                start = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    operands.push(expression.get(start..)?);
    Some(operands)
}

/// The byte after a text that begins at a quote; none for raw and triple-quoted texts.
fn after_text(bytes: &[u8], start: usize) -> Option<usize> {
    let quote = bytes.get(start)?;
    let before = start.checked_sub(1).and_then(|before| bytes.get(before));
    let is_prefixed = before.is_some_and(u8::is_ascii_alphanumeric);
    let is_triple = bytes.get(start + 1) == Some(quote) && bytes.get(start + 2) == Some(quote);
    if is_prefixed || is_triple {
        return None;
    }
    let mut at = start + 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 1,
            byte if byte == quote => return Some(at + 1),
            _ => {}
        }
        at += 1;
    }
    None
}

/// The driver of an operand of the form `device.driver == "x"`, in either order, with brackets around it or none.
fn driver_of(operand: &str) -> Option<String> {
    let mut operand = operand.trim();
    while let Some(inner) = operand.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
        operand = inner.trim();
    }
    let (left, right) = operand.split_once("==")?;
    let (left, right) = (left.trim(), right.trim());
    let text = match (left, right) {
        ("device.driver", text) | (text, "device.driver") => text,
        _ => return None,
    };
    let quoted = |quote: char| text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
    let name = quoted('"').or_else(|| quoted('\''))?;
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '.' || c == '-';
    (!name.is_empty() && name.chars().all(is_plain)).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_is_read_only_where_the_conjunction_says_so() {
        for (expression, driver) in [
            (r#"device.driver == "x""#, Some("x")),
            (r"'gpu.example.com' == device.driver", Some("gpu.example.com")),
            (r#"(device.driver == "x") && device.attributes["x"].a == "b && c""#, Some("x")),
            (r#"a.b.exists(d, d || false) && device.driver=="x""#, Some("x")),
            (r#"device.driver == "x" || true"#, None),
            (r#"device.driver == "x" && a || b"#, None),
            (r#"a ? device.driver == "x" : b"#, None),
            (r#"!(device.driver == "x")"#, None),
            (r#"device.driver != "x""#, None),
            (r#"device.driver == "x" == false"#, None),
            (r#"(device.driver == "x") == (device.driver == "y")"#, None),
            (r#"device.driver == "x" + "y""#, None),
            (r#"size("device.driver == \"x\" && ") > 1"#, None),
            (r#"device.driver == r"x""#, None),
            (r#"device.driver == """x""""#, None),
            ("true // && device.driver == \"x\"", None),
            ("", None),
        ] {
            assert_eq!(named_driver(expression).as_deref(), driver, "{expression}");
        }
    }
}
