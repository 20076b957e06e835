//! Hostile and random expressions: refused or answered, in bounded time and stack, without a panic.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::thread;

use lanemate_driver::attribute::{AttributeValue, Attributes, Capacities, QualifiedName};
use lanemate_driver::selector::{EvalError, Problem, Selector, Subject};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, RngSeed};

/// Three quarters of what a thread has, in a build without optimisation.
const STACK: usize = 3 << 19;

fn evaluate(expression: &str) -> Result<Result<bool, EvalError>, Problem> {
    let selector = Selector::compile(expression).map_err(|error| error.problem)?;
    let name = |name: &str| QualifiedName::parse(name, "d.io");
    let attributes = Attributes::from([
        (name("s"), AttributeValue::String("NVIDIA H200".into())),
        (name("i"), AttributeValue::Int(i64::MIN)),
        (name("b"), AttributeValue::Bool(true)),
        (name("v"), AttributeValue::Version("1.2.3".into())),
        (name("l"), AttributeValue::Strings(vec!["a".into(); 48])),
    ]);
    let capacity = Capacities::from([(name("m"), "80Gi".parse().unwrap())]);
    let subject = Subject {
        driver: "d.io",
        attributes: &attributes,
        capacity: &capacity,
        allow_multiple_allocations: true,
    };
    Ok(selector.matches(&subject))
}

fn on_a_small_stack(expression: String) -> Result<Result<bool, EvalError>, Problem> {
    let run = move || evaluate(&expression);
    thread::Builder::new().stack_size(STACK).spawn(run).unwrap().join().unwrap()
}

fn nested(open: &str, inner: &str, close: &str, levels: usize) -> String {
    format!("{}{inner}{}", open.repeat(levels), close.repeat(levels))
}

#[test]
fn ordinary_depth_is_accepted_on_a_small_stack() {
    let accepted = [
        nested("(", "true", ")", 32),
        format!("size({}) == 1", nested("[", "1", "]", 31)),
        nested("(true && (", "true", "))", 16),
        nested("[1].all(x, ", "true", ")", 32),
        nested("dyn(", "true", ")", 32),
        nested("cel.bind(x, size(device.driver), ", "x == 4", ")", 31),
        format!("1{} == 96", " + 1".repeat(95)),
        format!("true{}", " && true".repeat(1000)),
        format!("true{}", " || false && true".repeat(500)),
        format!("{}true", "device.driver == '' ? false : ".repeat(95)),
        format!("device.driver{}.size() == 4", ".trim()".repeat(95)),
        format!("!device.attributes.?a{}.hasValue()", ".?a".repeat(95)),
        format!("{}true", "!".repeat(9000)),
        format!("1 == {}1", "-".repeat(9000)),
    ];
    for expression in accepted {
        let shown: String = expression.chars().take(60).collect();
        assert_eq!(on_a_small_stack(expression), Ok(Ok(true)), "{shown}");
    }
}

#[test]
fn depth_and_length_are_bounded() {
    let deep = [
        nested("(", "true", ")", 5000),
        nested("[", "", "]", 5000),
        nested("{1: ", "1", "}", 2000),
        nested("size([", "1", "])", 500),
        nested("[1].all(x, ", "true", ")", 500),
        format!("1{} == 1", " + 1".repeat(2000)),
        format!("{}true", "true ? true : ".repeat(700)),
        format!("device{} == 1", ".a".repeat(5000)),
        format!("device{} == 1", "[0]".repeat(3000)),
        format!("device{} == 1", ".?a".repeat(3000)),
        format!("a{}", " in b".repeat(1500)),
        "(".repeat(9000),
        "[".repeat(9000),
        "[[1, ".repeat(1000),
    ];
    for expression in deep {
        let shown: String = expression.chars().take(40).collect();
        let answer = on_a_small_stack(expression);
        assert!(matches!(answer, Err(Problem::TooDeep { .. })), "{shown}: {answer:?}");
    }
    let long = format!("'{}' == ''", "a".repeat(10 * 1024));
    assert!(matches!(evaluate(&long), Err(Problem::TooLong { limit: 10240, .. })));
    let longest = format!("'{}' != ''", "a".repeat(10 * 1024 - 8));
    assert_eq!(evaluate(&longest), Ok(Ok(true)));
}

#[test]
fn brackets_in_texts_and_comments_do_not_count() {
    let quoted = format!("'{0}' != \"\\\"{0}\" // {0}\n && '''{0}''' == r\"{0}\"", "(".repeat(500));
    assert_eq!(evaluate(&quoted), Ok(Ok(true)));
    let escapes = format!("'\\q{}'", "(".repeat(5000));
    assert!(matches!(evaluate(&escapes), Err(Problem::Syntax { .. })));
}

