//! The program `fb`.

/// Runs the program with these arguments (without the program's name); gives its exit code.
pub fn run(_args: Vec<String>) -> i32 {
    2
}
