//! Ranks of a user who isn't root, whom modes hold up.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use haul_testkit::mpi::{Mpi, MpiKind};
use haul_testkit::{CopyProgram, RunOutcome, Sandbox, needs, program, require};

/// A directory of the user `nobody`, and a program that may be run there.
struct Scene {
    sandbox: Sandbox,
    mpi: Mpi,
    program: CopyProgram,
}

impl Scene {
    /// Creates a scene; the caller has checked that this is possible.
    fn new() -> Self {
        // Flushing a file takes time there.
        let sandbox = Sandbox::on_disk().unwrap();
        let program = program!().publish(sandbox.path()).unwrap();
        fs::set_permissions(sandbox.path(), fs::Permissions::from_mode(0o755)).unwrap();
        Self { sandbox, mpi: Mpi::find(MpiKind::OpenMpi4).unwrap(), program }
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

    fn run(&self, words: &str, ranks: bool) -> RunOutcome {
        let (words, folder) = (words.split(' '), self.folder());
        let own = if ranks { self.mpi.options(3).to_vec() } else { Vec::new() };
        let run = self.mpi.with(haul_testkit::TestRun::new(self.program.path()).args(words).args(own));
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

/// Other ranks open the target of a split file by its name, whatever mode it has in the end. A
/// target that was there before is not lost.
#[test]
fn large_files_that_nobody_may_write_to_are_split() {
    require!(needs::root(), needs::tool("setfacl"), MpiKind::OpenMpi4.needed(), program!().needs_haul());
    let scene = Scene::new();
    let source = "mkdir -p s one/s several/s; head -c 5000000 /dev/urandom >s/444
        for mode in 400 440 4555 464 644; do cp s/444 s/$mode; done; echo small >s/small
        for file in s/[0-9]*; do chmod ${file#s/} $file; done; chmod 444 s/small";
    let existing = "for t in one/s several/s; do for mode in 444 400; do echo old >$t/$mode
        chmod $mode $t/$mode; done; done";
    // Its owner may not write to a new file in such a directory.
    let list = "setfacl -d -m u::r,g::r,o::- one/s several/s";
    let lines = [
        ("cp -r", ""),
        ("cp -rp", ""),
        ("cp -a", ""),
        ("cp -rL", ""),
        ("cp -r --walk=ranks", ""),
        ("cp -r --preserve=xattr", ""),
        ("cp -r --preserve=ownership", ""),
        ("cp -r --atomic", ""),
        ("cp -r --no-atomic", ""),
        ("cp -r --verify", ""),
        ("cp -r", list),
        ("cp -rp", list),
        ("cp -rf", existing),
        ("cp -rpf", existing),
        ("cp -r --remove-destination", existing),
        ("cp -rf --atomic", existing),
        ("cp -r --strict", existing),
        ("sync --no-preserve=xattr", ""),
    ];
    for (words, before) in lines {
        scene.prepare(&format!("{source}\n{before}"));
        let what = format!("{words}, after {before:?}");
        let to = if words.starts_with("sync") { "/s" } else { "" };
        let alone = scene.run(&format!("{} s one{to}", words.replace(" --walk=ranks", "")), false);
        let outcome = scene.run(&format!("{words} --debug --range-size=64K s several{to}"), true);
        let told = outcome.errors();
        assert!(alone.succeeded() && outcome.succeeded(), "{what}: {}\n{told}", alone.errors());
        // A team that grows is reported again.
        let teams = told.lines().filter_map(|line| Some(line.split_once(": a team of ")?.0));
        assert_eq!(teams.collect::<BTreeSet<_>>().len(), 6, "{what}: {told}");
        let [one, several] = ["one/s", "several/s"].map(|to| files(&scene.folder().join(to)));
        assert_eq!(one.len(), 7, "{what}");
        assert!(one == several, "{what}: {:?}", several.iter().map(|(name, (mode, _))| (name, mode)));
    }
}

/// The errors of other files in a large file's work item are all reported, wherever they go.
#[test]
fn each_error_beside_large_files_is_reported_once() {
    require!(needs::root(), MpiKind::OpenMpi4.needed(), program!().needs_haul());
    let scene = Scene::new();
    scene.prepare(
        "mkdir -p s/d; head -c 1000000 /dev/urandom >large; head -c 100000 /dev/urandom >small
        for n in {1..900}; do case $((n % 30)) in 0) cp large s/d/$n;; ?) echo x >s/d/$n; chmod 0 s/d/$n;;
        *) cp small s/d/$n;; esac; done",
    );
    for options in ["cp -r", "cp -rp --fsync=each", "cp -r --fsync=each", "cp -r --journal=journal"] {
        let to = "s t --log-file=log --events=events --range-size=256K";
        let outcome = scene.run(&format!("{options} {to}"), true);
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

/// Whoever finishes a directory opens it as the rank did that entered it, and has its ACL.
#[test]
fn directories_that_cannot_be_read_get_their_attributes() {
    require!(needs::root(), needs::tool("setfacl"), MpiKind::OpenMpi4.needed(), program!().needs_haul());
    let scene = Scene::new();
    for words in ["cp -aT", "cp -aT --walk=ranks", "cp -rT --preserve=mode --walk=ranks"] {
        scene.prepare(
            "mkdir -p s/{d,x}/{1,2,3} t/{d,x}/1; touch s/d/{1,2,3}/{a,b}; chmod 750 s/d/*; touch -d @5 s/d/*
            setfacl -m u::-wx,u:33:rwx,g::---,o::--- s/x/*; chmod 300 t/d/1; chmod 0 t/x/1",
        );
        let outcome = scene.run(&format!("{words} s t"), true);
        let mut told: Vec<_> = outcome.errors().lines().map(str::to_owned).collect();
        told.sort();
        let expected =
            [1, 2, 3].map(|name| format!("haul cp: cannot access 's/x/{name}': Permission denied"));
        assert_eq!(told, expected, "{words}");
        let acls = |tree: &str| format!("(cd folder/{tree}; getfacl -cpR .)");
        scene.sandbox.script(&format!("diff <{} <{}", acls("s"), acls("t"))).unwrap();
    }
}
