//! Fields and indexes: `a.b`, `a[b]`, `a.?b`, `a[?b]` and `has(a.b)`.

use cel::common::ast::{Expr, IdedExpr, SelectExpr};

use super::super::error::Problem;
use super::super::node::{How, Node, Which};
use super::super::types::Type;
use super::super::value::Value;
use super::{Checker, Typed};
use crate::attribute::QualifiedName;

impl Checker<'_> {
    pub(super) fn select(
        &mut self,
        expr: &IdedExpr,
        select: &SelectExpr,
    ) -> Result<Typed, Problem> {
        let operand = self.check(&select.operand)?;
        self.field(expr, operand, &select.field, How::Get)
    }

    /// `has(operand.field)`.
    pub(super) fn has(&mut self, expr: &IdedExpr, argument: &IdedExpr) -> Result<Typed, Problem> {
        let Expr::Select(select) = &argument.expr else {
            return Err(self.mistyped(expr, "has() takes a field, as in has(a.b)"));
        };
        let operand = self.check(&select.operand)?;
        self.field(argument, operand, &select.field, How::Has)
    }

    /// `operand[key]`, or `operand[?key]`.
    pub(super) fn index(
        &mut self,
        expr: &IdedExpr,
        args: &[IdedExpr],
        how: How,
    ) -> Result<Typed, Problem> {
        let [operand, key] = args else { return Err(self.mistyped(expr, "index without a key")) };
        let operand = self.check(operand)?;
        if let Type::Device = operand.ty {
            return Err(self.mistyped(expr, "device has fields, write device.driver"));
        }
        let key = self.check(key)?;
        self.access(expr, operand, key, how)
    }

    /// `operand.?field`, which the parser hands over as a call with a text.
    pub(super) fn optional_field(
        &mut self,
        expr: &IdedExpr,
        args: &[IdedExpr],
    ) -> Result<Typed, Problem> {
        let [operand, field] = args else { return Err(self.mistyped(expr, ".? without a field")) };
        let operand = self.check(operand)?;
        match self.check(field)?.node {
            Node::Const(Value::Text(field)) => self.field(expr, operand, &field, How::Find),
            _ => Err(self.mistyped(expr, ".? without a field")),
        }
    }

    fn field(
        &mut self,
        expr: &IdedExpr,
        operand: Typed,
        field: &str,
        how: How,
    ) -> Result<Typed, Problem> {
        if let Type::List(_) = operand.ty {
            return Err(self.mistyped(expr, format!("{} has no field {field:?}", operand.ty)));
        }
        let key = Typed::new(Node::Const(Value::text(field.to_owned())), Type::Text);
        self.access(expr, operand, key, how)
    }

    fn access(
        &mut self,
        expr: &IdedExpr,
        operand: Typed,
        key: Typed,
        how: How,
    ) -> Result<Typed, Problem> {
        let found = self.type_behind(expr, &operand.ty, &key)?;
        let ty = match (how, found) {
            (How::Has, _) => Type::Bool,
            (How::Get, found) | (How::Find, found @ Type::Optional(_)) => found,
            (How::Find, found) => Type::optional(found),
        };
        Ok(Typed::new(access_node(operand.node, key.node, how), ty))
    }

    /// The type of what a key leads to.
    fn type_behind(&self, expr: &IdedExpr, operand: &Type, key: &Typed) -> Result<Type, Problem> {
        match operand {
            Type::Dyn | Type::Free => Ok(Type::Dyn),
            Type::Device => self.field_type(expr, &key.node),
            Type::Map(wanted, value) if key.ty.agrees(wanted) => Ok((**value).clone()),
            Type::List(element) if is_number(&key.ty) => Ok((**element).clone()),
            // A chain stays optional.
            Type::Optional(inner) => match self.type_behind(expr, inner, key)? {
                found @ Type::Optional(_) => Ok(found),
                found => Ok(Type::optional(found)),
            },
            Type::Map(wanted, _) => {
                Err(self.arguments(expr, "[]", &[&key.ty], format!("a key of type {wanted}")))
            }
            Type::List(_) => Err(self.arguments(expr, "[]", &[&key.ty], "an index of type int")),
            other => Err(self.mistyped(expr, format!("{other} has no fields"))),
        }
    }

    fn field_type(&self, expr: &IdedExpr, key: &Node) -> Result<Type, Problem> {
        let Node::Const(Value::Text(field)) = key else {
            return Err(self.mistyped(expr, "device has fields, write device.driver"));
        };
        match field.as_ref() {
            "driver" => Ok(Type::Text),
            "allowMultipleAllocations" => Ok(Type::Bool),
            "attributes" => Ok(Which::Attributes.ty()),
            "capacity" => Ok(Which::Capacity.ty()),
            _ => Err(Problem::UnknownField { at: self.at(expr), field: field.to_string() }),
        }
    }
}

fn is_number(ty: &Type) -> bool {
    matches!(ty, Type::Int | Type::Uint | Type::Double) || ty.is_dyn()
}

/// The step for an access; what the expression spells out of the device becomes one step.
fn access_node(operand: Node, key: Node, how: How) -> Node {
    match (operand, key, how) {
        (Node::Device, Node::Const(Value::Text(field)), How::Get) if field == "driver" => {
            Node::Driver
        }
        (Node::Device, Node::Const(Value::Text(field)), How::Get) if field == "attributes" => {
            Node::Table(Which::Attributes)
        }
        (Node::Device, Node::Const(Value::Text(field)), How::Get) if field == "capacity" => {
            Node::Table(Which::Capacity)
        }
        (Node::Table(which), Node::Const(Value::Text(domain)), How::Get) => {
            Node::Domain(which, domain.into_owned())
        }
        (Node::Domain(which, domain), Node::Const(Value::Text(id)), how) => {
            Node::Entry(which, QualifiedName { domain, id: id.into_owned() }, how)
        }
        (operand, key, how) => Node::Access { operand: Box::new(operand), key: Box::new(key), how },
    }
}
