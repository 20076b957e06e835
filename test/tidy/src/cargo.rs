//! What cargo knows: packages, their licences, who imports whom, the declared dependencies.

use std::process::Command;

use serde_json::Value;

use crate::repository;

/// The platform whose dependencies are looked at: the one that releases are built for.
const PLATFORM: &str = "x86_64-unknown-linux-gnu";

/// Name and licence expression of each package in the tree; absent where none is declared.
pub fn licences() -> Result<Vec<(String, Option<String>)>, String> {
    let metadata = metadata()?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata: no packages")?;
    Ok(packages
        .iter()
        .map(|package| {
            let text = |field: &str| package[field].as_str().map(str::to_owned);
            (text("name").unwrap_or_default(), text("license"))
        })
        .collect())
}

/// Importer and imported, for the packages of the workspace; dev-dependencies apart.
pub fn workspace_edges() -> Result<Vec<(String, String)>, String> {
    let metadata = metadata()?;
    let members = metadata["workspace_members"].as_array().ok_or("cargo metadata: no members")?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata: no packages")?;
    let ours: Vec<&Value> =
        packages.iter().filter(|package| members.contains(&package["id"])).collect();
    let mut edges = Vec::new();
    for package in &ours {
        let importer = package["name"].as_str().unwrap_or_default();
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let imported = dependency["name"].as_str().unwrap_or_default();
            let dev = dependency["kind"].as_str() == Some("dev");
            if !dev && ours.iter().any(|other| other["name"] == imported) {
                edges.push((importer.to_owned(), imported.to_owned()));
            }
        }
    }
    Ok(edges)
}

/// Names of all packages below `package` with all its features, dev-dependencies apart.
pub fn tree(package: &str) -> Result<Vec<String>, String> {
    let text = cargo(&[
        "tree",
        "--locked",
        "--package",
        package,
        "--all-features",
        "--edges",
        "normal,build",
        "--target",
        PLATFORM,
        "--prefix",
        "none",
        "--format",
        "{p}",
    ])?;
    Ok(text.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect())
}

/// Keys of `[workspace.dependencies]`, the crates of the workspace apart.
pub fn declared_dependencies() -> Result<Vec<String>, String> {
    let manifest = repository::read("Cargo.toml")?;
    Ok(manifest
        .lines()
        .skip_while(|line| *line != "[workspace.dependencies]")
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .filter(|line| !line.starts_with('#') && !line.contains("path = "))
        .filter_map(|line| line.split_once(" = "))
        .map(|(name, _)| name.to_owned())
        .collect())
}

fn metadata() -> Result<Value, String> {
    let text =
        cargo(&["metadata", "--locked", "--format-version", "1", "--filter-platform", PLATFORM])?;
    serde_json::from_str(&text).map_err(|error| format!("cargo metadata: {error}"))
}

fn cargo(arguments: &[&str]) -> Result<String, String> {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(program)
        .args(arguments)
        .current_dir(repository::root())
        .output()
        .map_err(|error| format!("run cargo {}: {error}", arguments.join(" ")))?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr);
        return Err(format!("cargo {}: {message}", arguments.join(" ")));
    }
    String::from_utf8(output.stdout).map_err(|error| format!("output of cargo: {error}"))
}