#[test]
fn work_is_bounded_before_and_during_the_run() {
    let tens = "[0,1,2,3,4,5,6,7,8,9]";
    let six = ["a", "b", "c", "d", "e", "f"].map(|name| format!("{tens}.all({name}, ")).concat();
    let expensive = format!("{six}true))))))");
    assert!(matches!(evaluate(&expensive), Err(Problem::TooExpensive { limit: 1_000_000, .. })));
    let four = "device.attributes['d.io'].l.all(x, device.attributes['d.io'].l.all(y, \
                device.attributes['d.io'].l.all(z, device.attributes['d.io'].l.all(w, true))))";
    assert!(matches!(evaluate(four), Err(Problem::TooExpensive { .. })));
    // Each step doubles: what is cheap to write is not cheap to build, compare or flatten.
    for (seed, step, end) in [
        ("'abcdefgh'", "x + x", "x == x"),
        ("[1]", "x + x", "x == x"),
        ("[1]", "[x, x]", "x == x"),
        ("['a']", "[x, x]", "'%s'.format([x]) != ''"),
        ("'aaaaaaaa'", "x.replace('', x)", "x == x"),
        ("'aaaaaaaa'", "[x, x, x, x].join(x)", "x == x"),
        ("['aaaaaaaa']", "(x + x).map(y, y + y)", "x == x"),
        ("['aaaaaaaa']", "x + x", "x.sort() == x"),
        ("'a'", "x + x", "[x, x, x].all(y, [x, x, x].all(z, y.split('').distinct() == [z]))"),
    ] {
        let expression = format!(
            "cel.bind(x, {seed}, {}{end}{})",
            format!("cel.bind(x, {step}, ").repeat(27),
            ")".repeat(27)
        );
        let answer = evaluate(&expression);
        let stopped =
            matches!(answer, Ok(Err(EvalError::TooExpensive)) | Err(Problem::TooExpensive { .. }));
        assert!(stopped, "{seed}, {step}: {answer:?}");
    }
    // Nothing absorbs the limit.
    let doubled = nested("cel.bind(x, x + x, ", "x == x", ")", 29);
    let absorbed = format!("cel.bind(x, 'abcdefgh', {doubled}) || true");
    assert_eq!(evaluate(&absorbed), Ok(Err(EvalError::TooExpensive)));
}

#[test]
fn patterns_are_few_and_calls_on_constants_share_one_limit() {
    let patterns = format!("true{}", " && 'a'.matches('a')".repeat(51));
    assert!(matches!(evaluate(&patterns), Err(Problem::Mistyped { .. })));
    let patterns = format!("true{}", " && 'a'.matches('a')".repeat(50));
    assert_eq!(evaluate(&patterns), Ok(Ok(true)));
    let folded = "'abcdefgh'.replace('', 'abcdefgh').replace('', 'abcdefgh').split('').distinct()";
    let folded = format!("true{}", format!(" && {folded}.size() == 8").repeat(100));
    assert!(matches!(evaluate(&folded), Ok(Ok(true) | Err(EvalError::TooExpensive))));
}

#[test]
fn extreme_values_do_not_panic() {
    for expression in [
        "device.attributes['d.io'].i / -1 == 0 || true",
        "device.attributes['d.io'].i % -1 == 0 || true",
        "-device.attributes['d.io'].i == 0 || true",
        "int(device.attributes['d.io'].i - 1) == 0 || true",
        "[1][9223372036854775807] == 1 || true",
        "[1][-9223372036854775808] == 1 || true",
        "[1][dyn(1e300)] == 1 || true",
        "'é'.substring(0, 9223372036854775807) == '' || true",
        "'é'.lastIndexOf('éé', 1) == -1",
        "'éé'.lastIndexOf('é', 0) == 0",
        "'é'.indexOf('', 1) == 1",
        "[1].slice(0, 9223372036854775807) == [1] || true",
        "[1].slice(1, 0) == [1] || true",
        "[[1]].flatten(9223372036854775807) == [1]",
        "[[1]].flatten(-1) == [1] || true",
        "'%.1100f'.format([1.0]) != '' && (dyn('%.1101f').format([1.0]) != '' || true)",
        "dyn('%').format([1]) != '' || true",
        "'%e'.format([-1e-300]).size() > 0 && '%f'.format([1.7976931348623157e308]).size() > 400",
        "quantity('-1e999999999').compareTo(quantity('1e999999999')) == -1",
        "quantity('1e999999999').asApproximateFloat() > 1e29",
        "quantity('0e999999999').asApproximateFloat() == 0.0 || true",
        "double('0x1p' + '99999999999') == 0.0 || true",
        "double('0x1p' + '2147483647') == 0.0 || true",
        "[double('NaN'), 1.0, double('NaN'), 0.5].sort().size() == 4",
        "'a'.replace('a', 'b', -9223372036854775808) == 'b'",
        "'a,b'.split(',', -1) == ['a', 'b']",
        "quantity('9223372036854775807').add(quantity('9223372036854775807Ei')) == quantity('1') || true",
        "quantity('1e999999999') == quantity('1') || true",
        "semver('99999999999999999999.0.0') == semver('1.0.0') || true",
        "semver('', true) == semver('1.0.0') || true",
        "semver('18446744073709551615.0.0').major() == 1 || true",
        "url('https://[') == url('/') || true",
        "url('https://a/?%é=1') == url('/') || true",
        "isCIDR('::/129') || isCIDR('/') || isCIDR('1.2.3.4/-1') || true",
        "cidr('1.2.3.4/0').masked().prefixLength() == 0",
        "uint(dyn(device.attributes['d.io'].i)) == 1u || true",
        "double('nan') == double('nan') || double('nan') < 1.0 || true",
    ] {
        assert_eq!(evaluate(expression), Ok(Ok(true)), "{expression}");
    }
}

