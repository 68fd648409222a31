//! The binary: arguments, signals, run, exit code.

fn main() {}
