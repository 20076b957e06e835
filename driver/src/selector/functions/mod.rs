//! The functions of the environment, by library, with the types they take.

pub(super) mod amount;
pub(super) mod convert;
pub(super) mod format;
pub(super) mod lists;
pub(super) mod network;
mod optional;
pub(super) mod quantity;
pub(super) mod regexes;
mod sets;
mod standard;
mod strings;
pub(super) mod strings_format;
mod url;
pub(super) mod version;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::types::Signature;
use super::value::{Budget, Evaluated, Value};

/// Runs a function on values that its signature accepts.
pub(super) type Function = for<'a> fn(&[Value<'a>], &mut Budget) -> Evaluated<'a>;

/// A function as its library declares it.
pub(super) struct Declaration {
    name: &'static str,
    member: bool,
    /// Such as `string, int -> string`; the receiver of a member is the first.
    signature: &'static str,
    run: Function,
}

/// A function `name(...)`; a namespace is part of the name.
const fn global(name: &'static str, signature: &'static str, run: Function) -> Declaration {
    Declaration { name, member: false, signature, run }
}

/// A function `receiver.name(...)`.
const fn member(name: &'static str, signature: &'static str, run: Function) -> Declaration {
    Declaration { name, member: true, signature, run }
}

/// A function with one choice of parameter types.
#[derive(Debug)]
pub(super) struct Overload {
    pub name: &'static str,
    pub signature: Signature,
    pub run: Function,
}

impl Overload {
    /// Whether values are of the types that it takes.
    pub fn accepts(&self, values: &[Value<'_>]) -> bool {
        let params = &self.signature.params;
        params.len() == values.len()
            && params.iter().zip(values).all(|(param, value)| param.accepts(value))
    }
}

const LIBRARIES: [&[Declaration]; 12] = [
    convert::FUNCTIONS,
    format::FUNCTIONS,
    lists::FUNCTIONS,
    network::FUNCTIONS,
    optional::FUNCTIONS,
    quantity::FUNCTIONS,
    regexes::FUNCTIONS,
    sets::FUNCTIONS,
    standard::FUNCTIONS,
    strings::FUNCTIONS,
    url::FUNCTIONS,
    version::FUNCTIONS,
];

type ByName = BTreeMap<&'static str, Vec<Overload>>;

static GLOBALS: LazyLock<ByName> = LazyLock::new(|| collect(false));
static MEMBERS: LazyLock<ByName> = LazyLock::new(|| collect(true));

fn collect(member: bool) -> ByName {
    let mut by_name = ByName::new();
    for declaration in LIBRARIES.into_iter().flatten().filter(|known| known.member == member) {
        let Declaration { name, signature, run, .. } = *declaration;
        // A test reads every signature; here a bad one would leave its function out.
        if let Some(signature) = Signature::parse(signature) {
            by_name.entry(name).or_default().push(Overload { name, signature, run });
        }
    }
    by_name
}

/// Functions of a name, called on a receiver or not.
pub(super) fn named(name: &str, member: bool) -> &'static [Overload] {
    let by_name = if member { &MEMBERS } else { &GLOBALS };
    by_name.get(name).map(Vec::as_slice).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_signature_is_readable_and_has_few_enough_parameters() {
        for declaration in LIBRARIES.into_iter().flatten() {
            let signature = Signature::parse(declaration.signature);
            let count = signature.map(|signature| signature.params.len());
            assert!(
                count.is_some_and(|count| count <= super::super::eval::MAX_ARGUMENTS),
                "{}: {}",
                declaration.name,
                declaration.signature
            );
        }
    }
}
