//! Fields and indexes: `a.b`, `a[b]`, `a.?b`, `a[?b]` and `has(a.b)`.

use super::super::error::Problem;
use super::super::node::{How, Node, Which};
use super::super::syntax::{Expr, Kind};
use super::super::types::Type;
use super::super::value::Value;
use super::{Checker, Typed};
use crate::attribute::QualifiedName;

impl Checker<'_> {
    /// `operand.field`, or `operand.?field`.
    pub(super) fn select(
        &mut self,
        expr: &Expr,
        operand: &Expr,
        field: &str,
        optional: bool,
    ) -> Result<Typed, Problem> {
        let operand = self.check(operand)?;
        self.field(expr, operand, field, if optional { How::Find } else { How::Get })
    }

    /// `has(operand.field)`.
    pub(super) fn has(&mut self, expr: &Expr, argument: &Expr) -> Result<Typed, Problem> {
        let Kind::Select { operand, field, optional: false } = &argument.kind else {
            return Err(self.mistyped(expr, "has() takes a field, as in has(a.b)"));
        };
        let operand = self.check(operand)?;
        self.field(argument, operand, field, How::Has)
    }

    /// `operand[key]`, or `operand[?key]`.
    pub(super) fn index(
        &mut self,
        expr: &Expr,
        operand: &Expr,
        key: &Expr,
        optional: bool,
    ) -> Result<Typed, Problem> {
        let operand = self.check(operand)?;
        if let Type::Device = operand.ty {
            return Err(self.mistyped(expr, "device has fields, write device.driver"));
        }
        let key = self.check(key)?;
        self.access(expr, operand, key, if optional { How::Find } else { How::Get })
    }

    fn field(
        &mut self,
        expr: &Expr,
        operand: Typed,
        field: &str,
        how: How,
    ) -> Result<Typed, Problem> {
        if let Type::List(_) = operand.ty {
            return Err(self.mistyped(expr, format!("{} has no field {field:?}", operand.ty)));
        }
        // The field of a map is not held against the type of its keys.
        let ty = match &operand.ty {
            Type::Map(key, _) => (**key).clone(),
            _ => Type::Text,
        };
        let key = Typed::new(Node::Const(Value::text(field.to_owned())), ty);
        self.access(expr, operand, key, how)
    }

    fn access(
        &mut self,
        expr: &Expr,
        operand: Typed,
        key: Typed,
        how: How,
    ) -> Result<Typed, Problem> {
        let chained = matches!(operand.ty, Type::Optional(_));
        let found = self.type_behind(expr, &operand.ty, &key)?;
        let ty = match (how, found) {
            (How::Has, _) => Type::Bool,
            (How::Get, found) => found,
            (How::Find, found) if chained => found,
            (How::Find, found) => Type::optional(found),
        };
        Ok(Typed::new(access_node(operand.node, key.node, how), ty))
    }

    /// The type of what a key leads to.
    fn type_behind(&self, expr: &Expr, operand: &Type, key: &Typed) -> Result<Type, Problem> {
        match operand {
            Type::Dyn | Type::Free => Ok(operand.clone()),
            Type::Device => self.field_type(expr, &key.node),
            Type::Map(wanted, value) if key.ty.agrees(wanted) => Ok((**value).clone()),
            Type::List(element) if key.ty == Type::Int || key.ty.is_dyn() => {
                Ok((**element).clone())
            }
            Type::Null if key.ty != Type::Text => Ok(Type::Dyn),
            // A chain stays optional.
            Type::Optional(inner) if !matches!(**inner, Type::Optional(_)) => {
                Ok(Type::optional(self.type_behind(expr, inner, key)?))
            }
            Type::Map(wanted, _) => {
                Err(self.arguments(expr, "[]", &[&key.ty], format!("a key of type {wanted}")))
            }
            Type::List(_) => Err(self.arguments(expr, "[]", &[&key.ty], "an index of type int")),
            other => Err(self.mistyped(expr, format!("{other} has no fields"))),
        }
    }

    fn field_type(&self, expr: &Expr, key: &Node) -> Result<Type, Problem> {
        let Node::Const(Value::Text(field)) = key else {
            return Err(self.mistyped(expr, "device has fields, write device.driver"));
        };
        match &**field {
            "driver" => Ok(Type::Text),
            "allowMultipleAllocations" => Ok(Type::Bool),
            "attributes" => Ok(Which::Attributes.ty()),
            "capacity" => Ok(Which::Capacity.ty()),
            _ => Err(Problem::UnknownField { at: self.at(expr), field: field.to_string() }),
        }
    }
}

/// The step for an access; what the expression spells out of the device becomes one step.
fn access_node(operand: Node, key: Node, how: How) -> Node {
    match (operand, key, how) {
        (Node::Device, Node::Const(Value::Text(field)), How::Get) if &*field == "driver" => {
            Node::Driver
        }
        (Node::Device, Node::Const(Value::Text(field)), How::Get) if &*field == "attributes" => {
            Node::Table(Which::Attributes)
        }
        (Node::Device, Node::Const(Value::Text(field)), How::Get) if &*field == "capacity" => {
            Node::Table(Which::Capacity)
        }
        (Node::Table(which), Node::Const(Value::Text(domain)), How::Get) => {
            Node::Domain(which, domain.to_string())
        }
        (Node::Domain(which, domain), Node::Const(Value::Text(id)), how) => {
            Node::Entry(which, QualifiedName { domain, id: id.to_string() }, how)
        }
        (operand, key, how) => Node::Access { operand: Box::new(operand), key: Box::new(key), how },
    }
}
