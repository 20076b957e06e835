//! The pages for users say what the program does: every command in them is run, and what they show of
//! its output is compared.
//!
//! A fenced block of the language `console` holds commands, each after `$ `, and below each what it prints
//! on stdout and stderr. A line `…` stands for any lines, `…` within a line for any text. The blocks of a
//! page run one after another in a directory that looks like the root of the repository; what they write
//! stays there. A command that fails is followed by `$ echo $?`. YAML stands in blocks as it stands in a
//! file of `docs/user/examples`.
// Helpers of tests are not seen as tests.
#![allow(clippy::unwrap_used)]

mod program;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Stands for what the page leaves out.
const LEFT_OUT: &str = "…";
/// Ends the output of a command; its status follows.
const MARK: &str = "--lanemate-docs-status ";
/// How the page calls the program before it is built.
const BUILD_AND_RUN: &str = "cargo run --release --bin lanemate -- ";
const EXAMPLES: &str = "docs/user/examples";

/// A fenced block of a page.
struct Block {
    /// Line of its fence, from 1.
    line: usize,
    language: String,
    lines: Vec<String>,
}

/// A command of a `console` block and what it prints.
struct Step {
    command: String,
    shown: Vec<String>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Files directly below a directory of the repository, with a given ending.
fn files(directory: &str, ending: &str) -> Vec<String> {
    let entries = fs::read_dir(root().join(directory)).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut paths: Vec<String> =
        names.filter(|n| n.ends_with(ending)).map(|name| format!("{directory}/{name}")).collect();
    paths.sort();
    paths
}

fn pages() -> Vec<String> {
    let pages = [vec!["README.md".to_owned()], files("docs/user", ".md")].concat();
    assert!(pages.len() >= 5, "{pages:?}");
    pages
}

fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for (index, line) in read(page).lines().enumerate() {
        match (line.strip_prefix("```"), open.take()) {
            (Some(language), None) => {
                let language = language.trim().to_owned();
                open = Some(Block { line: index + 1, language, lines: Vec::new() });
            }
            (Some(_), Some(block)) => blocks.push(block),
            (None, Some(mut block)) => {
                block.lines.push(line.to_owned());
                open = Some(block);
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "{page}: a block is not closed");
    blocks
}

fn steps(block: &Block) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut lines = block.lines.iter();
    while let Some(line) = lines.next() {
        if let Some(command) = line.strip_prefix("$ ") {
            let mut command = command.to_owned();
            while command.ends_with('\\') {
                command = format!("{command}\n{}", lines.next().unwrap());
            }
            steps.push(Step { command, shown: Vec::new() });
        } else {
            let step = steps.last_mut();
            let step = step.unwrap_or_else(|| panic!("line {}: output first", block.line));
            step.shown.push(line.clone());
        }
    }
    steps
}

/// A directory that looks like the root of the repository.
fn workplace() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for name in ["docs", "test"] {
        let target = fs::canonicalize(root().join(name)).unwrap();
        std::os::unix::fs::symlink(target, directory.path().join(name)).unwrap();
    }
    fs::create_dir(directory.path().join("tmp")).unwrap();
    directory
}

/// Runs the commands in one shell; gives output and status of each.
fn run(steps: &[Step], directory: &Path) -> Vec<(String, String)> {
    let mut script = "exec 2>&1\n".to_owned();
    for step in steps {
        let command = step.command.replace(BUILD_AND_RUN, "lanemate ");
        script += &format!("{command}\ns=$?; echo \"{MARK}$s\"; (exit $s)\n");
    }
    let program = Path::new(env!("CARGO_BIN_EXE_lanemate")).parent().unwrap().display();
    let path = format!("{program}:{}", std::env::var("PATH").unwrap());
    let output = Command::new("sh")
        .args(["-c", &script])
        .current_dir(directory)
        .env("PATH", path)
        .env("TMPDIR", directory.join("tmp"))
        .env_remove("NO_COLOR")
        .output()
        .unwrap();
    let temporary = directory.join("tmp").display().to_string();
    let text = String::from_utf8(output.stdout).unwrap().replace(&temporary, "/tmp");
    let mut done = Vec::new();
    let mut rest = text.as_str();
    while let Some((printed, after)) = rest.split_once(MARK) {
        let (status, after) = after.split_once('\n').unwrap();
        done.push((printed.to_owned(), status.to_owned()));
        rest = after;
    }
    done
}

