//! Runs a checked expression over one device.

mod arithmetic;
mod loops;

use super::Subject;
use super::access;
use super::error::EvalError;
use super::functions::regexes;
use super::node::{Element, Entry, How, Node, Operator, Search, Which};
use super::value::{Budget, Evaluated, Table, Value};

/// Arguments of the function with the most, receiver included.
pub(super) const MAX_ARGUMENTS: usize = 4;

/// Whether the expression is true.
pub(super) fn matches(root: &Node, subject: Subject<'_>) -> Result<bool, EvalError> {
    let mut run = Run { subject, locals: Vec::new(), budget: Budget::new() };
    match run.eval(root)? {
        Value::Bool(answer) => Ok(answer),
        other => Err(EvalError::NotBool(other.kind())),
    }
}

struct Run<'a> {
    subject: Subject<'a>,
    locals: Vec<Value<'a>>,
    budget: Budget,
}

impl<'a> Run<'a> {
    fn eval(&mut self, node: &'a Node) -> Evaluated<'a> {
        self.budget.spend(1)?;
        match node {
            Node::Const(value) => Ok(value.lent()),
            Node::Local(slot) => self.local(*slot),
            Node::Device => Ok(Value::Device(self.subject)),
            Node::Driver => Ok(Value::text(self.subject.driver)),
            Node::Table(which) => Ok(Value::Table(self.table(*which))),
            Node::Domain(which, domain) => {
                Ok(Value::Domain(self.table(*which), domain.as_str().into()))
            }
            Node::Entry(which, name, how) => {
                let table = self.table(*which);
                match how {
                    How::Has => Ok(Value::Bool(table.holds(name))),
                    How::Find => Ok(optional(table.entry(name)?)),
                    How::Get => table.entry(name)?.ok_or_else(|| table.missing(name.clone())),
                }
            }
            Node::Access { operand, key, how } => self.access(operand, key, *how),
            Node::And(operands) => self.decide(operands, false),
            Node::Or(operands) => self.decide(operands, true),
            Node::Not(operand) => Ok(Value::Bool(!self.condition(operand, "!")?)),
            Node::Negate(operand) => arithmetic::negate(self.eval(operand)?),
            Node::Conditional(parts) => {
                let [condition, yes, no] = &**parts;
                let chosen = if self.condition(condition, "?:")? { yes } else { no };
                self.eval(chosen)
            }
            Node::Binary(operator, operands) => self.binary(*operator, operands),
            _ => self.eval_rare(node),
        }
    }

    /// The rest, apart so that the common steps need little stack.
    #[inline(never)]
    fn eval_rare(&mut self, node: &'a Node) -> Evaluated<'a> {
        match node {
            Node::OrValue(parts) => {
                let [optional, default] = &**parts;
                match self.eval_optional(optional)? {
                    Some(value) => Ok(value),
                    None => self.eval(default),
                }
            }
            Node::OrElse(parts) => {
                let [optional, other] = &**parts;
                match self.eval(optional)? {
                    Value::Optional(None) => self.eval(other),
                    some => Ok(some),
                }
            }
            Node::Search { text, pattern, search } => self.search(text, pattern, *search),
            Node::Call { overloads, args } => self.call(overloads, args),
            Node::List(elements) => self.list(elements),
            Node::Map(entries) => self.map(entries),
            Node::Bind(parts) => {
                let [value, body] = &**parts;
                let value = self.eval(value)?;
                self.with(value, body)
            }
            Node::OptionalMap { optional, body, flat } => match self.eval_optional(optional)? {
                None => Ok(Value::NONE),
                Some(value) => {
                    let mapped = self.with(value, body)?;
                    Ok(if *flat { mapped } else { Value::some(mapped) })
                }
            },
            Node::Loop(each) => self.run_loop(each),
            // The common steps, which `eval` has taken.
            _ => Err(EvalError::TooExpensive),
        }
    }

    fn local(&self, slot: usize) -> Evaluated<'a> {
        self.locals.get(slot).cloned().ok_or(EvalError::EmptyOptional)
    }

    fn table(&self, which: Which) -> Table<'a> {
        match which {
            Which::Attributes => Table::Attributes(self.subject.attributes),
            Which::Capacity => Table::Capacity(self.subject.capacity),
        }
    }

