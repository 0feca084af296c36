//! The program `fb`.

fn main() -> std::process::ExitCode {
    // names that are not UTF-8 cannot be opened by the library, but must not cause a panic
    let args = std::env::args_os().skip(1);
    let args = args.map(|arg| arg.to_string_lossy().into_owned());
    let code = femtobarn_cli::run(args.collect(), None);
    std::process::ExitCode::from(u8::try_from(code).unwrap_or(2))
}
