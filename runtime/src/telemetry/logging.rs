//! The log: one line an event, on stderr, as JSON or as text. Claims are named by namespace, name and
//! UID, operations by an id of their own; no token and no content of a Secret is ever a field.

use std::io;

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt;

/// The log.
#[derive(Debug, Default)]
pub struct LogSettings {
    /// One JSON object, or one line of text.
    pub format: LogFormat,
    /// What is told.
    pub filter: EnvFilter,
}

/// Form of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One object a line
    #[default]
    Json,
    /// For people
    Text,
}

/// What is told, from the text of a flag; absent where the text names no level.
pub fn filter(level: &str) -> Option<EnvFilter> {
    // Its failed requests are told by those who made them, with what they were for.
    match level.contains("kube_client") {
        true => EnvFilter::try_new(level).ok(),
        false => EnvFilter::try_new(format!("{level},kube_client::client::builder=off")).ok(),
    }
}

/// Begins to log. Only the first call of a process has an effect.
pub fn begin(settings: LogSettings) {
    let log = fmt().with_env_filter(settings.filter).with_writer(io::stderr);
    let begun = match settings.format {
        LogFormat::Json => log.json().flatten_event(true).with_span_list(false).try_init(),
        LogFormat::Text => log.try_init(),
    };
    if let Err(error) = begun {
        tracing::warn!(%error, "the log has another form than asked for");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_requests_of_the_client_are_told_only_by_those_who_made_them() {
        let quiet = filter("info").unwrap().to_string();
        assert!(quiet.contains("kube_client::client::builder=off"), "{quiet}");
        let asked = filter("info,kube_client=debug").unwrap().to_string();
        assert!(!asked.contains("off"), "{asked}");
        assert!(filter("info,a=b=c").is_none());
    }
}
