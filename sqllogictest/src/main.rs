//! `thalweg-slt [--workers N] [--rewrite] FILE…`: runs files of statements, each against a fresh server.

use std::path::PathBuf;
use std::process::ExitCode;
use thalweg_sqllogictest::suite::{Mode, run};

#[tokio::main]
async fn main() -> ExitCode {
    let mut workers = vec![1, 2, 4];
    let mut mode = Mode::Check;
    let mut files: Vec<PathBuf> = vec![];
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--rewrite" => (mode, workers) = (Mode::Rewrite, vec![1]),
            "--workers" => match arguments.next().and_then(|text| text.parse().ok()) {
                Some(count) => workers = vec![count],
                None => return usage(),
            },
            flag if flag.starts_with('-') => return usage(),
            file => files.push(file.into()),
        }
    }
    if files.is_empty() {
        return usage();
    }
    let mut failed = false;
    for file in &files {
        for count in &workers {
            match run(file, *count, mode).await {
                Ok(()) => println!("ok      {} ({count} workers)", file.display()),
                Err(error) => {
                    failed = true;
                    println!("FAILED  {} ({count} workers)\n{error}", file.display());
                }
            }
        }
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn usage() -> ExitCode {
    eprintln!("usage: thalweg-slt [--workers N] [--rewrite] FILE...");
    ExitCode::from(2)
}
