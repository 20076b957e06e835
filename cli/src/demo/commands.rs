//! The commands that repeat the demonstration, as a shell takes them.

use std::ffi::OsStr;
use std::path::{MAIN_SEPARATOR, Path};

/// The captured machine.
pub const HOST: &str = "dgx-h100.yaml";
/// The ResourceClass.
pub const CLASS: &str = "class.yaml";
/// The claims.
pub const CLAIMS: &str = "claims.yaml";
/// What the node publishes.
pub const SLICES: &str = "slices.yaml";
/// Directory of the CDI specs.
pub const CDI: &str = "cdi";

/// File of an allocated claim.
pub fn claim_file(claim: &str) -> String {
    format!("{claim}.yaml")
}

/// One command a line; they start in the directory with the files.
pub fn listed(dir: &Path, claim: &str) -> String {
    let claim = claim_file(claim);
    let (program, found) = program();
    let mut lines: Vec<String> = Vec::new();
    lines.extend(found.map(|folder| format!("export PATH={}:\"$PATH\"", quoted(&folder))));
    lines.push(format!("cd {}", quoted(&dir.display().to_string())));
    lines.extend([
        format!("{program} topology --host {HOST}"),
        format!("{program} slices --host {HOST}"),
        format!("{program} plan -f {CLASS} {CLAIMS} --host {HOST} --explain"),
        format!("{program} prepare --host {HOST} --claim {claim} --cdi-root {CDI}"),
    ]);
    lines.iter().map(|line| format!("  {line}\n")).collect()
}

/// How the user calls the program, and the folder that a shell has to look for it in.
fn program() -> (String, Option<String>) {
    let called = std::env::args_os().next().unwrap_or_default();
    let name = Path::new(&called).file_name().and_then(OsStr::to_str).unwrap_or("lanemate");
    if let Some(plugin) = name.strip_prefix("kubectl-") {
        return (format!("kubectl {plugin}"), None);
    }
    let by_path = called.to_string_lossy().contains(MAIN_SEPARATOR);
    let here = by_path.then(|| std::env::current_exe().ok()).flatten();
    let folder = here.and_then(|path| Some(path.parent()?.display().to_string()));
    (quoted(name), folder)
}

/// A word as a POSIX shell reads it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_survive_the_shell() {
        for (word, expect) in [
            ("/tmp/lanemate-demo-1", "/tmp/lanemate-demo-1"),
            ("", "''"),
            ("/tmp/my demo", "'/tmp/my demo'"),
            ("it's", r"'it'\''s'"),
            ("a$b", "'a$b'"),
        ] {
            assert_eq!(quoted(word), expect);
        }
    }
}
