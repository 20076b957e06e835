//! `format` on a pattern and values that are spelled out: they must go together.

use super::super::error::Problem;
use super::super::functions::strings_format::{Clause, Piece, pieces};
use super::super::syntax::{Expr, Kind};
use super::super::types::Type;
use super::super::value::Value;
use super::Checker;

impl Checker<'_> {
    /// Checks a call whose list was the last one to be checked.
    pub(super) fn check_format(
        &self,
        expr: &Expr,
        pattern: &Expr,
        list: &Expr,
    ) -> Result<(), Problem> {
        let (Kind::Literal(Value::Text(pattern)), Kind::List(elements)) =
            (&pattern.kind, &list.kind)
        else {
            return Ok(());
        };
        let pieces = pieces(pattern).map_err(|problem| self.mistyped(expr, problem))?;
        let clauses: Vec<Clause> = pieces
            .iter()
            .filter_map(|piece| match piece {
                Piece::Clause(clause, _) => Some(*clause),
                Piece::Plain(_) => None,
            })
            .collect();
        if clauses.len() != elements.len() {
            let message =
                format!("{} clauses, but {} values to format", clauses.len(), elements.len());
            return Err(self.mistyped(expr, message));
        }
        for ((clause, (element, _)), ty) in clauses.iter().zip(elements).zip(&self.last_list) {
            let fits = match clause {
                Clause::Text => is_writable(element, ty),
                clause => takes(*clause, ty),
            };
            if !fits {
                return Err(self.mistyped(element, format!("its clause does not take {ty}")));
            }
        }
        Ok(())
    }
}

fn takes(clause: Clause, ty: &Type) -> bool {
    match (clause, ty) {
        (_, Type::Int | Type::Uint) => !matches!(clause, Clause::Fixed | Clause::Scientific),
        (Clause::Fixed | Clause::Scientific, Type::Double | Type::Text) => true,
        (Clause::Binary, Type::Bool) => true,
        (Clause::Hexadecimal { .. }, Type::Text | Type::Bytes) => true,
        (_, ty) => ty.is_dyn(),
    }
}

/// Whether `%s` takes a value, and everything in it that is spelled out.
fn is_writable(expr: &Expr, ty: &Type) -> bool {
    match (ty, &expr.kind) {
        (Type::List(of), Kind::List(elements)) => {
            elements.iter().all(|(element, _)| is_writable(element, of))
        }
        (Type::Map(key, value), Kind::Map(entries)) => {
            entries.iter().all(|(k, v, _)| is_writable(k, key) && is_writable(v, value))
        }
        (ty, _) => {
            ty.is_dyn()
                || matches!(
                    ty,
                    Type::List(_)
                        | Type::Map(..)
                        | Type::Int
                        | Type::Uint
                        | Type::Double
                        | Type::Bool
                        | Type::Text
                        | Type::Bytes
                        | Type::Kind(_)
                        | Type::Null
                )
        }
    }
}
