//! The rules, each over the whole repository.

use lanemate_tidy::repository::TextFile;
use lanemate_tidy::{cargo, licence, markdown, repository, rust_source};

const LONGEST_FILE: usize = 400;
const LONGEST_FUNCTION: usize = 60;
/// The only files of the core that touch the world.
const RIM: [&str; 3] =
    ["driver/src/discovery/host.rs", "driver/src/discovery/nvml.rs", "driver/src/files.rs"];
const EMPTY_NAMES: [&str; 7] = ["util", "utils", "common", "helper", "helpers", "manager", "misc"];

fn check(rule: &str, violations: Vec<String>) {
    assert!(violations.is_empty(), "{rule}:\n  {}", violations.join("\n  "));
}

fn text_files() -> Vec<TextFile> {
    let files = repository::text_files().unwrap_or_else(|error| panic!("{error}"));
    assert!(files.iter().any(|file| file.path == "api/src/lib.rs"), "the walk missed the crates");
    files
}

fn rust_files() -> Vec<TextFile> {
    text_files().into_iter().filter(TextFile::is_rust).collect()
}

/// One line for each file in which `find` finds something.
fn violations<T: std::fmt::Display>(
    files: &[TextFile],
    find: impl Fn(&TextFile) -> Vec<T>,
) -> Vec<String> {
    let found = |file: &TextFile| {
        find(file).into_iter().map(|what| format!("{}: {what}", file.path)).collect::<Vec<_>>()
    };
    files.iter().flat_map(found).collect()
}

#[test]
fn every_rust_file_starts_with_a_sentence_that_says_what_it_is_for() {
    let found = violations(&rust_files(), |file| {
        let first = file.text.lines().next().unwrap_or_default();
        if first.starts_with("//! ") { vec![] } else { vec![format!("starts with {first:?}")] }
    });
    check("the first line is a //! sentence", found);
}

#[test]
fn files_are_short() {
    let found = violations(&rust_files(), |file| {
        let lines = rust_source::before_tests(&file.text).lines().count();
        if lines <= LONGEST_FILE || file.is_test() || file.is_generated() {
            vec![]
        } else {
            vec![lines]
        }
    });
    check(&format!("a file has at most {LONGEST_FILE} lines before its tests"), found);
}

#[test]
fn functions_are_short() {
    let found = violations(&rust_files(), |file| {
        if file.is_test() || file.is_generated() {
            return vec![];
        }
        let code = rust_source::code_only(&rust_source::before_tests(&file.text));
        let long = |function: &rust_source::Function| function.lines > LONGEST_FUNCTION;
        let functions = rust_source::functions(&code).into_iter().filter(long);
        functions.map(|f| format!("line {}: fn {}: {} lines", f.line, f.name, f.lines)).collect()
    });
    check(&format!("a function has at most {LONGEST_FUNCTION} lines"), found);
}

#[test]
fn imports_go_from_the_rim_to_the_core() {
    let order = [
        &["lanemate-api"][..],
        &["lanemate-driver", "lanemate-runtime"],
        &["lanemate", "lanemate-controller", "lanemate-kubelet-plugin"],
    ];
    let rank = |name: &str| order.iter().position(|level| level.contains(&name));
    let edges = cargo::workspace_edges().unwrap_or_else(|error| panic!("{error}"));
    let found = edges
        .into_iter()
        .filter(|(importer, imported)| match (rank(importer), rank(imported)) {
            (Some(above), Some(below)) => above <= below,
            // Crates below test/ may import all, and nothing imports them.
            (None, _) => false,
            (Some(_), None) => true,
        })
        .map(|(importer, imported)| format!("{importer} imports {imported}"))
        .collect();
    check(
        "api <- driver, runtime <- cli, controller, kubelet-plugin, and nothing imports a test crate",
        found,
    );
}

