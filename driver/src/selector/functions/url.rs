//! URLs, read as Go's `net/url` does: with a scheme, or absolute paths.

use std::net::Ipv6Addr;
use std::sync::Arc;

use super::super::error::EvalError;
use super::super::eval::no_overload;
use super::super::value::{Budget, Evaluated, Value};
use super::{Declaration, global, member};

pub(super) const FUNCTIONS: &[Declaration] = &[
    global("url", "string -> url", url),
    global("isURL", "string -> bool", |args, budget| {
        let text = text(args, "isURL")?;
        budget.spend_text(text.len())?;
        Ok(Value::Bool(is_request(text)))
    }),
    member("getScheme", "url -> string", |args, budget| part(args, |url| &url.scheme, budget)),
    member("getHost", "url -> string", |args, budget| part(args, |url| &url.host, budget)),
    member("getHostname", "url -> string", |args, budget| {
        part(args, |url| url.host_and_port().0, budget)
    }),
    member("getPort", "url -> string", |args, budget| {
        part(args, |url| url.host_and_port().1, budget)
    }),
    member("getEscapedPath", "url -> string", |args, budget| part(args, |url| &url.path, budget)),
    member("getQuery", "url -> map(string, list(string))", query),
];

/// The parts of a URL.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Url {
    scheme: String,
    /// What follows a scheme without a slash.
    opaque: String,
    /// Before the host, as written.
    user: Option<String>,
    /// With its port, without escapes.
    host: String,
    /// With escapes.
    path: String,
    query: Option<String>,
    /// As written.
    fragment: String,
}

/// Whether a text may stand in a request: a URL with a scheme, or an absolute path. A fragment is part
/// of what is before it.
pub(super) fn is_request(text: &str) -> bool {
    !text.is_empty() && Url::without_fragment(text, true).is_some()
}

impl Url {
    fn parse(text: &str) -> Option<Self> {
        let (text, fragment) = text.split_once('#').unwrap_or((text, ""));
        let url = Self::without_fragment(text, false)?;
        unescaped(fragment, Part::Other)?;
        Some(Self { fragment: fragment.to_owned(), ..url })
    }

    fn without_fragment(text: &str, request: bool) -> Option<Self> {
        if text.contains(|c: char| c.is_ascii_control()) {
            return None;
        }
        if text == "*" {
            return Some(Self { path: text.to_owned(), ..Self::default() });
        }
        let (scheme, rest) = split_scheme(text)?;
        let (rest, query) = match rest.split_once('?') {
            Some((rest, query)) => (rest, Some(query.to_owned())),
            None => (rest, None),
        };
        let mut url = Self { scheme: scheme.to_ascii_lowercase(), query, ..Self::default() };
        if !rest.starts_with('/') {
            if !scheme.is_empty() {
                url.opaque = rest.to_owned();
                return Some(url);
            }
            let first = rest.split('/').next().unwrap_or_default();
            let path = if request || first.contains(':') { None } else { escaped_path(rest) };
            return Some(Self { path: path?, ..url });
        }
        let has_host = !scheme.is_empty() || !request && !rest.starts_with("///");
        let mut path = rest;
        if let Some(behind) = rest.strip_prefix("//").filter(|_| has_host) {
            let (authority, after) = behind.split_at(behind.find('/').unwrap_or(behind.len()));
            let (user, host) = match authority.rsplit_once('@') {
                Some((user, host)) => (Some(user), host),
                None => (None, authority),
            };
            if user.is_some_and(|user| !is_user(user)) {
                return None;
            }
            url.user = user.map(str::to_owned);
            url.host = read_host(&url.scheme, host)?;
            path = after;
        }
        Some(Self { path: escaped_path(path)?, ..url })
    }

    /// The host without brackets, and its port.
    fn host_and_port(&self) -> (&str, &str) {
        let (host, port) = match self.host.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => (host, port),
            _ => (self.host.as_str(), ""),
        };
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        (bare.unwrap_or(host), port)
    }
}

/// A scheme and what follows it; an empty one where there is none, and nothing where it is missing.
fn split_scheme(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '+' | '-' | '.'));
    match end.and_then(|end| text.split_at_checked(end)) {
        Some(("", rest)) if rest.starts_with(':') => None,
        Some((scheme, rest))
            if rest.starts_with(':') && scheme.starts_with(|c: char| c.is_ascii_alphabetic()) =>
        {
            Some((scheme, rest.get(1..)?))
        }
        _ => Some(("", text)),
    }
}

fn is_user(user: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c);
    user.chars().all(fits) && unescaped(user, Part::Other).is_some()
}

