//! Tokens to a tree, by recursive descent with a bounded depth.

use super::super::error::{Position, Problem};
use super::super::node::Operator;
use super::super::value::Value;
use super::lexer::{Token, TokenKind};
use super::{Expr, Kind, MAX_BRACKETS, MAX_HEIGHT};

/// Binary operators with how tightly they bind.
const OPERATORS: [(&str, u8, Operator); 12] = [
    ("==", 1, Operator::Equal),
    ("!=", 1, Operator::NotEqual),
    ("<", 1, Operator::Less),
    ("<=", 1, Operator::LessOrEqual),
    (">", 1, Operator::Greater),
    (">=", 1, Operator::GreaterOrEqual),
    ("in", 1, Operator::In),
    ("+", 2, Operator::Add),
    ("-", 2, Operator::Subtract),
    ("*", 3, Operator::Multiply),
    ("/", 3, Operator::Divide),
    ("%", 3, Operator::Remainder),
];

/// Words that are tokens of their own, and no field either.
const CONSTANTS: [&str; 4] = ["true", "false", "null", "in"];

/// Words that CEL keeps for itself, but that may be fields.
const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

pub(super) fn parse(source: &str, tokens: &[Token]) -> Result<Expr, Problem> {
    let mut parser = Parser { source, tokens, next: 0, brackets: 0 };
    let expr = parser.expression()?;
    match parser.tokens.get(parser.next) {
        None => Ok(expr),
        Some(_) => parser.unexpected("the end"),
    }
}

struct Parser<'s> {
    source: &'s str,
    tokens: &'s [Token],
    next: usize,
    brackets: usize,
}

