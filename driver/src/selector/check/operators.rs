//! Operators, and what they take.

use cel::common::ast::{CallExpr, Expr, IdedExpr, operators};

use super::super::error::Problem;
use super::super::node::{How, Node, Operator};
use super::super::types::Type;
use super::{Checker, Typed};

impl Checker<'_> {
    /// A call that is an operator, if it is one: their names are no identifiers.
    pub(super) fn operator(
        &mut self,
        expr: &IdedExpr,
        call: &CallExpr,
    ) -> Result<Option<Typed>, Problem> {
        let args = call.args.as_slice();
        let typed = match call.func_name.as_str() {
            operators::INDEX => self.index(expr, args, How::Get)?,
            operators::OPT_INDEX => self.index(expr, args, How::Find)?,
            operators::OPT_SELECT => self.optional_field(expr, args)?,
            operators::LOGICAL_AND => self.chain(expr, operators::LOGICAL_AND)?,
            operators::LOGICAL_OR => self.chain(expr, operators::LOGICAL_OR)?,
            operators::CONDITIONAL => self.conditional(expr, args)?,
            operators::LOGICAL_NOT => {
                let operand = self.single(expr, args)?;
                if !operand.ty.agrees(&Type::Bool) {
                    return Err(self.arguments(expr, "!", &[&operand.ty], "bool"));
                }
                Typed::new(Node::Not(Box::new(operand.node)), Type::Bool)
            }
            operators::NEGATE => {
                let operand = self.single(expr, args)?;
                if !matches!(operand.ty, Type::Int | Type::Double) && !operand.ty.is_dyn() {
                    return Err(self.arguments(expr, "-", &[&operand.ty], "int or double"));
                }
                Typed::new(Node::Negate(Box::new(operand.node)), operand.ty)
            }
            name => match operator_named(name) {
                Some(operator) => self.binary(expr, operator, args)?,
                None => return Ok(None),
            },
        };
        Ok(Some(typed))
    }

    fn single(&mut self, expr: &IdedExpr, args: &[IdedExpr]) -> Result<Typed, Problem> {
        match args {
            [operand] => self.check(operand),
            _ => Err(self.mistyped(expr, "operator without its operand")),
        }
    }

    /// All operands of nested `&&` or `||` as one step.
    fn chain(&mut self, expr: &IdedExpr, name: &str) -> Result<Typed, Problem> {
        let mut operands = Vec::new();
        collect_operands(expr, name, &mut operands);
        let symbol = if name == operators::LOGICAL_AND { "&&" } else { "||" };
        let mut nodes = Vec::with_capacity(operands.len());
        for operand in operands {
            let typed = self.check(operand)?;
            if !typed.ty.agrees(&Type::Bool) {
                return Err(self.arguments(operand, symbol, &[&typed.ty], "bool"));
            }
            nodes.push(typed.node);
        }
        let node = match symbol {
            "&&" => Node::And(nodes.into()),
            _ => Node::Or(nodes.into()),
        };
        Ok(Typed::new(node, Type::Bool))
    }

    fn conditional(&mut self, expr: &IdedExpr, args: &[IdedExpr]) -> Result<Typed, Problem> {
        let [condition, yes, no] = args else {
            return Err(self.mistyped(expr, "?: without its operands"));
        };
        let condition = self.check(condition)?;
        let yes = self.check(yes)?;
        let no = self.check(no)?;
        if !condition.ty.agrees(&Type::Bool) {
            return Err(self.arguments(expr, "?:", &[&condition.ty], "a bool to decide"));
        }
        if !yes.ty.agrees(&no.ty) {
            let known = "two values of one type to choose from";
            return Err(self.arguments(expr, "?:", &[&yes.ty, &no.ty], known));
        }
        let ty = match yes.ty {
            Type::Free => no.ty,
            _ if no.ty == Type::Dyn => Type::Dyn,
            ty => ty,
        };
        let elements = yes.elements.max(no.elements);
        let node = Node::Conditional(Box::new([condition.node, yes.node, no.node]));
        Ok(Typed { node, ty, elements })
    }

    fn binary(
        &mut self,
        expr: &IdedExpr,
        operator: Operator,
        args: &[IdedExpr],
    ) -> Result<Typed, Problem> {
        let [left, right] = args else {
            return Err(self.mistyped(expr, "operator without its operands"));
        };
        let left = self.check(left)?;
        let right = self.check(right)?;
        let Some(ty) = result_type(operator, &left.ty, &right.ty) else {
            let given = [&left.ty, &right.ty];
            return Err(self.arguments(expr, operator.symbol(), &given, taken(operator)));
        };
        let elements = left.elements.saturating_add(right.elements);
        let node = Node::Binary(operator, Box::new([left.node, right.node]));
        Ok(Typed { node, ty, elements })
    }
}

/// The operands of nested calls of one operator; the parser balances long chains, so that this
/// recursion is as deep as brackets and a logarithm.
fn collect_operands<'e>(expr: &'e IdedExpr, name: &str, into: &mut Vec<&'e IdedExpr>) {
    match &expr.expr {
        Expr::Call(call) if call.func_name == name => {
            for operand in &call.args {
                collect_operands(operand, name, into);
            }
        }
        _ => into.push(expr),
    }
}

fn operator_named(name: &str) -> Option<Operator> {
    Some(match name {
        operators::ADD => Operator::Add,
        operators::SUBSTRACT => Operator::Subtract,
        operators::MULTIPLY => Operator::Multiply,
        operators::DIVIDE => Operator::Divide,
        operators::MODULO => Operator::Remainder,
        operators::EQUALS => Operator::Equal,
        operators::NOT_EQUALS => Operator::NotEqual,
        operators::LESS => Operator::Less,
        operators::LESS_EQUALS => Operator::LessOrEqual,
        operators::GREATER => Operator::Greater,
        operators::GREATER_EQUALS => Operator::GreaterOrEqual,
        operators::IN => Operator::In,
        _ => return None,
    })
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
                is_number(ty) || matches!(ty, Type::Bool | Type::Text | Type::Bytes | Type::Dyn)
            };
            let comparable = left.agrees(right) || (is_number(left) && is_number(right));
            (orderable(left) && orderable(right) && comparable).then_some(Type::Bool)
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
    if !takes(left) || !takes(right) || !left.agrees(right) {
        return None;
    }
    Some(if left.is_dyn() { right.clone() } else { left.clone() })
}
