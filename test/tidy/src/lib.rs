//! The rules of STYLE.md that a program can check.