fn is_port(port: &str) -> bool {
    let digits = |port: &str| port.bytes().all(|b| b.is_ascii_digit());
    port.is_empty() || port.strip_prefix(':').is_some_and(digits)
}

fn read_host(scheme: &str, host: &str) -> Option<String> {
    if let Some(literal) = host.strip_prefix('[').filter(|literal| !literal.contains('[')) {
        let (address, port) = literal.rsplit_once(']')?;
        let zone = address.find("%25").unwrap_or(address.len());
        let (address, zone) = address.split_at(zone);
        let address = unescaped(address, Part::Host)?;
        let zone = unescaped(zone, Part::Zone)?;
        let bare = address.split('%').next().unwrap_or_default();
        let named = zone != "%" && !address.ends_with('%');
        bare.parse::<Ipv6Addr>().ok()?;
        return (is_port(port) && named).then(|| format!("[{address}{zone}]{port}"));
    }
    if host.contains('[') {
        return None;
    }
    // Only with HTTP may a host have no other colon.
    let colon = if matches!(scheme, "http" | "https") { host.find(':') } else { host.rfind(':') };
    let port = host.get(colon.unwrap_or(host.len())..).unwrap_or_default();
    if is_port(port) { unescaped(host, Part::Host) } else { None }
}

/// Which part of a URL is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Host,
    Zone,
    /// `+` is a blank.
    Query,
    Other,
}

fn is_of_host(byte: u8) -> bool {
    !byte.is_ascii() || byte.is_ascii_alphanumeric() || b"!\"$&'()*+,-.:;<=>[]_~".contains(&byte)
}

/// Resolves percent escapes.
fn unescaped(text: &str, part: Part) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let mut digit = || rest.next().and_then(|d| char::from(d).to_digit(16));
                let code = u8::try_from(digit()? * 16 + digit()?).ok()?;
                let allowed = match part {
                    // Only what could not be written otherwise, and the sign itself.
                    Part::Host => code >= 0x80 || code == b'%',
                    Part::Zone => {
                        code == b'%' || code == b' ' || code.is_ascii() && is_of_host(code)
                    }
                    Part::Query | Part::Other => true,
                };
                allowed.then_some(code)?
            }
            b'+' if part == Part::Query => b' ',
            byte if matches!(part, Part::Host | Part::Zone) && !is_of_host(byte) => return None,
            other => other,
        });
    }
    Some(
        String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()),
    )
}

/// A path as it is written if all of it may be written so, else with every escape that it needs.
fn escaped_path(path: &str) -> Option<String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~$&+,/:;=@".contains(&byte);
    let bytes = unescaped(path, Part::Other)?;
    if path.bytes().all(|byte| plain(byte) || b"!'()*[]%".contains(&byte)) {
        return Some(path.to_owned());
    }
    let escaped = bytes.bytes().map(|byte| match plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    });
    Some(escaped.collect())
}

fn text<'v>(args: &'v [Value<'_>], function: &str) -> Result<&'v str, EvalError> {
    match args {
        [Value::Text(text)] => Ok(text),
        _ => Err(no_overload(function, args)),
    }
}

fn url<'a>(args: &[Value<'a>], budget: &mut Budget) -> Evaluated<'a> {
    let text = text(args, "url")?;
    budget.spend_text(text.len())?;
    match Url::parse(text).filter(|_| is_request(text)) {
        Some(url) => Ok(Value::Url(Arc::new(url))),
        None => Err(EvalError::Refused {
            function: "url",
            problem: format!("{text:?} is no absolute URL or path"),
        }),
    }
}

fn part<'a>(args: &[Value<'a>], part: fn(&Url) -> &str, budget: &mut Budget) -> Evaluated<'a> {
    match args {
        [Value::Url(url)] => Value::built(part(url).to_owned(), budget),
        _ => Err(no_overload("url part", args)),
    }
}

/// Each key of the query with its values in order. What is malformed is left out.
fn query<'a>(args: &[Value<'a>], budget: &mut Budget) -> Evaluated<'a> {
    let [Value::Url(url)] = args else { return Err(no_overload("getQuery", args)) };
    let query = url.query.as_deref().unwrap_or_default();
    budget.spend(query.len())?;
    let mut entries: std::collections::BTreeMap<String, Vec<Value<'a>>> = Default::default();
    for pair in query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let pair = unescaped(key, Part::Query).zip(unescaped(value, Part::Query));
        if let Some((key, value)) = pair {
            entries.entry(key).or_default().push(Value::text(value));
        }
    }
    let entries = entries.into_iter();
    Ok(Value::Map(
        entries.map(|(key, values)| (Value::text(key), Value::List(values.into()))).collect(),
    ))
}
