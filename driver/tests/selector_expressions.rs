//! What CEL expressions give for one device: values, errors and refusals, by library.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use lanemate_driver::attribute::{AttributeValue, Attributes, Capacities, QualifiedName};
use lanemate_driver::selector::{EvalError, Problem, Selector, Subject};

/// Attributes of `gpu.example.com`: type, s, i, b, v, l, n, ip and build; one of `other.example.com`.
fn device() -> (Attributes, Capacities) {
    use AttributeValue::{Bool, Int, Ints, String, Strings, Version};
    let name = |name: &str| QualifiedName::parse(name, "gpu.example.com");
    let attributes = [
        (name("type"), String("gpu".into())),
        (name("s"), String("NVIDIA H200".into())),
        (name("i"), Int(10)),
        (name("zero"), Int(0)),
        (name("b"), Bool(true)),
        (name("v"), Version("2.1.0-rc.1".into())),
        (name("build"), Version("1.2.3+b5".into())),
        (name("broken.example.com/v"), Version("one".into())),
        (name("l"), Strings(vec!["a".into(), "b".into()])),
        (name("n"), Ints(vec![3, 1, 2])),
        (name("ip"), String("10.1.2.3".into())),
        (name("other.example.com/x"), String("o".into())),
    ];
    let capacity = [
        (name("mem"), "141Gi".parse().unwrap()),
        (name("part"), "1500m".parse().unwrap()),
        (name("other.example.com/slots"), "7".parse().unwrap()),
    ];
    (attributes.into(), capacity.into())
}

#[derive(Debug, PartialEq)]
enum Given {
    Bool(bool),
    Error(EvalError),
    Refused(Problem),
}

/// `A` is short for the attributes, and `C` for the capacities, of the device's own domain.
fn run(expression: &str) -> Given {
    let (attributes, capacity) = device();
    let subject = Subject {
        driver: "gpu.example.com",
        attributes: &attributes,
        capacity: &capacity,
        allow_multiple_allocations: false,
    };
    let expression = expression
        .replace("A.", "device.attributes[\"gpu.example.com\"].")
        .replace("C.", "device.capacity[\"gpu.example.com\"].");
    match Selector::compile(&expression) {
        Err(error) => Given::Refused(error.problem),
        Ok(selector) => match selector.matches(&subject) {
            Ok(answer) => Given::Bool(answer),
            Err(error) => Given::Error(error),
        },
    }
}

#[track_caller]
fn check(expression: &str, expect: bool) {
    assert_eq!(run(expression), Given::Bool(expect), "{expression}");
}

/// The expression is true.
#[track_caller]
fn yes(expressions: &[&str]) {
    for expression in expressions {
        check(expression, true);
    }
}

/// The expression compiles, and its error says `part`.
#[track_caller]
fn error(expression: &str, part: &str) {
    match run(expression) {
        Given::Error(error) => assert!(error.to_string().contains(part), "{expression}: {error}"),
        other => panic!("{expression}: {other:?}"),
    }
}

/// The expression does not compile, and the message says `part`.
#[track_caller]
fn refused(expression: &str, part: &str) {
    match run(expression) {
        Given::Refused(problem) => {
            assert!(problem.to_string().contains(part), "{expression}: {problem}");
        }
        other => panic!("{expression}: {other:?}"),
    }
}