/// Pieces that selectors are made of, good and broken ones.
const PIECES: [&str; 76] = [
    "device",
    ".driver",
    ".attributes",
    ".capacity",
    "[\"d.io\"]",
    ".s",
    ".i",
    ".v",
    ".l",
    ".m",
    ".nope",
    ".?s",
    "[?0]",
    "[0]",
    ".orValue(",
    ".hasValue()",
    ".value()",
    "has(",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ",",
    ":",
    "?",
    " && ",
    " || ",
    "!",
    "-",
    " + ",
    " - ",
    " * ",
    " / ",
    " % ",
    " == ",
    " != ",
    " < ",
    " >= ",
    " in ",
    "true",
    "false",
    "null",
    "1",
    "-1",
    "9223372036854775807",
    "1.5",
    "2u",
    "'a'",
    "\"é\"",
    "r'\\d'",
    "b'x'",
    "'''",
    "\\",
    "cel.bind(x, ",
    "x",
    ".all(x, ",
    ".exists(x, y, ",
    ".map(x, ",
    ".filter(x, ",
    ".transformList(x, y, ",
    "quantity('1Gi')",
    "semver('1.0.0')",
    ".isLessThan(",
    ".matches('a+')",
    ".find(",
    ".size()",
    "size(",
    "sets.contains(",
    ".split(",
    ".join(",
    "ip('::1')",
    "// c\n",
    "`a`",
    ".format([",
];

/// Selectors to mutate.
const GOOD: [&str; 8] = [
    "device.driver == \"d.io\" && device.attributes[\"d.io\"].s == \"gpu\"",
    "device.attributes[\"d.io\"].?linkLayer.orValue(\"\") == \"InfiniBand\"",
    "device.capacity[\"d.io\"].m.compareTo(quantity(\"40Gi\")) >= 0",
    "device.attributes[\"d.io\"].l.exists(i, x, i > 1 && x.startsWith('a'))",
    "cel.bind(a, device.attributes[\"d.io\"], a.b && a.s.matches(r'^\\w+ H\\d+$'))",
    "'%s-%d'.format([device.driver, 3]).split('-').map(x, x.size()).sum() == 5",
    "has(device.attributes[\"d.io\"].v) ? device.attributes[\"d.io\"].v.major() == 1 : false",
    "[1, 2].transformMap(i, v, v * i)[0] == {'a': [1u, 2u], 'b': [3u]}['a'].size()",
];

fn config(cases: u32) -> Config {
    Config { cases, rng_seed: RngSeed::Fixed(20), failure_persistence: None, ..Config::default() }
}

proptest! {
    #![proptest_config(config(1500))]

    #[test]
    fn pieces_in_any_order_do_not_panic(pieces in vec(select(&PIECES[..]), 1..14)) {
        let _ = evaluate(&pieces.concat());
    }

    #[test]
    fn mutated_selectors_do_not_panic(
        good in select(&GOOD[..]),
        edits in vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), select(&PIECES[..])), 1..5),
    ) {
        let mut chars: Vec<char> = good.chars().collect();
        for (from, to, piece) in edits {
            let (from, to) = (from.index(chars.len() + 1), to.index(chars.len() + 1));
            let end = from.max(to).min(from.min(to) + 6);
            chars.splice(from.min(to)..end, piece.chars());
        }
        let _ = evaluate(&chars.into_iter().collect::<String>());
    }

    #[test]
    fn any_text_does_not_panic(text in "\\PC{0,40}") {
        let _ = evaluate(&text);
    }
}
