//! The Python package, as `pip install ./python` gives it, in an environment of its own.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use haul_packaging::{run, workspace};
use haul_testkit::mount::Mount;
use haul_testkit::{needs, note, require, skip};

/// Exit status of `cpython.py` where Python comes without its own tests.
const NO_TESTS: i32 = 77;

/// Held while the package is built in the sources, where it puts files.
static BUILDING: Mutex<()> = Mutex::new(());

/// An environment with the package, built from the sources.
struct Environment {
    folder: tempfile::TempDir,
}

impl Environment {
    /// Creates an environment with the build tools.
    fn new() -> Result<Self, String> {
        let environment = Self { folder: tempfile::tempdir().unwrap() };
        run(Command::new("python3").args(["-m", "venv"]).arg(environment.place()))?;
        run(environment.pip().args(["maturin>=1.9,<2", "mypy"]))?;
        Ok(environment)
    }

    fn place(&self) -> PathBuf {
        self.folder.path().join("environment")
    }

    /// Returns a command that runs Python away from the sources.
    fn python(&self) -> Command {
        let mut command = Command::new(self.place().join("bin/python"));
        command.arg("-B").current_dir(self.folder.path());
        command
    }

    fn script(&self, name: &str) -> Command {
        let mut command = self.python();
        command.arg(workspace().join("python/tests").join(name));
        command
    }

    fn pip(&self) -> Command {
        let mut command = self.python();
        command.args(["-m", "pip", "--quiet", "--disable-pip-version-check", "install"]);
        command
    }

    /// Installs the package.
    fn install(&self) -> Result<String, String> {
        let mut install = self.build(self.pip());
        install.args(["--no-build-isolation", "--no-deps"]).arg(workspace().join("python"));
        let _building = BUILDING.lock().unwrap_or_else(PoisonError::into_inner);
        // The program is there already.
        built_command().iter().for_each(|built| {
            install.env("HAUL_WHEEL_COMMAND", built);
        });
        run(&mut install)
    }

    /// Packs the sources, and installs the package from nothing else.
    fn install_from_sources(&self) -> Result<String, String> {
        let pack = "import sys; sys.path.insert(0, '.'); import backend; backend.build_sdist(sys.argv[1])";
        let mut python = self.build(self.python());
        python.args(["-c", pack]).arg(self.folder.path()).current_dir(workspace().join("python"));
        let building = BUILDING.lock().unwrap_or_else(PoisonError::into_inner);
        run(&mut python)?;
        drop(building);
        let name = format!("haul-{}.tar.gz", env!("CARGO_PKG_VERSION"));
        let mut install = self.build(self.pip());
        install.args(["--no-build-isolation", "--no-deps"]).arg(self.folder.path().join(name));
        // Built here once more, from the package alone, and as small as can be.
        install.env("CARGO_PROFILE_DEV_DEBUG", "0");
        run(install.env("CARGO_TARGET_DIR", self.folder.path().join("target")))
    }

    /// Prepares a command that builds: with the tools of the environment, and the profile that is
    /// the fastest to compile.
    fn build(&self, mut command: Command) -> Command {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let paths = std::iter::once(self.place().join("bin")).chain(std::env::split_paths(&path));
        command.env("PATH", std::env::join_paths(paths).unwrap()).env("HAUL_WHEEL_PROFILE", "dev");
        command
    }

    fn mypy(&self) -> Command {
        let mut command = self.python();
        command.args(["-m", "mypy", "--strict", "--cache-dir=/dev/null"]);
        command
    }
}

/// Returns the program that `cargo test` has built next to this test.
fn built_command() -> Option<PathBuf> {
    let test = std::env::current_exe().ok()?;
    let built = test.ancestors().nth(2)?.join("haul");
    built.is_file().then_some(built)
}

