//! The program `fb`.

fn main() -> std::process::ExitCode {
    let code = femtobarn_cli::run(std::env::args().skip(1).collect());
    std::process::ExitCode::from(u8::try_from(code).unwrap_or(2))
}