#[test]
fn fields_of_the_device_are_read() {
    check(r#"device.driver == "gpu.example.com""#, true);
    check(r#"device.driver == "nic.example.com""#, false);
    check("device.allowMultipleAllocations", false);
    check(r#"A.type == "gpu""#, true);
    check(r#"device.attributes["gpu.example.com"]["type"] == "gpu""#, true);
    check(r#"device.attributes["other.example.com"].x == "o""#, true);
    check("A.b", true);
    check("A.i == 10 && A.l[1] == 'b' && A.n[0] == 3", true);
    check("C.mem == quantity('144384Mi')", true);
    check(r#"device.capacity["other.example.com"].slots == quantity("7")"#, true);
    check(r#"cel.bind(d, device, d.driver) == device.driver"#, true);
    check("dyn(device).driver == 'gpu.example.com'", true);
    check("dyn(device.attributes)['gpu.example.com'].i == 10", true);
    check("dyn(device) != 1", true);
}

#[test]
fn an_unknown_domain_is_an_empty_map_and_no_member() {
    yes(&[
        r#""gpu.example.com" in device.attributes"#,
        r#"!("nope.example.com" in device.attributes)"#,
        r#"!("nope.example.com" in device.capacity)"#,
        r#"!(1 in dyn(device.attributes))"#,
        r#"size(device.attributes["nope.example.com"]) == 0"#,
        r#"size(device.attributes) == 3"#,
        r#"device.attributes["nope.example.com"] == {}"#,
        "has(device.attributes.nope)",
        r#"!has(device.attributes["nope.example.com"].x)"#,
        r#""type" in device.attributes["gpu.example.com"]"#,
        r#"!("nope" in device.attributes["gpu.example.com"])"#,
        r#"device.attributes["gpu.example.com"].size() == 10"#,
    ]);
}

#[test]
fn a_missing_attribute_is_an_error_that_names_it() {
    let missing = |expression: &str| match run(expression) {
        Given::Error(error) => error.missing().map(ToString::to_string),
        other => panic!("{expression}: {other:?}"),
    };
    let name = |name: &str| Some(name.to_owned());
    assert_eq!(missing("A.nope == 1"), name("gpu.example.com/nope"));
    assert_eq!(missing("C.nope.isGreaterThan(quantity('1'))"), name("gpu.example.com/nope"));
    assert_eq!(missing("device.attributes['x.io']['y'] == 1"), name("x.io/y"));
    assert_eq!(missing("device.attributes['x' + '.io']['y'] == 1"), name("x.io/y"));
    assert_eq!(missing("cel.bind(a, device.attributes['x.io'], a.y > 1)"), name("x.io/y"));
    assert_eq!(missing("{'a': 1}['b'] == 1"), None);
    error("A.nope == 1", "no such key: nope");
}

#[test]
fn presence_and_optionals_avoid_the_error() {
    yes(&[
        "has(A.type) && !has(A.nope)",
        "has(device.driver)",
        "A.?type.orValue('no') == 'gpu'",
        "A.?nope.orValue('no') == 'no'",
        "A.?type.hasValue() && !A.?nope.hasValue()",
        "A.?i.value() == 10",
        "device.attributes['gpu.example.com'][?'type'].orValue('') == 'gpu'",
        "device.attributes.?nope.hasValue()",
        "device.attributes[?'nope.example.com'].x.orValue('none') == 'none'",
        "A.?l[0].orValue('') == 'a'",
        "A.?nope[0].orValue('') == ''",
        "A.?nope.or(A.?i).value() == 10",
        "A.?i.or(optional.of(1 / A.zero)).value() == 10",
        "A.?i.optMap(x, x + 1).value() == 11",
        "!A.?nope.optMap(x, x + 1).hasValue()",
        "A.?i.optFlatMap(x, optional.of(x * 2)).orValue(0) == 20",
        "optional.none() == A.?nope",
        "optional.of(1) == optional.of(1)",
        "optional.ofNonZeroValue('').hasValue() == false",
        "{?'a': A.?nope}.size() == 0",
        "{?'a': A.?i}['a'] == 10",
        "[1, 2].first().value() == 1 && [1, 2].last().value() == 2 && ![].first().hasValue()",
    ]);
    yes(&["[?A.?nope, A.i] == [A.i]", "A.?nope.orValue(A.i) == 10"]);
    refused("has(A.?l)", "has() takes a field");
    error("A.?nope.value() == 1", "has no value");
    refused("A.type.orValue(1) == 1 && 'x'.orValue('y') == 'x'", "an optional before it");
    refused("A.?type == 'gpu'", "optional(dyn)");
}

#[test]
fn and_or_absorb_errors_from_either_side() {
    yes(&[
        "A.nope == 1 || A.i == 10",
        "A.i == 10 || A.nope == 1",
        "!(A.nope == 1 && A.i == 11)",
        "!(A.i == 11 && A.nope == 1)",
        "[1, 2].exists(x, x / (x - 1) == 2)",
        "![1, 2].all(x, x / (x - 1) == 3)",
        "A.s || A.b",
    ]);
    error("A.nope == 1 || A.i == 11", "no such key");
    error("A.nope == 1 && A.i == 10", "no such key");
    error("[1, 2].all(x, x / (x - 1) == 2)", "division by zero");
    error("[1, 2].exists(x, x / (x - 1) == 3)", "division by zero");
    error("A.s || A.i == 11", "no such overload");
    error("A.nope == 1 ? true : true", "no such key");
}

#[test]
fn types_differ_without_error_but_have_no_order() {
    yes(&[
        "!(A.s == A.i)",
        "A.s != 10",
        "A.i == 10.0 && A.i > 3.5 && A.i < 10.5 && A.i >= 10u",
        "dyn(1) == 1u && dyn(1.0) == 1",
        // An integer beside a double is rounded to one.
        "dyn(9007199254740993) == 9007199254740992.0",
        "9223372036854775807 < 9223372036854775809.0 || true",
        "1 < double('Infinity') && double('-Infinity') < 1u",
        "[1] == [1] && dyn([1]) == [1.0] && !(dyn([1]) == ['a'])",
        "{'a': 1} == {'a': 1} && {'a': 1} != {'a': 2}",
        "'a' < 'b' && b'a' < b'b' && false < true",
        "type(A.s) == string && type(A.i) == int && type(A.l) == list && type(A.b) != int",
    ]);
    yes(&["A.i in [9, 10]"]);
    error("A.s < 10", "no such overload");
    error("A.s < A.i", "no such overload");
    refused("device.driver == 1", "(string, int)");
    refused("'a' < 1", "(string, int)");
    refused("1 in ['a']", "(int, list(string))");
    refused("C.mem < quantity('1')", "compareTo()");
}

#[test]
fn arithmetic_is_checked() {
    yes(&[
        "A.i * 2 + 1 == 21 && A.i % 3 == 1 && A.i / 3 == 3 && -A.i == -10",
        "1.5 + 1.5 == 3.0 && 7u - 2u == 5u && 0x1F == 31",
        "'a' + 'b' == 'ab' && [1] + [2] == [1, 2] && b'a' + b'b' == b'ab'",
        "int('12') == 12 && int(2.9) == 2 && uint(3) == 3u && double('1.5') == 1.5",
        "string(10) == '10' && string(1.5) == '1.5' && string(true) == 'true'",
        "bool('true') && string(b'abc') == 'abc' && string(1e21) == '1e+21'",
    ]);
    error("A.i * 9223372036854775807 > 0", "integer overflow");
    error("A.i / A.zero == 1", "division by zero");
    error("A.i % A.zero == 1", "division by zero");
    error("(-9223372036854775807 - 1) / (A.zero - 1) > 0", "overflow");
    error("-(-9223372036854775807 - 1 - A.zero) > 0", "overflow");
    error("0u - 1u == 0u", "overflow");
    error("A.i + 1.0 > 2.0", "no such overload");
    error("int(A.s) == 1", "no integer");
    error("int(A.i + 9223372036854775807) == 1", "overflow");
    error("uint(-A.i) == 1u", "overflow");
    // What is spelled out is converted when it is compiled, and nothing absorbs the error.
    refused("true || int(1e30) == 1", "overflow");
    refused("true || uint(-1) == 1u", "overflow");
    refused("true || int('x') == 1", "no integer");
    refused("1 + 1.0 == 2.0", "(int, double)");
    refused("'a' - 'b' == ''", "(string, string)");
}

#[test]
fn quantities_compare_by_value() {
    yes(&[
        "C.mem.compareTo(quantity('40Gi')) > 0 && C.mem.compareTo(quantity('141Gi')) == 0",
        "C.mem.isGreaterThan(quantity('140Gi')) && C.mem.isLessThan(quantity('150Gi'))",
        "quantity('192G').isGreaterThan(quantity('178Gi'))",
        "C.mem.add(quantity('1Gi')) == quantity('142Gi') && C.mem.sub(1024).isInteger()",
        "C.mem.asInteger() == 151397597184 && C.mem.asApproximateFloat() > 1.5e11",
        "sign(C.mem) == 1 && sign(quantity('-1')) == -1 && sign(quantity('0')) == 0",
        "!C.part.isInteger() && C.part.asApproximateFloat() == 1.5",
        "isQuantity('10Gi') && !isQuantity(A.s) && !isQuantity('10gi')",
    ]);
    error("C.part.asInteger() == 1", "asInteger");
    error("quantity(A.s) == C.mem", "not a quantity");
    error("quantity('x') == C.mem", "not a quantity");
    refused("C.mem.sign() == 1", "write sign(...)");
    refused("C.mem == 1", "(quantity, int)");
    refused("C.mem.isGreaterThan('1Gi')", "(quantity, quantity)");
    refused("isGreaterThan(C.mem, C.mem)", "write value.isGreaterThan(...)");
}

#[test]
fn versions_follow_semver() {
    yes(&[
        "A.v.isLessThan(semver('2.1.0')) && A.v.isGreaterThan(semver('2.0.9'))",
        "A.v.compareTo(semver('2.1.0-rc.1')) == 0 && A.v.compareTo(semver('2.1.0-alpha')) == 1",
        "A.v.major() == 2 && A.v.minor() == 1 && A.v.patch() == 0",
        "A.build == semver('1.2.3') && A.build == semver('1.2.3+other')",
        "semver('v1', true) == semver('1.0.0') && semver('01.02.03', true) == semver('1.2.3')",
        "isSemver('1.2.3') && !isSemver('v1.2.3') && isSemver('v1.2.3', true) && !isSemver('1.2')",
        "!isSemver('1.2-rc', true)",
    ]);
    error("A.v == semver(A.s)", "semver");
    error("device.attributes['broken.example.com'].v == semver('1.2.3')", "\"one\"");
    error("A.s.major() == 1", "no such overload");
}

#[test]
fn texts_have_the_strings_extension() {
    yes(&[
        "A.s.contains('H2') && A.s.startsWith('NV') && A.s.endsWith('200') && A.s.size() == 11",
        "A.s.lowerAscii() == 'nvidia h200' && 'é'.upperAscii() == 'é' && 'a'.upperAscii() == 'A'",
        "'héllo'.charAt(1) == 'é' && 'abc'.charAt(3) == ''",
        "'héllo'.indexOf('l') == 2 && 'héllo'.indexOf('l', 3) == 3 && 'abc'.indexOf('x') == -1",
        "'héllo'.lastIndexOf('l') == 3 && 'héllo'.lastIndexOf('l', 2) == 2",
        "'abc'.indexOf('') == 0 && 'abc'.lastIndexOf('') == 3",
        "['a', 'b'].join() == 'ab' && ['a', 'b'].join('-') == 'a-b'",
        "'a-b-c'.replace('-', '+') == 'a+b+c' && 'a-b-c'.replace('-', '+', 1) == 'a+b-c'",
        "'a-b-c'.split('-') == ['a', 'b', 'c'] && 'a-b-c'.split('-', 2) == ['a', 'b-c']",
        "'abc'.split('') == ['a', 'b', 'c'] && 'abc'.split('', 2) == ['a', 'bc']",
        "'abc'.split('-', 0) == [] && ''.split('-') == ['']",
        "'héllo'.substring(1) == 'éllo' && 'héllo'.substring(1, 3) == 'él'",
        "' a\\t'.trim() == 'a' && strings.quote('a\"b') == '\"a\\\\\"b\"'",
        "'%s|%d|%.2f|%x|%X|%o|%b|%%'.format(['a', 3, 1.5, 255, 255, 8, 5]) \
         == 'a|3|1.50|ff|FF|10|101|%'",
        "'%s'.format([[1, 'a']]) == '[1, \"a\"]' && '%s'.format([{'a': 1.5}]) == '{\"a\":1.500000}'",
        "'%e'.format([1234.5]) == '1.234500×10⁰³' && '%.1f'.format([1234.55]) == '1,234.5'",
        "'abc'.indexOf('b', 9) == -1 && 'abc'.lastIndexOf('b', 3) == -1",
        "'%s:%d'.format([A.s, A.i]) == 'NVIDIA H200:10'",
        "[string(A.s), 'x'].join('/') == 'NVIDIA H200/x'",
    ]);
    error("'abc'.charAt(4) == ''", "out of range");
    error("'abc'.substring(2, 1) == ''", "out of range");
    error("'%d'.format([A.s]) == ''", "does not take string");
    error("dyn('%d %d').format([1]) == ''", "too few");
    error("'abc'.indexOf('b', -1) == 0", "out of range");
    refused("'%d'.format(['a']) == ''", "does not take string");
    refused("'%d %d'.format([1]) == ''", "2 clauses, but 1 values");
    refused("'%z'.format([1]) == ''", "%z is no clause");
    refused("['a', 1].join() == ''", "may not mix");
    refused("'abc'.reverse() == 'cba'", "(list(A))");
}

#[test]
fn patterns_are_those_of_re2() {
    yes(&[
        "A.s.matches('H2.0$') && !A.s.matches('^H') && matches(A.s, 'NVIDIA')",
        r"A.s.matches(r'^\w+ H\d00$')",
        "A.s.find('[0-9]+') == '200' && A.s.find('x') == ''",
        "A.s.findAll('[A-Z]+') == ['NVIDIA', 'H'] && A.s.findAll('[A-Z]', 2) == ['N', 'V']",
        "A.s.matches('H' + '200')",
    ]);
    error("A.s.matches('(' + A.s)", "pattern");
    error("A.i.matches('a')", "no such overload");
    refused("A.s.matches('(')", "pattern");
    refused("A.s.matches('((a{1000}){1000}){1000}')", "pattern");
}

#[test]
fn lists_have_kubernetes_and_extension_functions() {
    yes(&[
        "[1, 2].isSorted() && ![2, 1].isSorted() && [1, 2].sum() == 3 && [1.5].sum() == 1.5",
        "A.n.min() == 1 && A.n.max() == 3 && A.n.sum() == 6 && dyn([]).sum() == 0",
        "A.l.indexOf('b') == 1 && [1, 2, 1].lastIndexOf(1) == 2 && [1].indexOf(3) == -1",
        "[1, 2, 3].slice(1, 3) == [2, 3] && [[1], [2]].flatten() == [1, 2]",
        "A.n.sort() == [1, 2, 3] && [1, 1, 2].distinct() == [1, 2] && [1, 2].reverse() == [2, 1]",
        "[{'k': 2}, {'k': 1}].sortBy(x, x.k)[0].k == 1",
        "[[[1], [2]], [[3]]].flatten(2) == [1, 2, 3] && [[1]].flatten(0) == [[1]]",
        "size([1, 2]) == 2 && [1, 2].size() == 2",
        "A.l.includes('a') && A.s.includes('NVIDIA H200') && !A.l.includes('c')",
        "sets.contains([1, 2, 3], [1, 3]) && !sets.contains([1], [2]) && sets.contains([], [])",
        "sets.intersects([1, 2], [2, 3]) && !sets.intersects([1], [2])",
        "sets.equivalent([1, 2], [2, 1, 1]) && !sets.equivalent([1], [1, 2])",
        "'NVIDIA H200' in [A.s, A.type]",
    ]);
    error("[1, 2].slice(1, 3) == [2]", "slice");
    error("[1][2] == 1", "out of range");
    error("[1][-1] == 1", "out of range");
    error("dyn([1]).min() == dyn([]).min()", "empty");
    error("[9223372036854775807, 1].sum() > 0", "overflow");
    refused("'x' in [A.s, 'x']", "may not mix dyn and string");
    refused("[1, 'a'].size() == 2", "may not mix int and string");
    yes(&[
        "lists.range(3) == [0, 1, 2] && optional.unwrap([optional.of(1), optional.none()]) == [1]",
    ]);
    error("lists.range(-A.i).size() == 3", "no length");
    error("[A.s, A.i].sort().size() == 2", "keys of string and int");
    error("[A.v].sort().size() == 1", "no such overload");
    refused("[quantity('1')].sort().size() == 1", "list(quantity)");
}

#[test]
fn macros_run_over_lists_and_maps() {
    yes(&[
        "A.l.exists(x, x == 'b') && A.l.all(x, x < 'c') && A.l.exists_one(x, x == 'a')",
        "[1, 2, 3].map(x, x * 2) == [2, 4, 6] && [1, 2, 3].map(x, x > 1, x * 2) == [4, 6]",
        "[1, 2, 3].filter(x, x > 1) == [2, 3] && [1, 1].exists_one(x, x == 1) == false",
        "device.attributes['gpu.example.com'].exists(k, k == 'type')",
        "device.attributes['gpu.example.com'].exists(k, v, k == 'type' && v == 'gpu')",
        "device.attributes.all(d, d.endsWith('.example.com'))",
        "device.capacity.exists(d, ids, 'slots' in ids)",
        "[5, 6].exists(i, v, i == 1 && v == 6) && [5, 6].all(i, v, i < v)",
        "[5, 6].existsOne(i, v, v == 6)",
        "[5, 6].transformList(i, v, i + v) == [5, 7]",
        "[5, 6].transformList(i, v, v > 5, v) == [6]",
        "{'a': 1}.transformMap(k, v, v + 1) == {'a': 2}",
        "[7].transformMap(i, v, v) == {0: 7}",
        "{'a': 'b'}.transformMapEntry(k, v, {v: k}) == {'b': 'a'}",
        "cel.bind(x, 1, cel.bind(y, x + 1, x + y == 3))",
        "cel.bind(a, device.attributes['gpu.example.com'], a.b && a.i > 5)",
        "[1, 2].all(x, cel.bind(y, x * 2, [y].all(x, x == y)))",
        "cel.bind(device, 1, device == 1)",
        "cel.bind(sets, [1], sets.size() == 1 && sets.contains([1], sets))",
        "cel.bind(x, A.nope, true) && cel.bind(x, A.nope, x == 1 || true)",
        "{1: 2, 1: 3} == {1: 3} && {dyn(1): 2, dyn(1u): 3}.size() == 2 && {1.5: 2}[1.5] == 2",
    ]);
    error("cel.bind(x, A.nope, x == 1)", "no such key");
    error("[1, 1].transformMapEntry(i, v, {v: i}).size() == 1", "map key");
    error("{A.v: 1}.size() == 1 || true", "type semver cannot be looked up");
    error("A.v in ['2.1.0'] || true", "type semver cannot be looked up");
    error("A.v == '2.1.0'", "== does not take (semver, string)");
    yes(&["A.v != '2.1.0' && !('2.1.0' == A.v) && A.v in [semver('2.1.0-rc.1')]"]);
    refused("[1].existsOne(x, x == 1)", "is not supported");
    refused("A.l.exists(1, true)", "simple name");
    refused("'abc'.exists(x, true)", "over a list or map");
    refused("[1].all(x, x)", "must be bool");
    refused("[1].exists(x, x, true)", "different names");
    refused("[1].map(x)", "write map(x, value)");
    refused("cel.bind(x, 1)", "write bind");
}

#[test]
fn addresses_and_urls_are_read() {
    yes(&[
        "ip(A.ip).family() == 4 && isIP(A.ip) && !isIP(A.s) && !isIP('::ffff:1.2.3.4')",
        "ip('::1').isLoopback() && ip('0.0.0.0').isUnspecified() && ip('fe80::1').isLinkLocalUnicast()",
        "ip('224.0.0.1').isLinkLocalMulticast() && ip('8.8.8.8').isGlobalUnicast()",
        "ip.isCanonical('::1') && !ip.isCanonical('0:0::1') && string(ip('::1')) == '::1'",
        "cidr('10.0.0.0/8').containsIP(A.ip) && cidr('10.0.0.0/8').containsIP(ip('10.1.2.3'))",
        "cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && !cidr('10.0.0.0/8').containsCIDR('0.0.0.0/0')",
        "cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8') && cidr('::/0').prefixLength() == 0",
        "isCIDR('10.0.0.0/8') && !isCIDR('10.0.0.0/33') && !isCIDR('10.0.0.0')",
        "isURL('https://a.io:80/b?c=d') && !isURL('a.io') && isURL('/path')",
        "url('https://a.io:80/b?c=d%20e&c=f').getHost() == 'a.io:80'",
        "url('https://[::1]:80/b').getHostname() == '::1' && url('https://a:80/').getPort() == '80'",
        "url('https://a/b?c=d%20e&c=f').getQuery() == {'c': ['d e', 'f']}",
        "url('https://a/b%20c').getEscapedPath() == '/b%20c' && url('/a').getScheme() == ''",
    ]);
    yes(&["cidr('10.1.2.3/8').ip() == ip('10.1.2.3') && string(cidr('::1/128')) == '::1/128'"]);
    error("ip(A.s).family() == 4", "no IP address");
    error("cidr(A.s).prefixLength() == 4", "no address/length");
    error("url(A.s).getHost() == ''", "no absolute URL");
}

#[test]
fn formats_are_known() {
    yes(&[
        "!format.dns1123Label().validate('abc-1').hasValue()",
        "format.dns1123Label().validate('Abc').hasValue()",
        "format.named('uuid').value().validate('x').value().size() == 1",
        "!format.named('nope').hasValue()",
        "!format.uuid().validate('123e4567-e89b-12d3-a456-426614174000').hasValue()",
        "!format.qualifiedName().validate('a.io/B_c').hasValue()",
    ]);
    yes(&[
        "!format.date().validate('2024-02-29').hasValue() && format.date().validate('x').hasValue()",
        "!format.datetime().validate('2024-02-29T23:59:59.5+01:00').hasValue()",
        "!format.byte().validate('YWI=').hasValue() && format.uri().validate('a').hasValue()",
        "!format.dns1123LabelPrefix().validate('a-').hasValue()",
    ]);
    refused("format.email().validate('x').hasValue()", "\"format.email\" is not supported");
}

#[test]
fn what_is_unknown_or_no_bool_is_refused_with_what_is_known() {
    refused("device.nope == 1", "it has driver, attributes, capacity and allowMultipleAllocations");
    refused("device.name == 'x'", "no field \"name\"");
    refused("cel.bind(d, device, d.pool == 'x')", "no field \"pool\"");
    refused("devices.driver == 'x'", "known here: device");
    refused("[1].all(x, y == 1)", "known here: device, x");
    refused("math.greatest(A.i, 3) == 10", "function \"math.greatest\" is not supported");
    refused("base64.encode(b'x') == ''", "\"base64.encode\" is not supported");
    refused("duration('1h') == duration('60m')", "\"duration\" is not supported");
    refused("A.s.frobnicate() == 'x'", "\"frobnicate\" is not supported");
    refused("1 + 1", "gives int");
    refused("device", "gives device");
    refused("A.?b", "gives optional(dyn)");
    refused("google.protobuf.Duration{seconds: 1} == 1", "not supported");
    error("A.s", "string, not bool");
    error("A.i", "int, not bool");
    error("A.l", "list, not bool");
}

#[test]
fn messages_say_where() {
    #[track_caller]
    fn check(expression: &str, message: &str) {
        assert_eq!(Selector::compile(expression).unwrap_err().to_string(), message);
    }
    check(
        "'é' == 'é' &&\n device.nope == 1",
        "compile CEL selector `'é' == 'é' &&\n device.nope == 1`: 2:9: device has no field \"nope\"; \
         it has driver, attributes, capacity and allowMultipleAllocations",
    );
    check(
        "device.driver = 'x'",
        "compile CEL selector `device.driver = 'x'`: 1:15: unexpected character '='",
    );
    check("", "compile CEL selector ``: 1:1: expected an expression, found the end");
    check("'abc", "compile CEL selector `'abc`: 1:1: text without a closing quote");
}
