//! The binary `silica`; everything it does is in the library beside it.

use std::process::ExitCode;

fn main() -> ExitCode {
    silica::main()
}
