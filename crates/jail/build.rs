//! Builds the gate a second time, as the freestanding `gate.so` that a zygote loads.
//!
//! Cargo cannot yet depend on another crate's shared library on a stable compiler, and the gate has
//! no dependencies, so one plain call of the compiler does it.

use std::path::PathBuf;
use std::process::Command;

fn main() {
    let variable = |name: &str| std::env::var_os(name).expect("Cargo sets it for build scripts");
    let source = PathBuf::from(variable("CARGO_MANIFEST_DIR")).join("../gate/src");
    let library = PathBuf::from(variable("OUT_DIR")).join("gate.so");
    println!("cargo::rerun-if-changed={}", source.display());
    let status = Command::new(variable("RUSTC"))
        .args(["--edition", "2024", "--crate-name", "silica_gate", "--crate-type", "cdylib"])
        .args(["--cfg", "silica_gate_so", "-C", "panic=abort", "-C", "opt-level=2"])
        .args(["-C", "strip=symbols", "-A", "warnings", "--target"])
        .arg(variable("TARGET"))
        .arg("-o")
        .arg(&library)
        .arg(source.join("lib.rs"))
        .status()
        .expect("the compiler that builds this script can be started again");
    assert!(status.success(), "building gate.so failed");
}
