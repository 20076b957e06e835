//! A quantity with what upstream keeps beside the value: how it is stored. Whether `asInteger()` works
//! depends on that, and not on the value alone.

use std::sync::Arc;

use lanemate_api::Quantity;
use lanemate_api::quantity::ParseQuantityError;

/// Powers of ten in a nano-unit.
const NANO: i32 = -9;

/// A quantity of the expression or of the device. Copies are cheap, and small beside other values.
#[derive(Clone, Debug)]
pub(in super::super) enum Amount<'a> {
    /// Stored as its canonical text says.
    Capacity(&'a Quantity),
    Lent(&'a Stored),
    Shared(Arc<Stored>),
}

#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Stored {
    pub quantity: Quantity,
    form: Form,
}

/// How upstream stores a value.
#[derive(Clone, Copy, Debug)]
struct Form {
    /// The value is a whole number of this power of ten.
    exponent: i32,
    /// Stored with unbounded digits, which never count as an integer.
    wide: bool,
    /// A result of `add` or `sub`, which upstream stores as another type: nothing equals it from the
    /// left.
    sum: bool,
}

impl From<Stored> for Amount<'_> {
    fn from(stored: Stored) -> Self {
        Self::Shared(Arc::new(stored))
    }
}

impl Stored {
    /// Reads a text. A value over the range of [`Quantity`] becomes the largest one.
    pub fn read(text: &str) -> Result<Self, ParseQuantityError> {
        let too_large = |largest: &str| Ok(Self { quantity: largest.parse()?, form: Form::WIDE });
        match text.parse() {
            Ok(quantity) => Ok(Self { quantity, form: Form::of(text) }),
            Err(ParseQuantityError::TooLarge(_)) if text.starts_with('-') => too_large("-170e27"),
            Err(ParseQuantityError::TooLarge(_)) => too_large("170e27"),
            Err(error) => Err(error),
        }
    }

    /// A number of units.
    pub fn of_units(units: i64) -> Self {
        let form = Form { exponent: 0, wide: false, sum: false };
        Self { quantity: Quantity::from_units(units), form }
    }

    /// The value over the power of ten in which it is stored.
    fn mantissa(&self, exponent: i32) -> i128 {
        let power = u32::try_from(exponent - NANO).ok().and_then(|n| 10_i128.checked_pow(n));
        power.map_or(0, |power| self.quantity.nanos() / power)
    }

    /// The value, where it is stored as an integer.
    pub fn as_integer(&self) -> Option<i64> {
        let Form { exponent, wide, .. } = self.form;
        if wide || exponent < 0 { None } else { self.quantity.as_integer() }
    }

    pub fn as_approximate_float(&self) -> f64 {
        let exponent = self.form.exponent;
        let mantissa = self.mantissa(exponent) as f64;
        match exponent {
            0 => mantissa,
            exponent => mantissa * format!("1e{exponent}").parse::<f64>().unwrap_or(1.0),
        }
    }

    /// The result of adding `other` or taking it away, which is `quantity`.
    pub fn sum(&self, other: &Self, quantity: Quantity) -> Self {
        let (a, b) = (self.form, other.form);
        let exponent = match (self.quantity.sign(), other.quantity.sign()) {
            _ if a.wide || b.wide => a.exponent.min(b.exponent),
            (_, 0) => a.exponent,
            (0, _) => b.exponent,
            _ => a.exponent.min(b.exponent),
        };
        let total = Self { quantity, form: Form::WIDE };
        let small = [self, other, &total]
            .iter()
            .all(|amount| i64::try_from(amount.mantissa(exponent)).is_ok());
        let wide = a.wide || b.wide || !small;
        Self { quantity, form: Form { exponent, wide, sum: true } }
    }
}

impl Amount<'_> {
    pub fn quantity(&self) -> &Quantity {
        match self {
            Self::Capacity(quantity) => quantity,
            Self::Lent(stored) => &stored.quantity,
            Self::Shared(stored) => &stored.quantity,
        }
    }

    /// The value with its form, which a capacity must be asked for.
    pub fn stored(&self) -> Stored {
        match self {
            Self::Capacity(quantity) => {
                Stored { quantity: **quantity, form: Form::of(&quantity.to_string()) }
            }
            Self::Lent(stored) => **stored,
            Self::Shared(stored) => **stored,
        }
    }

    /// The same value, without a share in it.
    pub fn lent(&self) -> Amount<'_> {
        match self {
            Self::Capacity(quantity) => Amount::Capacity(quantity),
            Self::Lent(stored) => Amount::Lent(stored),
            Self::Shared(stored) => Amount::Lent(stored),
        }
    }

    pub fn is_sum(&self) -> bool {
        match self {
            Self::Capacity(_) => false,
            Self::Lent(stored) => stored.form.sum,
            Self::Shared(stored) => stored.form.sum,
        }
    }
}

impl Form {
    /// Nano-units, as many as there are.
    const WIDE: Self = Self { exponent: NANO, wide: true, sum: false };

    /// The form of a text that is a quantity.
    fn of(text: &str) -> Self {
        /// Digits that upstream stores in 64 bits without a second thought.
        const MOST_DIGITS: usize = 18;
        let text = text.trim_start_matches(['-', '+']).trim_start_matches('0');
        let digits_end =
            |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (whole, rest) = text.split_at(digits_end(text));
        let rest = rest.strip_prefix('.').unwrap_or(rest);
        let (fraction, suffix) = rest.split_at(digits_end(rest));
        let whole_digits = whole.len().max(1);
        let places = i32::try_from(fraction.len()).unwrap_or(i32::MAX);
        if suffix.ends_with('i') {
            // 1Mi has about 6 decimal digits.
            let powers = suffix.chars().next().and_then(|c| "KMGTPE".find(c)).unwrap_or(0) + 1;
            let fits = fraction.is_empty() && whole_digits + powers * 3 < 15;
            return if fits { Self { exponent: 0, wide: false, sum: false } } else { Self::WIDE };
        }
        let exponent = decimal_exponent(suffix).saturating_sub(places);
        if whole_digits + fraction.len() > MOST_DIGITS || exponent < NANO {
            return Self::WIDE;
        }
        Self { exponent, wide: false, sum: false }
    }
}

fn decimal_exponent(suffix: &str) -> i32 {
    match suffix {
        "n" => -9,
        "u" => -6,
        "m" => -3,
        "" => 0,
        "k" => 3,
        "M" => 6,
        "G" => 9,
        "T" => 12,
        "P" => 15,
        "E" => 18,
        exponent => exponent.trim_start_matches(['e', 'E']).parse().unwrap_or(i32::MAX),
    }
}