#[test]
fn the_core_has_no_runtime_and_no_client_below_it() {
    let banned = ["tokio", "tonic", "hyper", "kube-client", "kube-runtime"];
    let mut found = Vec::new();
    for package in ["lanemate-api", "lanemate-driver"] {
        let tree = cargo::tree(package).unwrap_or_else(|error| panic!("{error}"));
        assert!(tree.iter().any(|name| name == "k8s-openapi"), "{package}: {tree:?}");
        for name in banned.iter().filter(|banned| tree.iter().any(|name| name == *banned)) {
            found.push(format!("{package} depends on {name}"));
        }
    }
    check("api and driver compute; the binaries talk", found);
}

/// `testing` is compiled for tests and benchmarks alone; it reads the captured machines.
#[test]
fn only_the_rim_of_the_driver_touches_files_environment_and_clock() {
    let files: Vec<TextFile> = rust_files()
        .into_iter()
        .filter(|file| file.path.starts_with("driver/src/") && !file.is_test())
        .filter(|file| !RIM.contains(&file.path.as_str()) && !file.path.contains("/testing"))
        .collect();
    assert!(files.len() > 10, "the walk missed the driver");
    let found = violations(&files, |file| {
        world_words(&rust_source::code_only(&rust_source::before_tests(&file.text)))
    });
    check(&format!("files, environment and clock are read in {RIM:?} alone"), found);
}

/// The ways to the world that the code names, imports such as `use std::{env, fs}` included.
fn world_words(code: &str) -> Vec<&'static str> {
    let modules = ["fs", "env", "process"];
    let types = ["SystemTime", "Instant"];
    let mut found: Vec<&str> = code
        .split(';')
        .filter_map(|statement| statement.rsplit_once("use std::{"))
        .flat_map(|(_, list)| {
            modules
                .into_iter()
                .filter(|module| rust_source::words(list).any(|word| word == *module))
        })
        .collect();
    for module in modules {
        let path = ["std::", module].concat();
        if code.match_indices(&path).any(|(at, _)| {
            let next = code[at + path.len()..].chars().next();
            !next.is_some_and(|symbol| symbol.is_alphanumeric() || symbol == '_')
        }) {
            found.push(module);
        }
    }
    found.extend(
        types.into_iter().filter(|name| rust_source::words(code).any(|word| word == *name)),
    );
    found
}

#[test]
fn the_ways_to_the_world_are_recognised() {
    for (code, expect) in [
        ("use std::fs;", vec!["fs"]),
        ("use std::fs::File;", vec!["fs"]),
        ("use std::{collections::BTreeMap, env};", vec!["env"]),
        ("let a = std::env::var(x);", vec!["env"]),
        ("std::time::Instant::now()", vec!["Instant"]),
        ("use std::fmt; let fs = env!();", vec![]),
        ("use std::{fmt, io}; fs.read();", vec![]),
        ("std::fsx::y", vec![]),
    ] {
        assert_eq!(world_words(code), expect, "{code}");
    }
}

#[test]
fn nothing_is_left_for_later() {
    let macros = ["todo", "unimplemented", "dbg"].map(|name| format!("{name}!"));
    let attributes = ["#[ignore", "#[allow(dead_code"].map(str::to_owned);
    let notes = [concat!("TO", "DO"), concat!("FIX", "ME")];
    let found = violations(&rust_files(), |file| {
        let code = rust_source::code_only(&file.text);
        let in_code = macros.iter().chain(&attributes).filter(|word| code.contains(*word)).cloned();
        let in_text = notes
            .iter()
            .filter(|note| rust_source::words(&file.text).any(|word| word == **note))
            .map(|note| (*note).to_owned());
        in_code.chain(in_text).collect()
    });
    check("no stubs, no notes to self, no skipped tests", found);
}

#[test]
fn modules_are_named_by_what_they_do() {
    let found = violations(&rust_files(), |file| {
        let path = file.path.trim_end_matches(".rs");
        let code = rust_source::code_only(&file.text);
        let words: Vec<&str> = rust_source::words(&code).collect();
        let inline = words.windows(2).filter(|pair| pair[0] == "mod").map(|pair| pair[1]);
        inline
            .chain(path.split('/'))
            .filter(|n| EMPTY_NAMES.contains(n))
            .map(str::to_owned)
            .collect()
    });
    check(&format!("no module is called {EMPTY_NAMES:?}"), found);
}