    /// Runs a body with one more variable.
    fn with(&mut self, value: Value<'a>, body: &'a Node) -> Evaluated<'a> {
        self.locals.push(value);
        let result = self.eval(body);
        self.locals.pop();
        result
    }

    fn condition(&mut self, node: &'a Node, operator: &str) -> Result<bool, EvalError> {
        match self.eval(node)? {
            Value::Bool(value) => Ok(value),
            other => Err(no_overload(operator, &[other])),
        }
    }

    /// `&&` decides on false, `||` on true; a deciding operand absorbs errors on either side.
    fn decide(&mut self, operands: &'a [Node], deciding: bool) -> Evaluated<'a> {
        let operator = if deciding { "||" } else { "&&" };
        let mut first_error = None;
        for operand in operands {
            match self.condition(operand, operator) {
                Ok(value) if value == deciding => return Ok(Value::Bool(deciding)),
                Ok(_) => {}
                // The limit is not a value of the expression: nothing absorbs it.
                Err(EvalError::TooExpensive) => return Err(EvalError::TooExpensive),
                Err(error) => {
                    first_error.get_or_insert(error);
                }
            }
        }
        first_error.map_or(Ok(Value::Bool(!deciding)), Err)
    }

    fn access(&mut self, operand: &'a Node, key: &'a Node, how: How) -> Evaluated<'a> {
        let operand = self.eval(operand)?;
        let key = self.eval(key)?;
        let chained = matches!(operand, Value::Optional(_));
        match how {
            How::Get => access::get(&operand, &key, &mut self.budget),
            How::Find if chained => access::get(&operand, &key, &mut self.budget),
            How::Find => Ok(optional(access::find(&operand, &key, &mut self.budget)?)),
            How::Has => Ok(Value::Bool(match access::find(&operand, &key, &mut self.budget)? {
                Some(Value::Optional(inner)) if chained => inner.is_some(),
                found => found.is_some(),
            })),
        }
    }

    fn binary(&mut self, operator: Operator, operands: &'a [Node; 2]) -> Evaluated<'a> {
        let [left, right] = operands;
        let left = self.eval(left)?;
        let right = self.eval(right)?;
        let answer = match operator {
            Operator::Equal => left.equals(&right, &mut self.budget)?,
            Operator::NotEqual => !left.equals(&right, &mut self.budget)?,
            Operator::In => access::contains(&right, &left, &mut self.budget)?,
            _ => return arithmetic::apply(operator, left, right, &mut self.budget),
        };
        Ok(Value::Bool(answer))
    }

    /// An optional whose value is about to be used at once.
    fn eval_optional(&mut self, node: &'a Node) -> Result<Option<Value<'a>>, EvalError> {
        if let Node::Entry(which, name, How::Find) = node {
            return self.table(*which).entry(name);
        }
        match self.eval(node)? {
            Value::Optional(inner) => Ok(inner.map(|inner| (*inner).clone())),
            other => Err(no_overload("orValue", &[other])),
        }
    }

    fn search(&mut self, text: &'a Node, pattern: &regex::Regex, search: Search) -> Evaluated<'a> {
        let text = match self.eval(text)? {
            Value::Text(text) => text,
            other => return Err(no_overload("matches", &[other])),
        };
        self.budget.spend_text(text.len())?;
        match search {
            Search::Matches => Ok(Value::Bool(pattern.is_match(&text))),
            Search::Find => Ok(regexes::first(pattern, &text)),
            Search::FindAll => regexes::all(pattern, &text, usize::MAX, &mut self.budget),
        }
    }

    fn call(
        &mut self,
        overloads: &'a [&'static super::functions::Overload],
        args: &'a [Node],
    ) -> Evaluated<'a> {
        let mut values = [const { Value::Null }; MAX_ARGUMENTS];
        for (value, arg) in values.iter_mut().zip(args) {
            *value = self.eval(arg)?;
        }
        let values = values.get(..args.len()).unwrap_or_default();
        match overloads.iter().find(|overload| overload.accepts(values)) {
            Some(overload) => (overload.run)(values, &mut self.budget),
            None => {
                Err(no_overload(overloads.first().map_or("", |overload| overload.name), values))
            }
        }
    }

    fn list(&mut self, elements: &'a [Element]) -> Evaluated<'a> {
        let mut values = Vec::with_capacity(elements.len());
        for element in elements {
            match self.eval(&element.value)? {
                value if !element.optional => values.push(value),
                Value::Optional(inner) => values.extend(inner.map(|inner| (*inner).clone())),
                other => return Err(no_overload("[?]", &[other])),
            }
        }
        Value::list(values, &mut self.budget)
    }

    fn map(&mut self, entries: &'a [Entry]) -> Evaluated<'a> {
        let mut pairs = Vec::with_capacity(entries.len());
        for entry in entries {
            let key = self.eval(&entry.key)?;
            match self.eval(&entry.value)? {
                value if !entry.optional => self.insert(&mut pairs, key, value)?,
                Value::Optional(Some(inner)) => {
                    self.insert(&mut pairs, key, (*inner).clone())?;
                }
                Value::Optional(None) => {}
                other => return Err(no_overload("{?}", &[other])),
            }
        }
        Ok(Value::Map(pairs.into()))
    }

    /// Adds an entry; keys are bool, int, uint or string, each once.
    fn insert(
        &mut self,
        pairs: &mut Vec<(Value<'a>, Value<'a>)>,
        key: Value<'a>,
        value: Value<'a>,
    ) -> Result<(), EvalError> {
        let fits = matches!(key, Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::Text(_));
        for (taken, _) in pairs.iter() {
            if !fits || taken.equals(&key, &mut self.budget)? {
                return Err(refused_key(&key));
            }
        }
        if !fits {
            return Err(refused_key(&key));
        }
        pairs.push((key, value));
        Ok(())
    }
}

fn refused_key(key: &Value<'_>) -> EvalError {
    EvalError::Refused {
        function: "map key",
        problem: format!("{} is repeated or no key", super::functions::convert::shown(key)),
    }
}

fn optional(value: Option<Value<'_>>) -> Value<'_> {
    value.map_or(Value::NONE, Value::some)
}

/// The error of values that a function or operator does not take.
pub(super) fn no_overload(function: &str, values: &[Value<'_>]) -> EvalError {
    let kinds: Vec<&str> = values.iter().map(Value::kind).collect();
    EvalError::NoOverload {
        function: function.to_owned(),
        given: format!("({})", kinds.join(", ")),
    }
}
