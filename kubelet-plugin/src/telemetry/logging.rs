//! The log: one line an event, on stderr, as JSON or as text. Claims are named by namespace, name and
//! UID, operations by an id of their own; no token and no content of a Secret is ever a field.

use std::io;

use tracing_subscriber::fmt;

use crate::args::LogFormat;
use crate::settings::LogSettings;

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
