//! URLs: absolute ones with a scheme, and absolute paths.

use std::sync::Arc;

use super::super::error::EvalError;
use super::super::eval::no_overload;
use super::super::value::{Budget, Evaluated, Value};
use super::{Declaration, global, member};

pub(super) const FUNCTIONS: &[Declaration] = &[
    global("url", "string -> url", url),
    global("isURL", "string -> bool", |args, budget| {
        budget.spend_text(text(args, "isURL")?.len())?;
        Ok(Value::Bool(Url::parse(text(args, "isURL")?).is_some()))
    }),
    member("getScheme", "url -> string", |args, budget| part(args, |url| &url.scheme, budget)),
    member("getHost", "url -> string", |args, budget| part(args, |url| &url.host, budget)),
    member("getHostname", "url -> string", |args, budget| part(args, Url::hostname, budget)),
    member("getPort", "url -> string", |args, budget| part(args, Url::port, budget)),
    member("getEscapedPath", "url -> string", |args, budget| part(args, |url| &url.path, budget)),
    member("getQuery", "url -> map(string, list(string))", query),
];

/// The parts of a URL.
#[derive(Debug, PartialEq, Eq)]
pub(in super::super) struct Url {
    scheme: String,
    /// With its port.
    host: String,
    path: String,
    query: String,
}

impl Url {
    fn parse(text: &str) -> Option<Self> {
        let bad = |c: char| c.is_ascii_control() || matches!(c, ' ' | '"' | '<' | '>');
        if text.is_empty() || text.contains(bad) || !escapes_are_whole(text) {
            return None;
        }
        let (scheme, rest) = match text.split_once(':') {
            _ if text.starts_with('/') => ("", text),
            Some((scheme, rest)) if is_scheme(scheme) => (scheme, rest),
            _ => return None,
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (host, path) = match rest.strip_prefix("//") {
            Some(rest) if !scheme.is_empty() => {
                let end = rest.find('/').unwrap_or(rest.len());
                rest.split_at_checked(end)?
            }
            _ if rest.starts_with('/') => ("", rest),
            _ => return None,
        };
        let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
        let url = Self {
            scheme: scheme.to_ascii_lowercase(),
            host: host.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
        };
        url.port().bytes().all(|digit| digit.is_ascii_digit()).then_some(url)
    }

    /// The host without brackets and port.
    fn hostname(&self) -> &str {
        match self.host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((address, _)) => address,
            None => self.host.split_once(':').map_or(&self.host, |(name, _)| name),
        }
    }

    fn port(&self) -> &str {
        let behind = self.host.rsplit_once(']').map_or(self.host.as_str(), |(_, rest)| rest);
        behind.split_once(':').map_or("", |(_, port)| port)
    }
}

fn is_scheme(scheme: &str) -> bool {
    scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
}

fn escapes_are_whole(text: &str) -> bool {
    let mut parts = text.split('%').skip(1);
    parts.all(|part| {
        part.get(..2).is_some_and(|code| code.bytes().all(|digit| digit.is_ascii_hexdigit()))
    })
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
    match Url::parse(text) {
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

/// Each key of the query with its values in order.
fn query<'a>(args: &[Value<'a>], budget: &mut Budget) -> Evaluated<'a> {
    let [Value::Url(url)] = args else { return Err(no_overload("getQuery", args)) };
    budget.spend(url.query.len())?;
    let mut entries: std::collections::BTreeMap<String, Vec<Value<'a>>> = Default::default();
    for pair in url.query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        entries.entry(unescaped(key)).or_default().push(Value::text(unescaped(value)));
    }
    let entries = entries.into_iter();
    Ok(Value::Map(
        entries.map(|(key, values)| (Value::text(key), Value::List(values.into()))).collect(),
    ))
}

/// Percent escapes, and `+` for a space.
fn unescaped(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || rest.next().and_then(|d| char::from(d).to_digit(16));
                let code = digit().zip(digit()).map(|(high, low)| high * 16 + low);
                code.and_then(|code| u8::try_from(code).ok()).unwrap_or(b'%')
            }
            other => other,
        });
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
