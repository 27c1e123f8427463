//! Ranks of a user who isn't root, whom modes hold up.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use haul_testkit::mpi::{Kind, Mpi};
use haul_testkit::{Outcome, Program, Sandbox, needs, program, require};

/// A directory of the user `nobody`, and a program that may be run there.
struct Scene {
    sandbox: Sandbox,
    mpi: Mpi,
    program: Program,
}

impl Scene {
    /// Creates a scene; the caller has checked that this is possible.
    fn new() -> Self {
        // Flushing a file takes time there.
        let sandbox = Sandbox::on_disk().unwrap();
        let program = program!().publish(sandbox.path()).unwrap();
        fs::set_permissions(sandbox.path(), fs::Permissions::from_mode(0o755)).unwrap();
        Self { sandbox, mpi: Mpi::find(Kind::OpenMpi4).unwrap(), program }
    }

    fn folder(&self) -> PathBuf {
        self.sandbox.join("folder")
    }

    /// Makes the directory anew, with what a shell script puts there.
    fn prepare(&self, script: &str) {
        let whole = format!(
            "rm -rf folder; mkdir -p folder/tmp; cd folder; {script}
            chown -R 65534:65534 ."
        );
        self.sandbox.script(&whole).unwrap();
    }

    fn run(&self, words: &str) -> Outcome {
        let (words, folder) = (words.split(' '), self.folder());
        let own = self.mpi.options(3);
        let run = self.mpi.with(haul_testkit::Run::new(self.program.path()).args(words).args(own));
        let run = run.env("TMPDIR", folder.join("tmp")).env("HOME", &folder).umask(0o022);
        run.as_nobody().in_folder(&folder).finish().unwrap()
    }
}

/// Modes and content of the files below a directory, by name.
fn files(directory: &Path) -> BTreeMap<String, (u32, Vec<u8>)> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .map(|entry| {
            let mode = entry.metadata().unwrap().permissions().mode();
            (entry.file_name().to_string_lossy().into_owned(), (mode, fs::read(entry.path()).unwrap()))
        })
        .collect()
}

/// The errors of other files in a large file's work item are all reported, wherever they go.
#[test]
fn each_error_beside_large_files_is_reported_once() {
    require!(needs::root(), Kind::OpenMpi4.needed(), program!().needs_haul());
    let scene = Scene::new();
    scene.prepare(
        "mkdir -p s/d; head -c 1000000 /dev/urandom >large; head -c 100000 /dev/urandom >small
        for n in {1..900}; do case $((n % 30)) in 0) cp large s/d/$n;; ?) echo x >s/d/$n; chmod 0 s/d/$n;;
        *) cp small s/d/$n;; esac; done",
    );
    for options in ["cp -r", "cp -rp --fsync=each", "cp -r --fsync=each", "cp -r --journal=journal"] {
        let to = "s t --log-file=log --events=events --range-size=256K";
        let outcome = scene.run(&format!("{options} {to}"));
        assert_eq!(outcome.status(), Some(1), "{options}");
        let read = |name: &str| fs::read_to_string(scene.folder().join(name)).unwrap();
        for (place, text) in [("stderr", outcome.errors()), ("log", read("log")), ("events", read("events"))]
        {
            let names = (1..=900).filter(|number| (1..10).contains(&(number % 30)));
            for name in names.map(|number| format!("s/d/{number}'")) {
                let about =
                    text.lines().filter(|line| line.contains("denied") && line.contains(&name)).count();
                assert_eq!(about, 1, "{options}: {name} in {place}");
            }
            let denied = text.lines().filter(|line| line.contains("denied")).count();
            assert_eq!(denied, 270, "{options}: {place}");
        }
        let copied = files(&scene.folder().join("t/d")).len();
        assert_eq!(copied, 630, "{options}");
        scene.sandbox.script("cd folder; rm -rf t log events journal").unwrap();
    }
}
