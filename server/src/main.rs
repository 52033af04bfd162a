//! The command line of `thalweg`.

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use thalweg::config::{Given, LogFormat, Settings};
use thalweg::run::{Format, Script};
use thalweg_catalog::crash;
use tracing_subscriber::EnvFilter;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A streaming database that speaks Postgres.
#[derive(Parser)]
#[command(name = "thalweg", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve Postgres clients until stopped
    Serve(Serve),
    /// Run statements in one process, without ports, and end when all that is bounded is done
    Run(Run),
}

#[derive(Args)]
struct Serve {
    /// TOML file with settings
    #[arg(long, value_name = "FILE", env = "THALWEG_CONFIG")]
    config: Option<PathBuf>,
    #[command(flatten)]
    given: Given,
}

#[derive(Args)]
struct Run {
    /// File with statements
    #[arg(required_unless_present = "execute", conflicts_with = "execute")]
    file: Option<PathBuf>,
    /// Statements
    #[arg(short = 'e', long, value_name = "SQL")]
    execute: Option<String>,
    /// How results are printed
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    format: OutputFormat,
    /// TOML file with settings
    #[arg(long, value_name = "FILE", env = "THALWEG_CONFIG")]
    config: Option<PathBuf>,
    #[command(flatten)]
    given: Given,
}

#[derive(Clone, Copy, ValueEnum)]
enum OutputFormat {
    Table,
    Csv,
    Json,
}

/// Why this machine's processor can't run what the program was compiled for, in the words of a user. Asked of the processor itself: the
/// compiler takes for granted what it was told is there.
#[cfg(all(target_arch = "x86_64", target_feature = "avx2"))]
fn processor_lacks() -> Option<&'static str> {
    let (basic, extended) = (std::arch::x86_64::__cpuid_count(1, 0), std::arch::x86_64::__cpuid_count(7, 0));
    let needed = [(basic.ecx, 20, "SSE 4.2"), (basic.ecx, 12, "FMA"), (extended.ebx, 5, "AVX2"), (extended.ebx, 8, "BMI2")];
    needed.iter().find(|(register, bit, _)| register >> bit & 1 == 0).map(|(.., name)| *name)
}

#[cfg(not(all(target_arch = "x86_64", target_feature = "avx2")))]
fn processor_lacks() -> Option<&'static str> {
    None
}

fn main() -> ExitCode {
    if let Some(name) = processor_lacks() {
        eprintln!("thalweg: this build needs a processor with {name}; built with RUSTFLAGS=-Ctarget-cpu=native it runs here");
        return ExitCode::FAILURE;
    }
    let cli = Cli::parse();
    match start(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("{text}");
            ExitCode::FAILURE
        }
    }
}

fn start(cli: Cli) -> Result<(), String> {
    crash::arm_from_environment().map_err(|e| format!("thalweg: {e}"))?;
    match cli.command {
        Command::Serve(serve) => {
            let settings = Settings::load(serve.given, serve.config.as_deref(), std::env::vars(), &PathBuf::from("thalweg-data"))
                .map_err(|e| format!("thalweg: {e}"))?;
            start_logs(&settings)?;
            in_runtime(thalweg::serve::run(settings)).map_err(|e| thalweg::run::shown_error(&e, None))
        }
        Command::Run(run) => {
            let text = match (&run.file, run.execute) {
                (_, Some(text)) => text,
                (Some(file), None) => {
                    std::fs::read_to_string(file).map_err(|e| format!("thalweg: could not read \"{}\": {e}", file.display()))?
                }
                (None, None) => return Err("thalweg: nothing to run".into()),
            };
            // Without a directory of its own a run leaves nothing behind.
            let scratch = std::env::temp_dir().join(format!("thalweg-run-{}", std::process::id()));
            let settings = Settings::load(run.given, run.config.as_deref(), std::env::vars(), &scratch)
                .map_err(|e| format!("thalweg: {e}"))?;
            start_logs(&settings)?;
            let format = match run.format {
                OutputFormat::Table => Format::Table,
                OutputFormat::Csv => Format::Csv,
                OutputFormat::Json => Format::Json,
            };
            let name = run.file.as_ref().map(|f| f.display().to_string());
            let script = Script { name, text, format, progress: std::io::stderr().is_terminal() };
            let outcome = in_runtime(thalweg::run::run(settings, script));
            if scratch.exists() {
                std::fs::remove_dir_all(&scratch)
                    .map_err(|e| format!("thalweg: could not remove \"{}\": {e}", scratch.display()))?;
            }
            outcome
        }
    }
}

fn in_runtime<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("threads can be started");
    let result = runtime.block_on(work);
    // What still blocks (a read from a terminal, say) must not keep the process.
    runtime.shutdown_timeout(std::time::Duration::from_secs(1));
    result
}

fn start_logs(settings: &Settings) -> Result<(), String> {
    let filter = EnvFilter::try_new(&settings.log).map_err(|e| format!("thalweg: setting \"log\": {e}"))?;
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match settings.log_format {
        LogFormat::Text => logs.init(),
        LogFormat::Json => logs.json().init(),
    }
    Ok(())
}
