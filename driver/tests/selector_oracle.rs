//! Our evaluation against the `cel` crate's, on expressions that both understand: constants, with
//! operators, macros and functions of the standard.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::thread;

use cel::{Context, Env, Value};
use lanemate_driver::attribute::{Attributes, Capacities};
use lanemate_driver::selector::{Selector, Subject};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};

/// Ours: the answer, an error, or nothing where the expression does not type-check.
fn ours(expression: &str) -> Option<Result<bool, String>> {
    let selector = Selector::compile(expression).ok()?;
    let (attributes, capacity) = (Attributes::new(), Capacities::new());
    let subject = Subject {
        driver: "d",
        attributes: &attributes,
        capacity: &capacity,
        allow_multiple_allocations: false,
    };
    Some(selector.matches(&subject).map_err(|error| error.to_string()))
}

/// Theirs, on a stack that their parser needs.
fn theirs(expression: &str) -> Result<bool, String> {
    let expression = expression.to_owned();
    let run = move || {
        let env = Env::stdlib();
        let program = env.compile(&expression).map_err(|error| error.to_string())?;
        let context = Context::with_env(std::sync::Arc::new(env));
        match program.execute(&context) {
            Ok(Value::Bool(answer)) => Ok(answer),
            Ok(other) => Err(format!("{other:?}")),
            Err(error) => Err(error.to_string()),
        }
    };
    thread::Builder::new().stack_size(64 << 20).spawn(run).unwrap().join().unwrap()
}

fn compare(expression: &str) -> Result<(), TestCaseError> {
    let Some(ours) = ours(expression) else {
        return Err(TestCaseError::fail(format!("does not compile: {expression}")));
    };
    let theirs = theirs(expression);
    prop_assert_eq!(
        ours.as_ref().ok(),
        theirs.as_ref().ok(),
        "{}: ours {:?}, theirs {:?}",
        expression,
        ours,
        theirs
    );
    Ok(())
}

fn number() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("x"),
        Just("0"),
        Just("1"),
        Just("2"),
        Just("7"),
        Just("-3"),
        Just("9223372036854775807"),
    ];
    leaf.prop_map(str::to_owned).prop_recursive(3, 12, 3, |inner| {
        let operator = prop_oneof![Just("+"), Just("-"), Just("*"), Just("/"), Just("%")];
        prop_oneof![
            (inner.clone(), operator, inner.clone()).prop_map(|(a, op, b)| format!("{a} {op} {b}")),
            inner.clone().prop_map(|a| format!("({a})")),
            inner.clone().prop_map(|a| format!("-({a})")),
            inner.clone().prop_map(|a| format!("size([{a}, {a}])")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("[{a}, {b}][1]")),
            (truth_of(inner.clone()), inner.clone(), inner)
                .prop_map(|(c, a, b)| format!("({c} ? {a} : {b})")),
        ]
    })
}

fn truth_of(number: impl Strategy<Value = String> + Clone) -> impl Strategy<Value = String> {
    let operator =
        prop_oneof![Just("=="), Just("!="), Just("<"), Just("<="), Just(">"), Just(">="),];
    prop_oneof![
        (number.clone(), operator, number.clone()).prop_map(|(a, op, b)| format!("{a} {op} {b}")),
        (number.clone(), number.clone()).prop_map(|(a, b)| format!("{a} in [{b}, 2]")),
        (number.clone(), number).prop_map(|(a, b)| format!("({a} < {b} || {b} == 1)")),
    ]
}

fn truth() -> impl Strategy<Value = String> {
    truth_of(number().boxed()).boxed().prop_recursive(3, 10, 3, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{a} && {b}")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{a} || {b}")),
            inner.clone().prop_map(|a| format!("!({a})")),
            inner.clone().prop_map(|a| format!("[3, 1, 2].exists(x, {a})")),
            inner.clone().prop_map(|a| format!("[3, 1].all(x, {a})")),
            inner.clone().prop_map(|a| format!("[3, 1].exists_one(x, {a})")),
            inner.clone().prop_map(|a| format!("[3, 1].filter(x, {a}).size() == 1")),
            inner.prop_map(|a| format!("[1, 2].map(x, {a}) == [true, true]")),
        ]
    })
}

proptest! {
    #![proptest_config(Config {
        cases: 400,
        rng_seed: RngSeed::Fixed(7),
        failure_persistence: None,
        ..Config::default()
    })]

    #[test]
    fn arithmetic_logic_and_macros_agree_with_the_cel_crate(expression in truth()) {
        compare(&format!("[5].all(x, {expression})"))?;
    }
}

#[test]
fn standard_functions_agree_with_the_cel_crate() {
    for expression in [
        "'abc'.contains('b') && 'abc'.startsWith('a') && 'abc'.endsWith('c')",
        "size('héllo') == 5 && size(b'h\\xc3') == 2 && size({'a': 1}) == 1",
        "'\\u00e9\\n\\x41\\101' == 'é\\nAA' && r'\\n' == '\\\\n' && '''a\nb''' == 'a\\nb'",
        "b'\\xff\\101' == b'\\377A' && \"\"\"a\"b\"\"\" == 'a\"b'",
        "1.5e3 == 1500.0 && .5 == 0.5 && 0x10 == 16 && 10u == 0xAu && -0x10 == -16",
        "1 + 2 * 3 - 4 / 2 % 3 == 5 && (1 + 2) * 3 == 9 && 7 - 2 - 1 == 4 && -2 - -2 == 0",
        "true ? false : true ? true : false",
        "false && true || true && !false",
        "1 < 2 == true && 2 in [1, 2] == true",
        "{'a': {'b': [1, 2]}}.a.b[1] == 2 && {'a': 1}['a'] == 1 && {1: 2}[1] == 2",
        "has({'a': 1}.a) && !has({'a': 1}.b)",
        "{'a': 1}.?b.orValue(3) == 3 && {'a': 1}[?'a'].orValue(3) == 1",
        "'a' in {'a': 1} && !('b' in {'a': 1})",
        "int('5') == 5 && string(5) == '5' && double('1.5') == 1.5 && uint(3) == 3u && int(-1.9) == -1",
        "type(1) == int && type('a') == string && type([]) == list && type(null) == null_type",
        "'abc'.matches('^a.c$') && [1, 2] + [3] == [1, 2, 3] && 'a' + 'b' == 'ab'",
        "1 / 0 == 1 || true",
        "1 / 0 == 1 && true",
        "[1, 2][2] == 1",
        "{'a': 1}['b'] == 1",
        "dyn(1) == 1u && dyn(1) == 1.0 && !(dyn(1) == 'a')",
        "dyn('a') < 1",
    ] {
        let (ours, theirs) = (ours(expression).unwrap(), theirs(expression));
        assert_eq!(ours.as_ref().ok(), theirs.as_ref().ok(), "{expression}: {ours:?}, {theirs:?}");
    }
}