/// Whether items match patterns, of which those that are `any` stand for any number of items.
/// A failed attempt goes back to the last such pattern.
fn matches<P, T>(
    patterns: &[P],
    items: &[T],
    any: impl Fn(&P) -> bool,
    same: impl Fn(&P, &T) -> bool,
) -> bool {
    let (mut at, mut read, mut retry) = (0, 0, None);
    while read < items.len() {
        if at < patterns.len() && any(&patterns[at]) {
            retry = Some((at + 1, read + 1));
            at += 1;
        } else if at < patterns.len() && same(&patterns[at], &items[read]) {
            (at, read) = (at + 1, read + 1);
        } else if let Some((after, next)) = retry {
            (at, read, retry) = (after, next, Some((after, next + 1)));
        } else {
            return false;
        }
    }
    patterns[at..].iter().all(any)
}

fn line_matches(shown: &str, line: &str) -> bool {
    let dots = LEFT_OUT.chars().next().unwrap();
    let (shown, line): (Vec<char>, Vec<char>) = (shown.chars().collect(), line.chars().collect());
    matches(&shown, &line, |c| *c == dots, |a, b| a == b)
}

fn output_matches(shown: &[String], printed: &str) -> bool {
    let lines: Vec<&str> = printed.trim_end().lines().collect();
    let end = shown.iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1);
    let is_gap = |line: &String| line == LEFT_OUT;
    matches(&shown[..end], &lines, is_gap, |shown, line| line_matches(shown, line))
}

#[test]
fn left_out_text_is_matched_and_nothing_else() {
    let check = |shown: &str, printed: &str, expect: bool| {
        let lines: Vec<String> = shown.lines().map(str::to_owned).collect();
        assert_eq!(output_matches(&lines, printed), expect, "{shown:?} {printed:?}");
    };
    check("a\nb", "a\nb\n", true);
    check("a\nb\n\n", "a\nb\n", true);
    check("a\nb", "a\nb\nc\n", false);
    check("a", "", false);
    check("", "", true);
    check("a\n…\nd", "a\nb\nc\nd\n", true);
    check("a\n…\nd", "a\nb\nd\ne\n", false);
    check("a\n…\nc\n…\nd", "a\nb\nc\nc\nx\nd", true);
    check("wrote …/x.json", "wrote /tmp/a/x.json", true);
    check("wrote …/x.json", "wrote /tmp/a/y.json", false);
    check("a … c … e", "a b c d e", true);
}

