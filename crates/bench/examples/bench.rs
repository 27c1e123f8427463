//! Runs `haul bench` without the rest of haul:
//! `cargo run -p haul-bench --example bench -- compare --help`.
//!
//! The running program is not haul here, so `compare` needs `--haul PATH`, or `--only` with others.

use std::process::ExitCode;

use clap::Parser;

/// Makes trees and compares copiers
#[derive(Parser)]
#[command(name = "bench")]
struct Line {
    #[command(subcommand)]
    command: haul_bench::Command,
}

fn main() -> ExitCode {
    haul_bench::run(&Line::parse().command)
}
