//! A directory in which a shell runs a line, once with the real programs and once with haul in
//! their place.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use haul_testkit::Sandbox;
use haul_testkit::random::{Rng, seeded};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    Theirs,
    Ours,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) status: Option<i32>,
    pub(crate) output: Vec<u8>,
    pub(crate) messages: Vec<String>,
    pub(crate) tree: BTreeMap<PathBuf, String>,
}

/// Lines of bzip2's messages to ignore: advice, the unrelated errno of the last call, and the note
/// that it skips the remaining files after a damaged one, which haul doesn't.
const ADVICE: [&str; 12] = [
    "It is possible that the compressed file(s) have become corrupted.",
    "You can use the -tvv option to test integrity of such files.",
    "You can use the `bzip2recover' program to attempt to recover",
    "data from undamaged sections of corrupted files.",
    "\tperhaps it is corrupted?",
    ": Success",
    ": No such file or directory",
    ": Inappropriate ioctl for device",
    ": Deleting output file",
    ": WARNING: some files have not been processed:",
    "\t",
    "Try '",
];

pub(crate) fn haul() -> PathBuf {
    std::env::var_os("HAUL_BIN").map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_haul")), PathBuf::from)
}

/// Creates a directory in which bzip2, bunzip2 and bzcat are haul.
pub(crate) fn stand_ins(sandbox: &Sandbox) -> PathBuf {
    let folder = sandbox.join("stand-ins");
    fs::create_dir(&folder).unwrap();
    ["bzip2", "bunzip2", "bzcat"].iter().for_each(|name| symlink(haul(), folder.join(name)).unwrap());
    folder
}

pub(crate) fn run(line: &str, folder: &Path, whose: Whose, stand_ins: &Path) -> Outcome {
    let path = match whose {
        Whose::Theirs => "/usr/bin:/bin".into(),
        Whose::Ours => format!("{}:/usr/bin:/bin", stand_ins.display()),
    };
    let done = Command::new("sh")
        .args(["-c", line])
        .current_dir(folder)
        .env_clear()
        .envs([("PATH", path.as_str()), ("LC_ALL", "C")])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let is_said = |line: &&str| !line.is_empty() && !ADVICE.iter().any(|advice| is_advice(line, advice));
    let mut messages: Vec<_> =
        String::from_utf8_lossy(&done.stderr).lines().filter(is_said).map(str::to_owned).collect();
    messages.sort();
    let mut tree = BTreeMap::new();
    look(folder, folder, &mut tree);
    Outcome { status: done.status.code(), output: done.stdout, messages, tree }
}

fn is_advice(line: &str, advice: &str) -> bool {
    // Behind the program's name an errno text is noise; behind a file name it belongs to a message.
    match advice.strip_prefix(": ") {
        Some(reason) => line
            .split_once(": ")
            .is_some_and(|(program, rest)| !program.contains(' ') && rest.starts_with(reason)),
        None => line.starts_with(advice),
    }
}

/// Describes every entry of a directory; compressed files by their content.
fn look(root: &Path, folder: &Path, tree: &mut BTreeMap<PathBuf, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let meta = path.symlink_metadata().unwrap();
        let content = if meta.is_dir() {
            look(root, &path, tree);
            "a directory".to_owned()
        } else if meta.is_symlink() {
            format!("-> {}", fs::read_link(&path).unwrap().display())
        } else {
            let bytes = fs::read(&path).unwrap();
            let plain =
                Command::new("/usr/bin/bzip2").arg("-dc").stdin(fs::File::open(&path).unwrap()).output();
            let plain = plain.unwrap();
            if plain.status.success() { format!("of {:?}", plain.stdout) } else { format!("{bytes:?}") }
        };
        let modified = if meta.is_file() { meta.mtime() } else { 0 };
        let facts = format!(
            "{:o} {}:{} {modified} {} {content}",
            meta.permissions().mode(),
            meta.uid(),
            meta.gid(),
            meta.nlink()
        );
        tree.insert(path.strip_prefix(root).unwrap().to_owned(), facts);
    }
}

/// Fills a directory with text, compressed files, links and special cases.
pub(crate) fn furnish(folder: &Path) {
    fs::create_dir_all(folder.join("tree/deep")).unwrap();
    let text = "All happy families are alike.\n".repeat(300);
    let write = |name: &str, bytes: &[u8]| fs::write(folder.join(name), bytes).unwrap();
    for name in ["text", "other", "odd name", "-dash", "linked", "tree/one", "tree/deep/two"] {
        write(name, format!("{name}: {text}").as_bytes());
    }
    write("empty", b"");
    let script = "
        ln linked again && ln -s text soft && ln -s nowhere dangling
        bzip2 -k other && cp other.bz2 tree/three.bz2 && cp other.bz2 a.bz && cp other.bz2 b.tbz && cp other.bz2 c.tbz2
        cp other.bz2 strange && cp other.bz2 both && cp other.bz2 both.out
        cat other.bz2 other.bz2 > twice.bz2
        (cat other.bz2; echo garbage) > garbage.bz2
        head -c 100 other.bz2 > short.bz2 && : > nothing.bz2 && cp text plain.bz2
        (head -c 60 other.bz2; echo X; tail -c +63 other.bz2) > bad.bz2
        bzip2 < empty > none.bz2
        chmod 4750 text && chmod 600 other && chmod 444 tree/one
        touch -d 2001-02-03T04:05:06 text other tree/one other.bz2 a.bz
    ";
    let done = Command::new("sh").args(["-ec", script]).current_dir(folder).status().unwrap();
    assert!(done.success());
}

/// Generates pseudo-random bytes: part text, part noise, part runs.
pub(crate) fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut random = seeded(seed);
    let mut bytes = Vec::with_capacity(length + 1000);
    while bytes.len() < length {
        let some = random.random_range(1..=900);
        match random.random_range(0..4) {
            0 => bytes.extend((0..some).map(|_| random.random::<u8>())),
            1 => bytes.resize(bytes.len() + some, random.random()),
            _ => bytes.extend((0..some).map(|_| b"  etaoin shrdlucmfw\n"[random.random_range(0..20)])),
        }
    }
    bytes.truncate(length);
    bytes
}