#[test]
fn no_file_names_a_path_of_one_machine() {
    let paths = [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/")];
    let found = violations(&text_files(), |file| {
        paths.into_iter().filter(|path| file.text.contains(path)).collect()
    });
    check("paths are relative to the repository", found);
}

#[test]
fn every_dependency_has_a_reason_in_the_architecture_page() {
    let page = repository::read("ARCHITECTURE.md").unwrap_or_else(|error| panic!("{error}"));
    let declared = cargo::declared_dependencies().unwrap_or_else(|error| panic!("{error}"));
    assert!(declared.iter().any(|name| name == "serde"), "{declared:?}");
    let reason = |name: &str| {
        page.lines()
            .filter_map(|line| line.strip_prefix(&format!("| `{name}` |")))
            .any(|rest| rust_source::words(rest).count() >= 3)
    };
    let missing = declared.iter().filter(|name| !reason(name)).cloned().collect();
    check("ARCHITECTURE.md has a row \"| `name` | reason |\" for each dependency", missing);
    let stale = page
        .lines()
        .skip_while(|line| !line.starts_with("## Dependencies"))
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`'))
        .map(|(name, _)| name.to_owned())
        .filter(|name| !declared.contains(name))
        .collect();
    check("ARCHITECTURE.md names only dependencies that are declared", stale);
}

#[test]
fn every_published_attribute_is_described_for_users() {
    let source = repository::read("api/src/attribute.rs").unwrap_or_else(|error| panic!("{error}"));
    let page = repository::read("docs/user/topology.md").unwrap_or_else(|error| panic!("{error}"));
    let names: Vec<&str> = source
        .lines()
        .filter(|line| line.starts_with("pub const "))
        .filter_map(|line| line.split('"').nth(1))
        .collect();
    assert!(names.len() >= 30, "{names:?}");
    let missing = names
        .into_iter()
        .filter(|name| !page.contains(&format!("`{name}`")))
        .map(|name| format!("`{name}`"))
        .collect();
    check("docs/user/topology.md names each attribute of api/src/attribute.rs", missing);
}

/// Links relative to a page, and paths below `docs` in its words.
#[test]
fn what_a_page_points_to_exists() {
    let pages: Vec<TextFile> =
        text_files().into_iter().filter(|file| file.path.ends_with(".md")).collect();
    assert!(pages.len() > 30, "the walk missed the pages");
    let found = violations(&pages, |page| {
        let folder = page.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let links = markdown::links(&page.text).into_iter();
        let links = links.map(|link| (link.clone(), format!("{folder}/{link}")));
        let paths = markdown::paths(&page.text).into_iter().map(|path| (path.clone(), path));
        let missing = links
            .chain(paths)
            .filter(|(_, path)| !repository::root().join(path.trim_start_matches('/')).exists());
        missing.map(|(shown, _)| shown).collect()
    });
    check("links lead to files, and docs/... names one", found);
}

#[test]
fn every_licence_is_allowed_and_every_allowed_licence_is_needed() {
    let allowed = licence::allowed().unwrap_or_else(|error| panic!("{error}"));
    let packages = cargo::licences().unwrap_or_else(|error| panic!("{error}"));
    assert!(packages.len() > 50, "{packages:?}");
    let found = packages
        .iter()
        .filter_map(|(name, expression)| match expression {
            None => Some(format!("{name}: no licence declared")),
            Some(expression) => match licence::permits(expression, &allowed) {
                Ok(true) => None,
                Ok(false) => Some(format!("{name}: {expression}")),
                Err(error) => Some(format!("{name}: {error}")),
            },
        })
        .collect();
    check("deny.toml allows the licence of each dependency", found);
    let unused = allowed
        .iter()
        .filter(|licence| {
            !packages.iter().any(|(_, expression)| expression.iter().any(|e| e.contains(*licence)))
        })
        .cloned()
        .collect();
    check("deny.toml allows no licence that nothing has", unused);
}
