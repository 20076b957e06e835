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
    // Looked at in place: moving a value that was just written stalls for 10 ns.
    let result = run.eval(root);
    match &result {
        Ok(value) => truth(value),
        Err(_) => result.map(|_| false),
    }
}

/// A result as an answer. An optional counts as its value; it nests no deeper than the expression.
fn truth(result: &Value<'_>) -> Result<bool, EvalError> {
    match result {
        Value::Bool(answer) => Ok(*answer),
        Value::Optional(Some(inner)) => truth(inner),
        other => Err(EvalError::NotBool(other.kind())),
    }
}

struct Run<'a> {
    subject: Subject<'a>,
    /// Variables. The value of `cel.bind` may be an error, which counts where it is read.
    locals: Vec<Evaluated<'a>>,
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
                    some @ Value::Optional(Some(_)) => Ok(some),
                    single => Err(no_overload("or", &[single])),
                }
            }
            Node::Search { text, pattern, search } => self.search(text, pattern, *search),
            Node::Call { overloads, args } => self.call(overloads, args),
            Node::List(elements) => self.list(elements),
            Node::Map(entries) => self.map(entries),
            Node::Bind(parts) => {
                let [value, body] = &**parts;
                let value = self.eval(value);
                if value.as_ref().is_err_and(EvalError::is_final) {
                    return value;
                }
                self.with(value, body)
            }
            Node::OptionalMap { optional, body, flat } => match self.eval_optional(optional)? {
                None => Ok(Value::NONE),
                Some(value) => {
                    let mapped = self.with(Ok(value), body)?;
                    Ok(if *flat { mapped } else { Value::some(mapped) })
                }
            },
            Node::Loop(each) => self.run_loop(each),
            // The common steps, which `eval` has taken.
            _ => Err(EvalError::TooExpensive),
        }
    }

    fn local(&self, slot: usize) -> Evaluated<'a> {
        match self.locals.get(slot) {
            Some(Ok(value)) => Ok(value.clone()),
            Some(Err(error)) => Err(error.clone()),
            None => Err(EvalError::EmptyOptional),
        }
    }

    fn table(&self, which: Which) -> Table<'a> {
        match which {
            Which::Attributes => Table::Attributes(self.subject.attributes),
            Which::Capacity => Table::Capacity(self.subject.capacity),
        }
    }

    /// Runs a body with one more variable.
    fn with(&mut self, value: Evaluated<'a>, body: &'a Node) -> Evaluated<'a> {
        self.locals.push(value);
        let result = self.eval(body);
        self.locals.pop();
        result
    }

    fn condition(&mut self, node: &'a Node, operator: &str) -> Result<bool, EvalError> {
        let result = self.eval(node);
        match &result {
            Ok(Value::Bool(value)) => Ok(*value),
            Ok(other) => Err(no_overload(operator, std::slice::from_ref(other))),
            Err(_) => result.map(|_| false),
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
                // Such as the limit, which is not a value of the expression.
                Err(error) if error.is_final() => return Err(error),
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
            // What has no fields at all just lacks this one.
            How::Find if operand.is_single() => Ok(Value::NONE),
            How::Has if operand.is_single() => Ok(Value::Bool(false)),
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
            Operator::Equal => match left.compared(&right, &mut self.budget)? {
                Some(answer) => answer,
                None => return Err(no_overload("==", &[left, right])),
            },
            Operator::NotEqual => !left.equals(&right, &mut self.budget)?,
            Operator::InConstants if !access::is_hashed(&left) => {
                return Err(EvalError::NoKey(left.kind()));
            }
            Operator::In | Operator::InConstants => {
                access::contains(&right, &left, &mut self.budget)?
            }
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
            if !access::is_hashed(&key) {
                return Err(EvalError::NoKey(key.kind()));
            }
            match self.eval(&entry.value)? {
                value if !entry.optional => self.insert(&mut pairs, key, value)?,
                Value::Optional(Some(inner)) => {
                    self.insert(&mut pairs, key, (*inner).clone())?;
                }
                // An absent value takes away what is there.
                Value::Optional(None) => pairs.retain(|(taken, _)| !access::same_key(taken, &key)),
                other => return Err(no_overload("{?}", &[other])),
            }
        }
        Ok(Value::Map(pairs.into()))
    }

    /// Adds an entry; a later one of the same key replaces an earlier one.
    fn insert(
        &mut self,
        pairs: &mut Vec<(Value<'a>, Value<'a>)>,
        key: Value<'a>,
        value: Value<'a>,
    ) -> Result<(), EvalError> {
        self.budget.spend(pairs.len() * (1 + key.weight()))?;
        match pairs.iter_mut().find(|(taken, _)| access::same_key(taken, &key)) {
            Some((_, old)) => *old = value,
            None if access::is_hashed(&key) => pairs.push((key, value)),
            None => return Err(EvalError::NoKey(key.kind())),
        }
        Ok(())
    }

    /// Adds an entry whose key must be a new one.
    fn insert_new(
        &mut self,
        pairs: &mut Vec<(Value<'a>, Value<'a>)>,
        key: Value<'a>,
        value: Value<'a>,
    ) -> Result<(), EvalError> {
        let shown = super::functions::convert::shown(&key);
        let before = pairs.len();
        self.insert(pairs, key, value)?;
        if pairs.len() > before {
            return Ok(());
        }
        let problem = format!("{shown} is there already");
        Err(EvalError::Refused { function: "map key", problem })
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
