//! The egress process by itself, for this crate's tests. Users run `silica __egress`.

use std::process::ExitCode;

fn main() -> ExitCode {
    match silica_egress::run_process() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("silica-egress-process: {error}");
            ExitCode::FAILURE
        }
    }
}