/// Creates an environment; ends the test where pip has no packages.
macro_rules! environment {
    () => {{
        require!(needs::python_module("venv"), needs::python_module("ensurepip"));
        match Environment::new() {
            Ok(environment) => environment,
            Err(error) if error.contains("No matching distribution") => skip!("needs packages of pip"),
            Err(error) => panic!("{error}"),
        }
    }};
}

#[test]
fn the_source_package_is_enough_to_install_it() {
    require!(needs::full_run());
    let environment = environment!();
    environment.install_from_sources().unwrap_or_else(|error| panic!("{error}"));
    run(&mut environment.script("examples.py")).unwrap_or_else(|error| panic!("{error}"));
    let haul = environment.place().join("bin/haul");
    let version = run(Command::new(haul).arg("--version")).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(version, format!("haul {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn the_source_package_has_what_configures_cargo() {
    require!(needs::tool("python3"));
    // Without maturin, which only building needs.
    let list =
        "import sys, types; sys.path.insert(0, '.'); sys.modules['maturin'] = types.ModuleType('maturin')
import backend
print(*(file.relative_to(backend.WORKSPACE) for file in backend._files()), sep='\\n')";
    let mut python = Command::new("python3");
    let listed = run(python.args(["-B", "-c", list]).current_dir(workspace().join("python"))).unwrap();
    let listed: Vec<_> = listed.lines().collect();
    // Without the first the program would be another one: with the system's PCRE2, for instance.
    for file in [".cargo/config.toml", "Cargo.lock", "crates/cli/start.ld", "python/src/lib.rs"] {
        assert!(listed.contains(&file), "{file}");
    }
    // Where the package is built from its sources and where it is built from the repository.
    for file in ["LICENSE-MIT", "python/LICENSE-MIT"] {
        assert!(listed.contains(&file), "{file}");
    }
}

#[test]
fn the_package_passes_its_tests_and_those_of_cpython() {
    let environment = environment!();
    environment.install().unwrap_or_else(|error| panic!("{error}"));
    for tests in ["test_copytree.py", "test_errors.py", "test_sync.py"] {
        run(&mut environment.script(tests)).unwrap_or_else(|error| panic!("{error}"));
    }
    run(&mut environment.script("examples.py")).unwrap_or_else(|error| panic!("{error}"));
    check_types(&environment);
    let licences = "import importlib.metadata as m; print(*sorted(f.name for f in m.files('haul') if 'LICENSE' in f.name))";
    let licences = run(environment.python().args(["-c", licences])).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(licences, "LICENSE-APACHE LICENSE-MIT\n");
    verify_on_mounts(&environment);

    let output = environment.script("cpython.py").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().filter(|line| line.starts_with("left out")).for_each(|line| note!("{line}"));
    if output.status.code() == Some(NO_TESTS) {
        skip!("needs CPython's own tests");
    }
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{messages}");
}

/// Verifies copies on file systems that share blocks.
fn verify_on_mounts(environment: &Environment) {
    for file_system in ["btrfs", "xfs"] {
        require!(needs::loop_mount(file_system));
        let mount = Mount::image(file_system, 400 << 20).unwrap();
        for tests in ["test_copytree.py", "test_sync.py"] {
            let mut verified = environment.script(tests);
            verified.args(["-k", "test_a_correct_copy_is_verified"]).env("TMPDIR", mount.path());
            run(&mut verified).unwrap_or_else(|error| panic!("{file_system}: {error}"));
        }
    }
}

/// Checks the types of the installed package and of a program that uses it.
fn check_types(environment: &Environment) {
    let example = workspace().join("python/tests/example.py");
    run(environment.mypy().arg(example)).unwrap_or_else(|error| panic!("{error}"));
    run(environment.mypy().args(["--package", "haul"])).unwrap_or_else(|error| panic!("{error}"));

    let wrong = environment.folder.path().join("wrong.py");
    std::fs::write(&wrong, "import haul\nhaul.copytree('a', 'b', jobs='many')\n").unwrap();
    let found = run(environment.mypy().arg(wrong)).unwrap_err();
    assert!(found.contains("arg-type"), "{found}");
}
