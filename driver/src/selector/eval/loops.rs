//! Macros over lists and maps.

use std::borrow::Cow;

use super::super::access;
use super::super::error::EvalError;
use super::super::functions::lists;
use super::super::node::{Loop, LoopKind};
use super::super::value::{Evaluated, Value};
use super::{Run, no_overload};

/// What one turn of a macro is about.
enum Item<'a> {
    Element(usize, Value<'a>),
    Entry(Value<'a>, Value<'a>),
}

impl<'a> Item<'a> {
    /// The variable of a macro with one: the element, or the key.
    fn single(&self) -> Value<'a> {
        match self {
            Self::Element(_, element) => element.clone(),
            Self::Entry(key, _) => key.clone(),
        }
    }

    /// The variables of a macro with two: index and element, or key and value.
    fn pair(&self) -> [Value<'a>; 2] {
        match self {
            Self::Element(index, element) => [index_value(*index), element.clone()],
            Self::Entry(key, value) => [key.clone(), value.clone()],
        }
    }
}

impl<'a> Run<'a> {
    pub(super) fn run_loop(&mut self, each: &'a Loop) -> Evaluated<'a> {
        let range = self.eval(&each.range)?;
        let items = items(&range, each.two_variables)?;
        self.budget.spend(items.len())?;
        match each.kind {
            LoopKind::All => self.quantify(each, items, false),
            LoopKind::Exists => self.quantify(each, items, true),
            LoopKind::ExistsOne => self.exists_one(each, items),
            LoopKind::Sort => self.sort_by(each, items),
            LoopKind::List | LoopKind::Filter => self.collect(each, items),
            LoopKind::Map | LoopKind::Entries => self.collect_map(each, items),
        }
    }

    /// Evaluates a part of the loop with its variables.
    fn turn(&mut self, each: &'a Loop, item: &Item<'a>, part: &'a super::Node) -> Evaluated<'a> {
        let before = self.locals.len();
        if each.two_variables {
            self.locals.extend(item.pair().map(Ok));
        } else {
            self.locals.push(Ok(item.single()));
        }
        let result = self.eval(part);
        self.locals.truncate(before);
        result
    }

    fn passes(&mut self, each: &'a Loop, item: &Item<'a>) -> Result<bool, EvalError> {
        match &each.filter {
            None => Ok(true),
            Some(filter) => truth(self.turn(each, item, filter)?, "filter"),
        }
    }

    /// `all` decides on false, `exists` on true; a deciding item absorbs the errors of others.
    fn quantify(&mut self, each: &'a Loop, items: Vec<Item<'a>>, deciding: bool) -> Evaluated<'a> {
        let mut first_error = None;
        for item in items {
            let result = self.turn(each, &item, &each.body);
            let answer = match &result {
                Ok(Value::Bool(answer)) => Ok(*answer),
                _ => result.and_then(|value| truth(value, "all, exists")),
            };
            match answer {
                Ok(value) if value == deciding => return Ok(Value::Bool(deciding)),
                Ok(_) => {}
                Err(error) if error.is_final() => return Err(error),
                Err(error) => {
                    first_error.get_or_insert(error);
                }
            }
        }
        first_error.map_or(Ok(Value::Bool(!deciding)), Err)
    }

    fn exists_one(&mut self, each: &'a Loop, items: Vec<Item<'a>>) -> Evaluated<'a> {
        let mut found = 0_usize;
        for item in items {
            if truth(self.turn(each, &item, &each.body)?, "existsOne")? {
                found += 1;
            }
        }
        Ok(Value::Bool(found == 1))
    }

    fn collect(&mut self, each: &'a Loop, items: Vec<Item<'a>>) -> Evaluated<'a> {
        let mut results = Vec::new();
        for item in items {
            if !self.passes(each, &item)? {
                continue;
            }
            let result = self.turn(each, &item, &each.body)?;
            if each.kind == LoopKind::List {
                results.push(result);
            } else if truth(result, "filter")? {
                results.push(item.single());
            }
        }
        Value::list(results, &mut self.budget)
    }

    fn collect_map(&mut self, each: &'a Loop, items: Vec<Item<'a>>) -> Evaluated<'a> {
        let mut pairs = Vec::new();
        for item in items {
            if !self.passes(each, &item)? {
                continue;
            }
            let result = self.turn(each, &item, &each.body)?;
            if each.kind == LoopKind::Map {
                let [key, _] = item.pair();
                self.insert_new(&mut pairs, key, result)?;
                continue;
            }
            let Some(entries) = access::entries(&result)?.map(Cow::into_owned) else {
                return Err(no_overload("transformMapEntry", &[result]));
            };
            for (key, value) in entries {
                self.insert_new(&mut pairs, key, value)?;
            }
        }
        Ok(Value::Map(pairs.into()))
    }

    fn sort_by(&mut self, each: &'a Loop, items: Vec<Item<'a>>) -> Evaluated<'a> {
        let mut keyed = Vec::with_capacity(items.len());
        for item in items {
            let key = self.turn(each, &item, &each.body)?;
            keyed.push((key, item.single()));
        }
        lists::sort_by_key(keyed, "sortBy", &mut self.budget)
    }
}

fn items<'a>(range: &Value<'a>, with_values: bool) -> Result<Vec<Item<'a>>, EvalError> {
    if let Value::List(elements) = range {
        let elements = elements.iter().cloned().enumerate();
        return Ok(elements.map(|(index, element)| Item::Element(index, element)).collect());
    }
    // The names of a domain are enough for one variable.
    if let (Value::Domain(table, domain), false) = (range, with_values) {
        let names = table.names_in(domain);
        return Ok(names.map(|name| Item::Entry(Value::text(&*name.id), Value::Null)).collect());
    }
    match access::entries(range)? {
        Some(entries) => {
            let entries = entries.into_owned().into_iter();
            Ok(entries.map(|(key, value)| Item::Entry(key, value)).collect())
        }
        None => Err(no_overload("macro", std::slice::from_ref(range))),
    }
}

fn index_value<'a>(index: usize) -> Value<'a> {
    Value::Int(i64::try_from(index).unwrap_or(i64::MAX))
}

fn truth(value: Value<'_>, function: &str) -> Result<bool, EvalError> {
    match value {
        Value::Bool(value) => Ok(value),
        other => Err(no_overload(function, &[other])),
    }
}