impl Parser<'_> {
    fn kind(&self, ahead: usize) -> Option<&TokenKind> {
        self.tokens.get(self.next + ahead).map(|token| &token.kind)
    }

    fn at(&self) -> usize {
        self.tokens.get(self.next).map_or(self.source.len(), |token| token.at)
    }

    fn position(&self, at: usize) -> Position {
        Position::of(self.source, at)
    }

    fn is(&self, symbol: &str) -> bool {
        matches!(self.kind(0), Some(TokenKind::Symbol(next)) if *next == symbol)
    }

    /// Takes a symbol if it is the next token.
    fn take(&mut self, symbol: &str) -> bool {
        let found = self.is(symbol);
        self.next += usize::from(found);
        found
    }

    fn expect(&mut self, symbol: &str) -> Result<(), Problem> {
        if self.take(symbol) { Ok(()) } else { self.unexpected(&format!("{symbol:?}")) }
    }

    fn unexpected<T>(&self, wanted: &str) -> Result<T, Problem> {
        let found = match self.kind(0) {
            None => "the end".to_owned(),
            Some(TokenKind::Name(name) | TokenKind::Quoted(name)) => format!("{name:?}"),
            Some(TokenKind::Symbol(symbol)) => format!("{symbol:?}"),
            Some(TokenKind::Text(_) | TokenKind::Bytes(_)) => "a text".to_owned(),
            Some(_) => "a number".to_owned(),
        };
        self.fail(self.at(), format!("expected {wanted}, found {found}"))
    }

    fn fail<T>(&self, at: usize, message: impl Into<String>) -> Result<T, Problem> {
        Err(Problem::Syntax { at: self.position(at), message: message.into() })
    }

    fn expr(&self, at: usize, kind: Kind) -> Result<Expr, Problem> {
        let height = kind.children().iter().map(|child| child.height).max().unwrap_or(0) + 1;
        if height > MAX_HEIGHT {
            return Err(Problem::TooDeep { at: self.position(at), limit: MAX_HEIGHT.into() });
        }
        Ok(Expr { at, kind, height })
    }

    /// What stands between brackets, one level deeper.
    fn inside<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        self.brackets += 1;
        if self.brackets > MAX_BRACKETS {
            let at = self.position(self.at());
            return Err(Problem::TooDeep { at, limit: MAX_BRACKETS });
        }
        let result = read(self);
        self.brackets -= 1;
        result
    }

    /// `a ? b : c ? d : e` is a loop, so that a long one needs no stack; its height is checked when
    /// it is put together from the end.
    fn expression(&mut self) -> Result<Expr, Problem> {
        let mut branches = Vec::new();
        let mut last = self.logical()?;
        while self.is("?") {
            let at = self.at();
            self.next += 1;
            let yes = self.logical()?;
            self.expect(":")?;
            branches.push((at, last, yes));
            last = self.logical()?;
        }
        for (at, condition, yes) in branches.into_iter().rev() {
            last = self.expr(at, Kind::Conditional(Box::new([condition, yes, last])))?;
        }
        Ok(last)
    }

    /// Operands of `||`, which are operands of `&&`.
    fn logical(&mut self) -> Result<Expr, Problem> {
        let at = self.at();
        let mut any = vec![self.all()?];
        while self.take("||") {
            any.push(self.all()?);
        }
        match any.pop() {
            Some(only) if any.is_empty() => Ok(only),
            last => self.expr(at, Kind::Or(any.into_iter().chain(last).collect())),
        }
    }

    fn all(&mut self) -> Result<Expr, Problem> {
        let at = self.at();
        let mut all = vec![self.binary(1)?];
        while self.take("&&") {
            all.push(self.binary(1)?);
        }
        match all.pop() {
            Some(only) if all.is_empty() => Ok(only),
            last => self.expr(at, Kind::And(all.into_iter().chain(last).collect())),
        }
    }

    /// Operators that bind at least as tightly as `least`; those alike group to the left.
    fn binary(&mut self, least: u8) -> Result<Expr, Problem> {
        let mut left = self.unary()?;
        loop {
            let symbol = match self.kind(0) {
                Some(TokenKind::Symbol(symbol)) => *symbol,
                Some(TokenKind::Name(name)) if name == "in" => "in",
                _ => return Ok(left),
            };
            let found = OPERATORS.iter().find(|(known, ..)| *known == symbol);
            let Some((_, binds, operator)) = found.filter(|(_, binds, _)| *binds >= least) else {
                return Ok(left);
            };
            let at = self.at();
            self.next += 1;
            let right = self.binary(binds + 1)?;
            left = self.expr(at, Kind::Binary(*operator, Box::new([left, right])))?;
        }
    }

    /// Signs cancel in pairs.
    fn unary(&mut self) -> Result<Expr, Problem> {
        let at = self.at();
        let mut count = 0_usize;
        if self.is("!") {
            while self.take("!") {
                count += 1;
            }
            let operand = self.member()?;
            return if count.is_multiple_of(2) {
                Ok(operand)
            } else {
                self.expr(at, Kind::Not(Box::new(operand)))
            };
        }
        while self.take("-") {
            count += 1;
        }
        if count.is_multiple_of(2) {
            return self.member();
        }
        // A sign is part of its literal: the smallest integer has no positive counterpart.
        if let Some(TokenKind::Int(value)) = self.kind(0) {
            let value = 0_i64.checked_sub_unsigned(*value);
            let Some(value) = value else { return self.fail(at, "integer below 64 bits") };
            self.next += 1;
            let literal = self.expr(at, Kind::Literal(Value::Int(value)))?;
            return self.members(literal);
        }
        if let Some(TokenKind::Double(value)) = self.kind(0) {
            let value = -value;
            self.next += 1;
            let literal = self.expr(at, Kind::Literal(Value::Double(value)))?;
            return self.members(literal);
        }
        let operand = self.member()?;
        self.expr(at, Kind::Negate(Box::new(operand)))
    }

    fn member(&mut self) -> Result<Expr, Problem> {
        let primary = self.primary()?;
        self.members(primary)
    }

    /// Fields, calls and indexes behind an expression.
    fn members(&mut self, mut operand: Expr) -> Result<Expr, Problem> {
        loop {
            let at = self.at();
            operand = if self.take("[") {
                let optional = self.take("?");
                let key = Box::new(self.inside(Self::expression)?);
                self.expect("]")?;
                self.expr(at, Kind::Index { operand: Box::new(operand), key, optional })?
            } else if self.take(".") {
                let optional = self.take("?");
                let at = self.at();
                let (name, quoted) = match self.kind(0) {
                    Some(TokenKind::Quoted(field)) => (field.clone(), true),
                    Some(TokenKind::Name(field)) if !CONSTANTS.contains(&field.as_str()) => {
                        (field.clone(), false)
                    }
                    _ => return self.unexpected("a field or function"),
                };
                self.next += 1;
                let operand = Box::new(operand);
                if !optional && !quoted && self.take("(") {
                    let args = self.arguments()?;
                    self.expr(at, Kind::Call { target: Some(operand), name, args })?
                } else {
                    self.expr(at, Kind::Select { operand, field: name, optional })?
                }
            } else if self.is("{") && matches!(operand.kind, Kind::Name(..) | Kind::Select { .. }) {
                return self.fail(at, "messages such as Type{field: value} are not supported");
            } else {
                return Ok(operand);
            };
        }
    }

    fn primary(&mut self) -> Result<Expr, Problem> {
        let at = self.at();
        let global = self.take(".");
        let Some(kind) = self.kind(0).cloned() else { return self.unexpected("an expression") };
        if let TokenKind::Name(name) = &kind {
            return self.name(at, name, global);
        }
        if global {
            return self.unexpected("a name");
        }
        let value = match kind {
            TokenKind::Int(value) => match i64::try_from(value) {
                Ok(value) => Value::Int(value),
                Err(_) => return self.fail(at, "integer above 64 bits; write 1u for a uint"),
            },
            TokenKind::Uint(value) => Value::Uint(value),
            TokenKind::Double(value) => Value::Double(value),
            TokenKind::Text(text) => Value::text(text),
            TokenKind::Bytes(bytes) => Value::Bytes(bytes.into()),
            TokenKind::Symbol("(") => {
                self.next += 1;
                let inner = self.inside(Self::expression)?;
                self.expect(")")?;
                return Ok(inner);
            }
            TokenKind::Symbol("[") => return self.inside(|parser| parser.list(at)),
            TokenKind::Symbol("{") => return self.inside(|parser| parser.map(at)),
            _ => return self.unexpected("an expression"),
        };
        self.next += 1;
        self.expr(at, Kind::Literal(value))
    }

    /// A constant, a variable, or a call of a function.
    fn name(&mut self, at: usize, name: &str, global: bool) -> Result<Expr, Problem> {
        let literal = match name {
            "true" => Some(Value::Bool(true)),
            "false" => Some(Value::Bool(false)),
            "null" => Some(Value::Null),
            "in" => return self.unexpected("an expression"),
            _ => None,
        };
        if global && literal.is_some() {
            return self.unexpected("a name");
        }
        if RESERVED.contains(&name) {
            return self.fail(at, format!("{name:?} is a reserved word"));
        }
        self.next += 1;
        let kind = match literal {
            Some(value) => Kind::Literal(value),
            // A dot before it keeps macros away.
            None if global && name == "has" && self.is("(") => {
                return self.fail(at, ".has is no function; write has(a.b)");
            }
            None if self.take("(") => {
                Kind::Call { target: None, name: name.to_owned(), args: self.arguments()? }
            }
            None => Kind::Name(name.to_owned(), global),
        };
        self.expr(at, kind)
    }

    /// Arguments and the closing bracket.
    fn arguments(&mut self) -> Result<Vec<Expr>, Problem> {
        let mut args = Vec::new();
        if self.take(")") {
            return Ok(args);
        }
        loop {
            args.push(self.inside(Self::expression)?);
            if self.take(")") {
                return Ok(args);
            }
            self.expect(",")?;
        }
    }

    fn list(&mut self, at: usize) -> Result<Expr, Problem> {
        self.next += 1;
        let mut elements = Vec::new();
        if self.take(",") {
            self.expect("]")?;
            return self.expr(at, Kind::List(elements));
        }
        while !self.take("]") {
            let optional = self.take("?");
            elements.push((self.expression()?, optional));
            if !self.is("]") {
                self.expect(",")?;
            }
        }
        self.expr(at, Kind::List(elements))
    }

    fn map(&mut self, at: usize) -> Result<Expr, Problem> {
        self.next += 1;
        let mut entries = Vec::new();
        if self.take(",") {
            self.expect("}")?;
            return self.expr(at, Kind::Map(entries));
        }
        while !self.take("}") {
            let optional = self.take("?");
            let key = self.expression()?;
            self.expect(":")?;
            entries.push((key, self.expression()?, optional));
            if !self.is("}") {
                self.expect(",")?;
            }
        }
        self.expr(at, Kind::Map(entries))
    }
}
