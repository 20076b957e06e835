//! Kubernetes quantities, exact: a signed number of nano-units that remembers its suffix family.
//!
//! Texts are read and written as `k8s.io/apimachinery/pkg/api/resource` does it, with one limit of
//! our own: values of 1.7e29 units and more are refused, where upstream goes on without bound.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity as WireQuantity;

/// An exact quantity. Equality, order and hash go by value alone; `Display` writes the canonical
/// form in the family of the text it was read from.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    nanos: i128,
    family: Family,
}

/// Which suffixes the canonical form uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    /// `n` to `E`, powers of 1000.
    DecimalSi,
    /// `Ki` to `Ei`, powers of 1024.
    BinarySi,
    /// `e3`, `E-6`.
    DecimalExponent,
}

/// A text that is no quantity.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum ParseQuantityError {
    /// The number itself is malformed, or the text is empty.
    #[error("not a quantity: {0:?}: expected a number with an optional suffix such as Gi, M or m")]
    Number(String),
    /// What follows the number is no suffix.
    #[error(
        "not a quantity: {text:?}: unknown suffix {suffix:?}: expected n, u, m, k, M, G, T, P, E, \
         Ki, Mi, Gi, Ti, Pi, Ei or an exponent such as e3"
    )]
    Suffix {
        /// The whole text.
        text: String,
        /// What follows the number.
        suffix: String,
    },
    /// The value does not fit.
    #[error("quantity {0:?} is too large: expected less than 1.7e29")]
    TooLarge(String),
}

const NANOS_PER_UNIT: i128 = 1_000_000_000;
/// Nano-units are the ninth decimal place.
const NANO_PLACES: i64 = 9;
/// Upstream caps binary quantities here.
const BINARY_CAP: i128 = i64::MAX as i128 * NANOS_PER_UNIT;
/// Suffix and power of ten.
const DECIMAL_SUFFIXES: [(&str, i32); 10] = [
    ("n", -9),
    ("u", -6),
    ("m", -3),
    ("", 0),
    ("k", 3),
    ("M", 6),
    ("G", 9),
    ("T", 12),
    ("P", 15),
    ("E", 18),
];
/// Suffix and power of two.
const BINARY_SUFFIXES: [(&str, u32); 6] =
    [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];

impl Quantity {
    /// Nothing.
    pub const ZERO: Self = Self { nanos: 0, family: Family::DecimalSi };

    /// A whole number of units, of the decimal family. [`From`] does the same for `u64`.
    pub fn from_units(units: i64) -> Self {
        Self::from(units)
    }

    /// Value in nano-units.
    pub fn nanos(self) -> i128 {
        self.nanos
    }

    /// -1, 0 or 1.
    pub fn sign(self) -> i32 {
        match self.nanos.cmp(&0) {
            Ordering::Less => -1,
            Ordering::Equal => 0,
            Ordering::Greater => 1,
        }
    }

    /// The value in units; absent when it has a fraction or does not fit.
    pub fn as_integer(self) -> Option<i64> {
        if self.nanos % NANOS_PER_UNIT != 0 {
            return None;
        }
        i64::try_from(self.nanos / NANOS_PER_UNIT).ok()
    }

    /// Whether [`Self::as_integer`] gives a number.
    pub fn is_integer(self) -> bool {
        self.as_integer().is_some()
    }

    /// The value in units, to the precision of a float.
    pub fn as_approximate_f64(self) -> f64 {
        match self.nanos % NANOS_PER_UNIT {
            0 => (self.nanos / NANOS_PER_UNIT) as f64,
            _ => self.nanos as f64 / NANOS_PER_UNIT as f64,
        }
    }

    /// Sum; absent when it does not fit. Keeps the family of `self`, or that of `other` if `self`
    /// is zero.
    pub fn checked_add(self, other: Self) -> Option<Self> {
        let nanos = self.nanos.checked_add(other.nanos)?;
        Some(Self { nanos, family: self.family_beside(other) })
    }

    /// Difference; absent when it does not fit. Family as for [`Self::checked_add`].
    pub fn checked_sub(self, other: Self) -> Option<Self> {
        let nanos = self.nanos.checked_sub(other.nanos)?;
        Some(Self { nanos, family: self.family_beside(other) })
    }

    fn family_beside(self, other: Self) -> Family {
        if self.nanos == 0 { other.family } else { self.family }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl Hash for Quantity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.nanos.hash(state);
    }
}

impl From<i64> for Quantity {
    fn from(units: i64) -> Self {
        Self { nanos: i128::from(units) * NANOS_PER_UNIT, family: Family::DecimalSi }
    }
}

impl From<u64> for Quantity {
    fn from(units: u64) -> Self {
        Self { nanos: i128::from(units) * NANOS_PER_UNIT, family: Family::DecimalSi }
    }
}

impl TryFrom<&WireQuantity> for Quantity {
    type Error = ParseQuantityError;

    /// Blanks around the text are dropped, as upstream's JSON decoder does.
    fn try_from(wire: &WireQuantity) -> Result<Self, Self::Error> {
        wire.0.trim().parse()
    }
}

impl From<Quantity> for WireQuantity {
    fn from(quantity: Quantity) -> Self {
        Self(quantity.to_string())
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos == 0 {
            return f.pad("0");
        }
        let whole = self.nanos % NANOS_PER_UNIT == 0;
        let units = self.nanos / NANOS_PER_UNIT;
        // Small or broken binary values are shown in the decimal family: nothing is rounded. So are
        // sums over the cap, which a reader would cut down.
        let binary = self.family == Family::BinarySi
            && whole
            && units.abs() >= 1024
            && self.nanos.unsigned_abs() <= BINARY_CAP.unsigned_abs();
        match binary {
            true => f.pad(&canonical_binary(units)),
            false => f.pad(&canonical_decimal(self.nanos, self.family)),
        }
    }
}

