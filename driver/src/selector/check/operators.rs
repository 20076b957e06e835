//! Operators, and what they take.

use super::super::error::Problem;
use super::super::node::{Node, Operator};
use super::super::syntax::{Expr, Kind};
use super::super::types::Type;
use super::super::value::Value;
use super::{Checker, Typed};

impl Checker<'_> {
    pub(super) fn not(&mut self, expr: &Expr, operand: &Expr) -> Result<Typed, Problem> {
        let operand = self.check(operand)?;
        if !operand.ty.agrees(&Type::Bool) {
            return Err(self.arguments(expr, "!", &[&operand.ty], "bool"));
        }
        Ok(Typed::new(Node::Not(Box::new(operand.node)), Type::Bool))
    }

    pub(super) fn negate(&mut self, expr: &Expr, operand: &Expr) -> Result<Typed, Problem> {
        let operand = self.check(operand)?;
        if !matches!(operand.ty, Type::Int | Type::Double) && !operand.ty.is_dyn() {
            return Err(self.arguments(expr, "-", &[&operand.ty], "int or double"));
        }
        // An undecided operand takes the type of the first overload.
        let ty = if operand.ty == Type::Free { Type::Double } else { operand.ty };
        Ok(Typed::new(Node::Negate(Box::new(operand.node)), ty))
    }

    /// Operands of `&&` or `||`; those of the same operator in brackets join them.
    pub(super) fn truths(
        &mut self,
        operands: &[Expr],
        symbol: &str,
    ) -> Result<Box<[Node]>, Problem> {
        let mut nodes = Vec::with_capacity(operands.len());
        for operand in operands {
            let inner = match (&operand.kind, symbol) {
                (Kind::And(inner), "&&") | (Kind::Or(inner), "||") => inner,
                _ => {
                    let typed = self.check(operand)?;
                    if !typed.ty.agrees(&Type::Bool) {
                        return Err(self.arguments(operand, symbol, &[&typed.ty], "bool"));
                    }
                    nodes.push(typed.node);
                    continue;
                }
            };
            nodes.extend(self.truths(inner, symbol)?);
        }
        Ok(nodes.into())
    }

    pub(super) fn conditional(&mut self, expr: &Expr, parts: &[Expr; 3]) -> Result<Typed, Problem> {
        let [condition, yes, no] = parts;
        let condition = self.check(condition)?;
        let yes = self.check(yes)?;
        let no = self.check(no)?;
        if !condition.ty.agrees(&Type::Bool) {
            return Err(self.arguments(expr, "?:", &[&condition.ty], "a bool to decide"));
        }
        let Some(ty) = yes.ty.join(&no.ty) else {
            let known = "two values of one type to choose from";
            return Err(self.arguments(expr, "?:", &[&yes.ty, &no.ty], known));
        };
        let elements = yes.elements.max(no.elements);
        let node = Node::Conditional(Box::new([condition.node, yes.node, no.node]));
        Ok(Typed { node, ty, elements })
    }

    pub(super) fn binary(
        &mut self,
        expr: &Expr,
        operator: Operator,
        operands: &[Expr; 2],
    ) -> Result<Typed, Problem> {
        let [left, right] = operands;
        // Nothing is in an empty list, which upstream knows before it looks.
        let constants = is_list_of_constants(right);
        let empty = matches!(&right.kind, Kind::List(elements) if elements.is_empty());
        let left = self.check(left)?;
        let right = self.check(right)?;
        let Some(ty) = result_type(operator, &left.ty, &right.ty) else {
            let given = [&left.ty, &right.ty];
            return Err(self.arguments(expr, operator.symbol(), &given, taken(operator)));
        };
        if operator == Operator::In && empty {
            return Ok(Typed::new(Node::Const(Value::Bool(false)), ty));
        }
        let operator =
            if operator == Operator::In && constants { Operator::InConstants } else { operator };
        let elements = left.elements.saturating_add(right.elements);
        let node = Node::Binary(operator, Box::new([left.node, right.node]));
        Ok(Typed { node, ty, elements })
    }
}

/// Whether an expression is a list of literals that Go can hash, which upstream makes a set of.
fn is_list_of_constants(expr: &Expr) -> bool {
    let hashed = |element: &(Expr, bool)| matches!(&element.0.kind, Kind::Literal(value) if !matches!(value, Value::Bytes(_) | Value::Null));
    matches!(&expr.kind, Kind::List(elements) if elements.iter().all(hashed))
}

/// What an operator takes, for messages.
fn taken(operator: Operator) -> &'static str {
    match operator {
        Operator::Add => "two numbers, texts or lists of one type",
        Operator::Subtract | Operator::Multiply | Operator::Divide => "two numbers of one type",
        Operator::Remainder => "two whole numbers of one type",
        Operator::Equal | Operator::NotEqual => "two values of one type",
        Operator::In => "a value and a list or map of such values",
        _ => "two numbers, or two texts or bools; quantities and versions have compareTo()",
    }
}

fn result_type(operator: Operator, left: &Type, right: &Type) -> Option<Type> {
    match operator {
        Operator::Equal | Operator::NotEqual => left.agrees(right).then_some(Type::Bool),
        Operator::In => {
            let element = match right {
                Type::List(element) => element,
                Type::Map(key, _) => key,
                other => return other.is_dyn().then_some(Type::Bool),
            };
            left.agrees(element).then_some(Type::Bool)
        }
        Operator::Less | Operator::LessOrEqual | Operator::Greater | Operator::GreaterOrEqual => {
            let orderable = |ty: &Type| {
                is_number(ty) || matches!(ty, Type::Bool | Type::Text | Type::Bytes) || ty.is_dyn()
            };
            let comparable = left.agrees(right) || (is_number(left) && is_number(right));
            let both_null = *left == Type::Null && *right == Type::Null;
            (both_null || orderable(left) && orderable(right) && comparable).then_some(Type::Bool)
        }
        _ => arithmetic_type(operator, left, right),
    }
}

fn is_number(ty: &Type) -> bool {
    matches!(ty, Type::Int | Type::Uint | Type::Double)
}

fn arithmetic_type(operator: Operator, left: &Type, right: &Type) -> Option<Type> {
    let takes = |ty: &Type| match ty {
        Type::Int | Type::Uint | Type::Dyn | Type::Free => true,
        Type::Double => operator != Operator::Remainder,
        Type::Text | Type::Bytes | Type::List(_) => operator == Operator::Add,
        _ => false,
    };
    // Null stands for the time types here, which are not supported: an error of the run.
    let adds = matches!(operator, Operator::Add | Operator::Subtract);
    if adds && *left == Type::Null && *right == Type::Null {
        return Some(Type::Dyn);
    }
    if !takes(left) || !takes(right) || !left.agrees(right) {
        return None;
    }
    match (left.is_dyn(), right.is_dyn()) {
        // Something undecided takes the type of the first overload.
        (true, true) if *left == Type::Free || *right == Type::Free => Some(match operator {
            Operator::Add => Type::Bytes,
            Operator::Remainder => Type::Int,
            _ => Type::Double,
        }),
        (true, _) => Some(right.clone()),
        (_, true) => Some(left.clone()),
        _ => left.join(right),
    }
}