#[test]
fn every_command_of_the_pages_prints_what_they_show() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for page in pages() {
        let directory = workplace();
        for block in blocks(&page).iter().filter(|block| block.language == "console") {
            let steps = steps(block);
            let done = run(&steps, directory.path());
            let place = format!("{page}:{}", block.line);
            assert_eq!(done.len(), steps.len(), "{place}: the shell ended early");
            for (index, (step, (printed, status))) in steps.iter().zip(&done).enumerate() {
                count += 1;
                let told = steps.get(index + 1).is_some_and(|next| next.command == "echo $?");
                if status != "0" && !told {
                    wrong.push(format!("{place}: $ {}\nstatus {status}", step.command));
                }
                if !output_matches(&step.shown, printed) {
                    wrong.push(format!("{place}: $ {}\n{printed}", step.command));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "the pages show something else:\n\n{}", wrong.join("\n\n"));
    assert!(count >= 20, "{count} commands");
}

#[test]
fn the_program_is_called_in_blocks_that_are_run() {
    for page in pages() {
        for block in blocks(&page).iter().filter(|block| block.language != "console") {
            let calls = |line: &&String| {
                let words = line.trim_start_matches("$ ");
                words.starts_with("lanemate ") || words.starts_with(BUILD_AND_RUN)
            };
            let found = block.lines.iter().find(calls);
            assert_eq!(found, None, "{page}:{}: expected a console block", block.line);
        }
    }
}

fn dedented(lines: &[String]) -> Vec<&str> {
    let indent = |line: &&String| line.len() - line.trim_start().len();
    let depth = lines.iter().filter(|line| !line.trim().is_empty()).map(|l| indent(&l)).min();
    lines.iter().map(|line| line.get(depth.unwrap_or(0)..).unwrap_or("").trim_end()).collect()
}

/// Whether some consecutive lines of a text are these, whatever their common indentation.
fn is_part(lines: &[String], text: &str) -> bool {
    let all: Vec<String> = text.lines().map(str::to_owned).collect();
    all.windows(lines.len()).any(|window| dedented(window) == dedented(lines))
}

#[test]
fn yaml_in_the_pages_is_part_of_an_example_and_every_example_is_used() {
    let examples: Vec<(String, String)> =
        files(EXAMPLES, ".yaml").into_iter().map(|path| (read(&path), path)).collect();
    assert!(examples.len() >= 5);
    let mut commands = String::new();
    for page in pages() {
        for block in blocks(&page) {
            let known = ["console", "sh", "yaml", "text", ""].contains(&block.language.as_str());
            assert!(known, "{page}:{}: language {:?}", block.line, block.language);
            if block.language == "yaml" {
                let found = examples.iter().any(|(text, _)| is_part(&block.lines, text));
                assert!(found, "{page}:{}: not in a file of {EXAMPLES}", block.line);
            }
            if block.language == "console" {
                commands.extend(steps(&block).into_iter().map(|step| step.command + "\n"));
            }
        }
    }
    let words: BTreeSet<&str> = commands.split_whitespace().collect();
    for (_, path) in &examples {
        assert!(words.contains(path.as_str()), "no page has a command with {path}");
    }
}

#[test]
fn every_option_of_the_program_is_described() {
    let page = read("docs/user/cli.md");
    let mut seen = 0;
    for command in ["demo", "topology", "slices", "plan", "prepare", "capture"] {
        let help = program::printed(&[command, "--help"]);
        let is_word = |c: char| c.is_ascii_lowercase() || c == '-';
        let options = help.split(|c| !is_word(c)).filter(|word| word.starts_with("--"));
        for option in options.filter(|word| word.len() > 2) {
            seen += 1;
            assert!(page.contains(&format!("`{option}")), "{command} {option}");
        }
        assert!(page.contains(&format!("## {command}")), "{command}");
    }
    assert!(seen > 20);
}

#[test]
fn pictures_are_what_the_program_draws() {
    let path = root().join("docs/images/dgx-h100.svg");
    let host = program::capture("dgx-h100");
    let drawn = program::printed(&["topology", "--host", &host, "-o", "svg"]);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, &drawn).unwrap();
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), drawn, "UPDATE_GOLDEN=1 writes it anew");
}

#[test]
fn links_between_pages_lead_somewhere() {
    let top = ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "STYLE.md"];
    let mut all: Vec<String> = top.map(str::to_owned).into();
    for directory in ["docs/user", "docs/adr", "docs/dev"] {
        all.extend(files(directory, ".md"));
    }
    for page in all {
        let text = read(&page);
        let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
        for (target, _) in targets.filter(|(target, _)| !target.starts_with("http")) {
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let base = Path::new(&page).parent().unwrap();
            let file = if file.is_empty() { Path::new(&page).into() } else { base.join(file) };
            assert!(root().join(&file).exists(), "{page}: {target}");
            let heading = |line: &&str| line.starts_with('#') && slug(line) == anchor;
            let there =
                anchor.is_empty() || read(file.to_str().unwrap()).lines().any(|l| heading(&l));
            assert!(there, "{page}: {target}");
        }
    }
}

/// The anchor of a heading.
fn slug(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}
