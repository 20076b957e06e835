//! Quantities against the canonical forms of upstream.

use std::collections::HashSet;

use super::*;

fn quantity(text: &str) -> Quantity {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn check_canonical(text: &str, expect: &str) {
    assert_eq!(quantity(text).to_string(), expect, "{text}");
}

#[test]
fn canonical_forms_are_those_of_upstream() {
    for (text, expect) in [
        ("0", "0"),
        ("0n", "0"),
        ("0Ki", "0"),
        ("-0", "0"),
        ("0e999999999999", "0"),
        ("1", "1"),
        ("+1", "1"),
        ("007", "7"),
        ("100", "100"),
        ("1000", "1k"),
        ("1.5", "1500m"),
        ("1500m", "1500m"),
        ("2000m", "2"),
        ("0.001", "1m"),
        (".5", "500m"),
        ("5.", "5"),
        ("1.G", "1G"),
        ("12E", "12E"),
        ("0.1E", "100P"),
        ("85520809984", "85520809984"),
        ("400000000000", "400G"),
        ("80Gi", "80Gi"),
        ("1024Mi", "1Gi"),
        ("1000Ki", "1000Ki"),
        ("1.5Gi", "1536Mi"),
        ("0.5Gi", "512Mi"),
        ("0.5Ki", "512"),
        ("0.0005Ki", "512m"),
        ("1.1Ki", "1126400m"),
        ("-1.5Gi", "-1536Mi"),
        ("-0.5Ki", "-512"),
        ("7Ei", "7Ei"),
        ("1e3", "1e3"),
        ("1E3", "1e3"),
        ("100e3", "100e3"),
        ("1.5e3", "1500"),
        ("1e2", "100"),
        ("1e-3", "1e-3"),
        ("12e-10", "2e-9"),
        ("3e+6", "3e6"),
    ] {
        check_canonical(text, expect);
    }
}

#[test]
fn too_precise_values_round_away_from_zero_to_nano_units() {
    for (text, expect) in [
        ("0.1n", "1n"),
        ("1.1n", "2n"),
        ("-1.1n", "-2n"),
        ("1.0000000001", "1000000001n"),
        ("1e-100", "1e-9"),
        ("0.00000000000000000000000000000000000000000000000001", "1n"),
        ("1.00000000000000000000000000000000000000000000000000", "1"),
        ("0.0000000001Ki", "103n"),
    ] {
        check_canonical(text, expect);
    }
}

#[test]
fn large_values_are_capped_kept_or_refused_by_family() {
    for (text, expect) in [
        ("8Ei", "9223372036854775807"),
        ("-8Ei", "-9223372036854775807"),
        ("99999999999999999999999999999999999999999999Ei", "9223372036854775807"),
        ("1000E", "1e21"),
        ("1e20", "100e18"),
        ("100000E", "100e21"),
        ("170000000000000000000000000000", "170e27"),
        ("1000000000000000000000000000000000000000000e-42", "1"),
    ] {
        check_canonical(text, expect);
    }
    for text in ["171e27", "-171e27", "1000000000000E", "1e1000000"] {
        let expect = ParseQuantityError::TooLarge(text.to_owned());
        assert_eq!(text.parse::<Quantity>(), Err(expect));
    }
}

#[test]
fn texts_that_are_no_quantity_are_refused() {
    for text in ["", " ", " 1", "1 ", "1 2", "1.1.M", "1+1.0M", "--1", "1,5", "é", "1é", "٣"] {
        assert!(text.parse::<Quantity>().is_err(), "{text:?}");
    }
    for (text, suffix) in [
        ("1i", "i"),
        ("0.1mi", "mi"),
        ("0.1am", "am"),
        ("aoeu", "aoeu"),
        (".5i", "i"),
        ("-3.01i", "i"),
        ("-3.01e-", "e-"),
        ("1e", "e"),
        ("1K", "K"),
        ("1kb", "kb"),
        ("1gi", "gi"),
        ("1e5x", "e5x"),
        ("1e3.5", "e3.5"),
        ("1Ki5", "Ki5"),
        ("NaN", "NaN"),
        ("inf", "inf"),
    ] {
        let expect =
            ParseQuantityError::Suffix { text: text.to_owned(), suffix: suffix.to_owned() };
        assert_eq!(text.parse::<Quantity>(), Err(expect));
    }
}

#[test]
fn a_text_without_digits_is_zero_as_upstream_reads_it() {
    for text in ["-", "+", ".", "-.", "m", "Ki", ".Gi"] {
        assert_eq!(quantity(text), Quantity::ZERO, "{text}");
    }
}

#[test]
fn errors_say_what_was_expected() {
    for (text, expect) in [
        ("", "not a quantity: \"\": expected a number with an optional suffix such as Gi, M or m"),
        (
            "1gb",
            "not a quantity: \"1gb\": unknown suffix \"gb\": expected n, u, m, k, M, G, T, P, E, \
             Ki, Mi, Gi, Ti, Pi, Ei or an exponent such as e3",
        ),
        ("1e99", "quantity \"1e99\" is too large: expected less than 1.7e29"),
    ] {
        assert_eq!(text.parse::<Quantity>().map_err(|e| e.to_string()), Err(expect.to_owned()));
    }
}

#[test]
fn equality_order_and_hash_go_by_value() {
    let same = ["1Gi", "1024Mi", "1073741824", "1073741824000m", "1073741824e0"];
    let distinct: HashSet<Quantity> = same.iter().map(|text| quantity(text)).collect();
    assert_eq!(distinct.len(), 1);
    let mut sorted = ["1Gi", "1G", "-1", "0", "1m", "999n"].map(quantity);
    sorted.sort();
    assert_eq!(sorted.map(|q| q.to_string()), ["-1", "0", "999n", "1m", "1G", "1Gi"]);
}

#[test]
fn sums_and_differences_are_exact_and_keep_the_family() {
    let sum = |a: &str, b: &str| quantity(a).checked_add(quantity(b)).unwrap().to_string();
    let difference = |a: &str, b: &str| quantity(a).checked_sub(quantity(b)).unwrap().to_string();
    assert_eq!(sum("1Gi", "1024Mi"), "2Gi");
    assert_eq!(sum("1Gi", "1"), "1073741825");
    assert_eq!(sum("0", "1Gi"), "1Gi");
    assert_eq!(sum("1", "500m"), "1500m");
    assert_eq!(sum("7Ei", "7Ei"), "16140901064495857664");
    assert_eq!(difference("1", "1500m"), "-500m");
    assert_eq!(difference("0", "2Ki"), "-2Ki");
    let huge = quantity("170e27");
    assert_eq!(huge.checked_add(huge), None);
    assert_eq!(quantity("-170e27").checked_sub(huge), None);
    let lowest = Quantity { nanos: i128::MIN, family: Family::BinarySi };
    assert_eq!(lowest.to_string(), "-170141183460469231731687303715884105728n");
}

#[test]
fn integers_floats_and_signs() {
    for (text, integer, float, sign) in [
        ("0", Some(0), 0.0, 0),
        ("1500m", None, 1.5, 1),
        ("2000m", Some(2), 2.0, 1),
        ("-1k", Some(-1000), -1000.0, -1),
        ("0.1", None, 0.1, 1),
        ("100E", None, 1e20, 1),
        ("80Gi", Some(80 << 30), 85_899_345_920.0, 1),
    ] {
        let found = quantity(text);
        assert_eq!(found.as_integer(), integer, "{text}");
        assert_eq!(found.is_integer(), integer.is_some(), "{text}");
        assert_eq!(found.as_approximate_f64(), float, "{text}");
        assert_eq!(found.sign(), sign, "{text}");
    }
    assert_eq!(Quantity::from(u64::MAX).to_string(), "18446744073709551615");
    assert_eq!(Quantity::from_units(i64::MIN).as_integer(), Some(i64::MIN));
}

#[test]
fn the_wire_type_keeps_the_canonical_text() {
    let wire = WireQuantity(" 1024Mi ".to_owned());
    let found = Quantity::try_from(&wire).unwrap();
    assert_eq!(WireQuantity::from(found).0, "1Gi");
    assert_eq!(format!("[{:>6}]", found), "[   1Gi]");
}

#[test]
fn a_canonical_text_reads_back_as_itself() {
    for text in ["1500m", "80Gi", "1e21", "100e3", "-2n", "9223372036854775807", "170e27"] {
        let again = quantity(&quantity(text).to_string());
        assert_eq!(again, quantity(text));
        assert_eq!(again.to_string(), quantity(text).to_string());
    }
}