/// `units` over the largest power of 1024 that divides it.
fn canonical_binary(mut units: i128) -> String {
    let mut suffix = "";
    for (name, _) in BINARY_SUFFIXES {
        if units % 1024 != 0 {
            break;
        }
        units /= 1024;
        suffix = name;
    }
    format!("{units}{suffix}")
}

/// `nanos` (not 0) over the largest power of 1000 that divides it.
fn canonical_decimal(nanos: i128, family: Family) -> String {
    let mut mantissa = nanos;
    let mut exponent: i32 = -9;
    // At most 12 rounds: an i128 is below 10^39.
    while mantissa % 1000 == 0 {
        mantissa /= 1000;
        exponent += 3;
    }
    let suffix = match family {
        Family::DecimalExponent => None,
        _ => DECIMAL_SUFFIXES.iter().find(|(_, power)| *power == exponent),
    };
    match suffix {
        Some((name, _)) => format!("{mantissa}{name}"),
        None if exponent == 0 => mantissa.to_string(),
        None => format!("{mantissa}e{exponent}"),
    }
}

impl FromStr for Quantity {
    type Err = ParseQuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let literal = Literal::split(text)?;
        let Some((family, scale)) = literal.scale() else {
            return Err(ParseQuantityError::Suffix {
                text: text.to_owned(),
                suffix: literal.suffix.to_owned(),
            });
        };
        let magnitude = literal.nanos(scale);
        let magnitude = match (family, magnitude) {
            (Family::BinarySi, found) => found.unwrap_or(BINARY_CAP).min(BINARY_CAP),
            (_, Some(found)) => found,
            (_, None) => return Err(ParseQuantityError::TooLarge(text.to_owned())),
        };
        let below_one = 0 < magnitude && magnitude < NANOS_PER_UNIT;
        let family = match family {
            Family::BinarySi if below_one => Family::DecimalSi,
            other => other,
        };
        Ok(Self { nanos: if literal.negative { -magnitude } else { magnitude }, family })
    }
}

/// The parts of a text: sign, digits before and after the point, suffix.
struct Literal<'a> {
    negative: bool,
    whole: &'a str,
    fraction: &'a str,
    suffix: &'a str,
}

/// What a suffix multiplies by.
#[derive(Clone, Copy)]
enum Multiplier {
    PowerOfTen(i64),
    PowerOfTwo(u32),
}

impl<'a> Literal<'a> {
    /// A sign, a point or a suffix without digits counts as zero, as upstream reads it.
    fn split(text: &'a str) -> Result<Self, ParseQuantityError> {
        if text.is_empty() {
            return Err(ParseQuantityError::Number(text.to_owned()));
        }
        let (negative, unsigned) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let (whole, rest) = split_digits(unsigned);
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => split_digits(rest),
            None => ("", rest),
        };
        if !suffix.is_empty() && !suffix.starts_with(|c: char| c.is_ascii_alphabetic()) {
            return Err(ParseQuantityError::Number(text.to_owned()));
        }
        Ok(Self { negative, whole, fraction, suffix })
    }

    fn scale(&self) -> Option<(Family, Multiplier)> {
        if let Some((_, power)) = DECIMAL_SUFFIXES.iter().find(|(name, _)| *name == self.suffix) {
            return Some((Family::DecimalSi, Multiplier::PowerOfTen(i64::from(*power))));
        }
        if let Some((_, power)) = BINARY_SUFFIXES.iter().find(|(name, _)| *name == self.suffix) {
            return Some((Family::BinarySi, Multiplier::PowerOfTwo(*power)));
        }
        let exponent = self.suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
        Some((Family::DecimalExponent, Multiplier::PowerOfTen(exponent)))
    }

    /// The magnitude in nano-units, rounded up; absent when it does not fit.
    fn nanos(&self, multiplier: Multiplier) -> Option<i128> {
        let mut digits: Vec<u8> =
            self.whole.bytes().chain(self.fraction.bytes()).map(|digit| digit - b'0').collect();
        let places = NANO_PLACES.saturating_sub_unsigned(self.fraction.len() as u64);
        match multiplier {
            Multiplier::PowerOfTen(power) => shifted(&digits, places.saturating_add(power)),
            Multiplier::PowerOfTwo(power) => {
                // At most 60 rounds over the text: exact, and linear in its length.
                (0..power).for_each(|_| double(&mut digits));
                shifted(&digits, places)
            }
        }
    }
}

fn split_digits(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

/// Doubles a decimal number, most significant digit first.
fn double(digits: &mut Vec<u8>) {
    let mut carry = 0;
    for digit in digits.iter_mut().rev() {
        let twice = *digit * 2 + carry;
        *digit = twice % 10;
        carry = twice / 10;
    }
    if carry > 0 {
        digits.insert(0, carry);
    }
}

/// `digits` times 10^`places`, rounded up to a whole number; absent when it does not fit.
fn shifted(digits: &[u8], places: i64) -> Option<i128> {
    let dropped = usize::try_from(places.saturating_neg()).unwrap_or(0).min(digits.len());
    let (kept, cut) = digits.split_at(digits.len() - dropped);
    let mut value: i128 = 0;
    for digit in kept {
        value = value.checked_mul(10)?.checked_add(i128::from(*digit))?;
    }
    if cut.iter().any(|digit| *digit != 0) {
        value = value.checked_add(1)?;
    }
    if value == 0 {
        return Some(0);
    }
    let zeros = u32::try_from(places.max(0)).ok()?;
    value.checked_mul(10_i128.checked_pow(zeros)?)
}

#[cfg(test)]
mod tests;
