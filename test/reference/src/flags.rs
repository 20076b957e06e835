//! The flags of a program, as clap knows them.

use clap::{Arg, Command};

use crate::markdown::{code, page, plain, table};

/// The page of a program. `about` says where its explanations stand.
pub fn render(command: &Command, about: &str) -> String {
    let name = command.get_name().to_owned();
    let mut text = section(command);
    for command in command.get_subcommands() {
        text += &format!("## {name} {}\n{}\n\n", command.get_name(), sentence(command));
        text += &section(command);
    }
    page(&format!("Flags of {name}"), about, &text)
}

/// The flags and operands of a command by heading, in the order of its help.
fn section(command: &Command) -> String {
    let mut headings: Vec<Option<&str>> = Vec::new();
    let arguments: Vec<&Arg> = command.get_arguments().collect();
    for argument in &arguments {
        if !headings.contains(&argument.get_help_heading()) {
            headings.push(argument.get_help_heading());
        }
    }
    let mut text = String::new();
    for heading in headings {
        let of_heading = arguments.iter().filter(|a| a.get_help_heading() == heading);
        let rows: Vec<Vec<String>> = of_heading.map(|argument| row(argument)).collect();
        if let Some(heading) = heading {
            text += &format!("**{heading}**\n\n");
        }
        text += &table(&["flag", "default", "variable", "meaning"], &rows);
        text += "\n";
    }
    text
}

fn row(argument: &Arg) -> Vec<String> {
    let defaults = argument.get_default_values().iter().map(|value| value.to_string_lossy());
    let defaults: Vec<_> = defaults.collect();
    let variable = argument.get_env().map(|name| name.to_string_lossy().into_owned());
    vec![
        code(&call(argument)),
        code(&defaults.join(" ")),
        code(&variable.unwrap_or_default()),
        meaning(argument),
    ]
}

/// How it is typed: `-o, --output FORMAT`.
fn call(argument: &Arg) -> String {
    let names = argument.get_value_names().unwrap_or_default().iter().map(ToString::to_string);
    let values = if argument.get_action().takes_values() {
        names.collect::<Vec<_>>().join(" ")
    } else {
        String::new()
    };
    let short = argument.get_short().map(|letter| format!("-{letter}"));
    let long = argument.get_long().map(|word| format!("--{word}"));
    let flags: Vec<String> = [short, long].into_iter().flatten().collect();
    format!("{} {values}", flags.join(", ")).trim().to_owned()
}

fn meaning(argument: &Arg) -> String {
    let help = argument.get_long_help().or(argument.get_help());
    let mut text = plain(&help.map(ToString::to_string).unwrap_or_default());
    let values = argument.get_possible_values();
    let is_choice = argument.get_action().takes_values() && !values.is_empty();
    if is_choice {
        let values = values.iter().filter(|value| !value.is_hide_set());
        let words = values.map(|value| match value.get_help() {
            Some(help) => format!("`{}` ({})", value.get_name(), plain(&help.to_string())),
            None => format!("`{}`", value.get_name()),
        });
        text += &format!(". One of {}", words.collect::<Vec<_>>().join(", "));
    }
    text
}

fn sentence(command: &Command) -> String {
    plain(&command.get_about().map(ToString::to_string).unwrap_or_default())
}
