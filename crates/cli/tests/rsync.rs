//! `haul sync` beside rsync: random trees and changes become the same, and both print the same
//! about it.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use haul_testkit::compare::{About, Differences};
use haul_testkit::random::{self, IndexedRandom, Random, Rng, seeded};
use haul_testkit::random_tree::{self, RandomTreeLimits};
use haul_testkit::spec::SpecKind;
use haul_testkit::{Facts, Sandbox, Snapshot, compare, needs, note, program, require};

/// Facts compared with rsync, which doesn't look for holes unless it is asked to.
const FACTS: Facts = Facts::PRESERVED.difference(Facts::HOLES);

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the entries below a directory, itself excluded.
fn entries(root: &Path) -> Vec<PathBuf> {
    walkdir::WalkDir::new(root).min_depth(1).into_iter().map(|entry| entry.unwrap().into_path()).collect()
}

fn run(program: &str, arguments: &[&str], path: &Path) {
    let output = Command::new(program).args(arguments).arg(path).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?} {path:?}: {}", text(&output.stderr));
}

fn remove(path: &Path) {
    match fs::symlink_metadata(path).unwrap().is_dir() {
        true => fs::remove_dir_all(path).unwrap(),
        false => fs::remove_file(path).unwrap(),
    }
}

/// Optional kinds of changes to a tree, apart from contents, types and attributes.
#[derive(Clone, Copy)]
struct Changes {
    links: bool,
    /// Files may become directories with something in them.
    full_directories: bool,
}

impl Changes {
    /// Changes one entry at random. Returns what was done, for messages.
    fn one(self, root: &Path, random: &mut Random) -> String {
        let there = entries(root);
        let Some(path) = there.choose(random) else { return String::new() };
        let kind = fs::symlink_metadata(path).unwrap().file_type();
        let is_plain = kind.is_file() || kind.is_dir();
        let seconds = format!("@{}", random.random_range(0..2_000_000_000));
        let what = random.random_range(0..12);
        match what {
            0 if kind.is_file() => {
                let bytes = random::bytes(random.random(), random.random_range(0..9000));
                fs::write(path, bytes).unwrap();
            }
            1 if kind.is_file() => {
                // The same size, and another time.
                let bytes = random::bytes(random.random(), fs::metadata(path).unwrap().len());
                fs::write(path, bytes).unwrap();
            }
            2 => run("touch", &["-h", "-d", &seconds], path),
            3 if is_plain => {
                let mode = *[0o600, 0o644, 0o755, 0o4755, 0o2775].choose(random).unwrap();
                fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
            }
            4 => run("chown", &["-h", &format!("{}:{}", random.random_range(0..9), 7)], path),
            5 if is_plain => run("setfattr", &["-n", "user.k", "-v", &seconds], path),
            6 if is_plain => run("setfacl", &["-m", "u:7:r"], path),
            7 => remove(path),
            8 if !kind.is_dir() => {
                remove(path);
                symlink("somewhere", path).unwrap();
            }
            9 if !kind.is_dir() => {
                remove(path);
                fs::create_dir(path).unwrap();
                if self.full_directories {
                    fs::write(path.join("inside"), b"new").unwrap();
                }
            }
            10 if kind.is_file() && self.links => {
                let other = root.join(format!("link-{}", random.random_range(0..5)));
                if fs::symlink_metadata(&other).is_err() {
                    fs::hard_link(path, &other).unwrap();
                }
            }
            11 if !kind.is_dir() => {
                remove(path);
                fs::write(path, b"another").unwrap();
            }
            _ => return String::new(),
        }
        format!("{what} {}; ", path.display())
    }
}

/// Returns what is left of a target without what its source doesn't have.
fn prune(target: &Path, source: &Path) {
    for path in entries(target).into_iter().rev() {
        if fs::symlink_metadata(source.join(path.strip_prefix(target).unwrap())).is_err() {
            remove(&path);
        }
    }
}

/// Returns the name that rsync shows with bytes as `\\#` and three octal digits.
fn unescaped(name: &str) -> PathBuf {
    let mut pieces = name.split("\\#");
    let mut bytes = pieces.next().unwrap().as_bytes().to_vec();
    for piece in pieces {
        // A name may have the two characters.
        match piece.split_at_checked(3).map(|(digits, rest)| (u8::from_str_radix(digits, 8), rest)) {
            Some((Ok(byte), rest)) => bytes.extend([&[byte], rest.as_bytes()].concat()),
            _ => bytes.extend([b"\\#", piece.as_bytes()].concat()),
        }
    }
    PathBuf::from(OsStr::from_bytes(&bytes))
}

/// Returns the lines of `--itemize-changes`, sorted. Without those of files with several names: in
/// the source any of them may be the first, and in the target haul parts them before it sets
/// attributes; and of directories that make way for something else, which rsync
/// doesn't print. It prints DEL as it is. Sometimes it prints only one letter where an ACL and so
/// the mode differ, no letter for the xattrs of a file that is copied, and nothing for a file with
/// a set-id or sticky bit that gets another owner. `target` is as it was before.
fn itemized(output: &[u8], source: &Path, target: &Path) -> Vec<String> {
    let found = |line: &str, root: &Path| {
        let name = line.get(12..)?.split(" -> ").next()?.split(" => ").next()?;
        fs::symlink_metadata(root.join(unescaped(name.trim_end_matches('/')))).ok()
    };
    let output = text(output).replace('\x7f', "\\#177");
    let is_kept = |line: &&str| {
        let both = [found(line, source), found(line, target)];
        let makes_way = line.starts_with("*deleting") && both[0].is_some();
        let any = |is: fn(&fs::Metadata) -> bool| both.iter().flatten().any(is);
        let has_names = any(|there| !there.is_dir() && there.nlink() > 1);
        let has_special_mode = any(|there| there.mode() & 0o7000 != 0);
        !(has_names || has_special_mode || makes_way)
    };
    let without_xattrs = |line: &str| {
        let (letters, path) = line.split_at(11);
        let letters = match letters {
            _ if letters.starts_with('*') => letters.to_owned(),
            _ if letters.contains('a') => format!("{}p{}.{}", &letters[..5], &letters[6..9], &letters[10..]),
            _ => letters.to_owned(),
        };
        let letters = if letters.starts_with(">f") { letters.replace('x', ".") } else { letters };
        letters + path
    };
    let mut lines: Vec<_> = output.lines().filter(is_kept).map(without_xattrs).collect();
    lines.sort();
    lines
}

/// Options that rsync has too.
const OPTIONS: [&str; 10] = [
    "",
    "-c",
    "-u",
    "--inplace",
    "--delete",
    "-c --delete",
    "-u --delete",
    "--existing",
    "--ignore-existing",
    "--existing --delete",
];

/// Returns the differences as text, which is empty if there are none.
fn shown(differences: &Differences) -> String {
    if differences.is_empty() { String::new() } else { differences.to_string() }
}

/// Two trees, to be made equal by both programs with the same options.
struct Case {
    sandbox: Sandbox,
    options: &'static str,
    /// Changes made to the trees, for messages.
    changes: String,
}

impl Case {
    fn new(seed: u64) -> Self {
        let mut random = seeded(seed);
        let sandbox = Sandbox::in_memory().unwrap();
        let options = *OPTIONS.choose(&mut random).unwrap();
        let mut case = Self { sandbox, options, changes: String::new() };
        let has_links = !case.is_partial();
        let mut tree =
            random_tree::tree(random.random(), RandomTreeLimits { entries: 30, file_bytes_max: 20_000 });
        tree.nodes.retain(|node| has_links || !matches!(node.kind, SpecKind::HardLink(_)));
        tree.build(&case.path("s")).unwrap();
        case.sandbox.script("cp -a s t").unwrap();
        let full_directories = case.has("--delete") && !case.is_partial();
        let of_target = Changes { links: has_links, full_directories };
        let of_source = Changes { full_directories: true, ..of_target };
        (0..8).for_each(|_| case.changes += &of_target.one(&case.path("t"), &mut random));
        case.sandbox.script("cp -a t ours; cp -a t theirs").unwrap();
        (0..8).for_each(|_| case.changes += &of_source.one(&case.path("s"), &mut random));
        case
    }

    fn path(&self, name: &str) -> PathBuf {
        self.sandbox.join(name)
    }

    /// True if an option is given.
    fn has(&self, name: &str) -> bool {
        self.options.split(' ').any(|word| word == name)
    }

    /// True if not everything becomes equal. Then what several names of a file have in common
    /// depends on the order.
    fn is_partial(&self) -> bool {
        ["-u", "--existing", "--ignore-existing"].iter().any(|name| self.has(name))
    }

    fn run(&self, program: &Path, words: &[&str], target: &str) -> Output {
        let mut command = Command::new(program);
        command.args(words).args(self.options.split_whitespace()).args(["s/", target]);
        command.current_dir(self.sandbox.path()).env("LC_ALL", "C").output().unwrap()
    }

    fn compare(&self, names: [&str; 2], facts: Facts) -> Differences {
        let [expected, found] = names.map(|name| Snapshot::take(&self.path(name), facts).unwrap());
        compare(&expected, &found, facts).unwrap()
    }

    /// Compares what haul and rsync have made and printed. Returns what differs in either; `None`
    /// if rsync hangs.
    fn beside_rsync(&self, ours: &Output) -> Option<(String, String)> {
        // In place, rsync writes to all names of a file, also to those of the source's other files.
        if self.has("--inplace") {
            return Some(Default::default());
        }
        // With -c it opens a FIFO of the target that is to become a file, and waits forever. It
        // compares nanoseconds only with a window of -1.
        let words = ["2", "rsync", "-aHAXi", "--modify-window=-1"];
        let theirs = self.run(Path::new("timeout"), &words, "theirs/");
        if theirs.status.code() == Some(124) {
            return None;
        }
        // Of names that only the target has; and rsync changes the group's entry of some ACLs.
        let mut different =
            self.compare(["theirs", "ours"], FACTS.difference(Facts::LINKS | Facts::ATTRIBUTES));
        // A name that only the target has may be another one of a file that one program replaces
        // and the other mends.
        let is_kept =
            |path: &[u8]| fs::symlink_metadata(self.path("s").join(OsStr::from_bytes(path))).is_err();
        let is_there = |about| matches!(about, About::Missing | About::Extra | About::Type);
        different.list.retain(|one| is_there(one.about) || !is_kept(&one.path));
        if self.has("--ignore-existing") {
            // Where the source has a directory, rsync gives what stays the present time, and prints
            // files below it that it can't make.
            different.list.retain(|one| one.about != About::Time);
            // And it follows a link that stays there, to files that neither tree had.
            let is_new = |path: &[u8]| {
                ["s", "t"].iter().all(|root| !self.path(root).join(OsStr::from_bytes(path)).exists())
            };
            different.list.retain(|one| one.about != About::Missing || !is_new(&one.path));
            return Some((shown(&different), String::new()));
        }
        let lines = |output: &Output| itemized(&output.stdout, &self.path("s"), &self.path("t"));
        let (we, they) = (lines(ours), lines(&theirs));
        let printed = if we == they { String::new() } else { format!("ours {we:#?}\ntheirs {they:#?}\n") };
        Some((shown(&different), printed))
    }
}

#[test]
fn the_target_becomes_what_the_source_is_and_what_rsync_makes_of_it() {
    let ours = program!();
    let with_xattrs = needs::tool("setfacl").or_else(|| needs::tool("setfattr"));
    require!(ours.needs_haul(), needs::root(), needs::tool("rsync"), with_xattrs);
    let cases = if needs::is_full_run() { 2000 } else { 200 };
    let seed = random::seed("sync", Some(20_261_126));
    let (mut failures, mut unanswered, mut other_lines) = (Vec::new(), 0, Vec::new());
    for number in 0..cases {
        let case = Case::new(seed.wrapping_add(number));
        let output = case.run(ours.path(), &["sync", "-i"], "ours");
        let Some((mut differences, printed)) = case.beside_rsync(&output) else {
            unanswered += 1;
            continue;
        };
        if !printed.is_empty() {
            other_lines.push(format!("case {number}, {}: {printed}{}", case.options, case.changes));
        }
        if !case.has("--delete") {
            prune(&case.path("ours"), &case.path("s"));
        }
        if !case.is_partial() {
            let facts = FACTS.difference(Facts::DIRECTORY_MODIFIED);
            differences += &shown(&case.compare(["s", "ours"], facts));
        }
        if !output.status.success() || !differences.is_empty() {
            let (options, changes, errors) = (case.options, &case.changes, text(&output.stderr));
            failures.push(format!("case {number}, {options}: {errors}{differences}\n{changes}"));
        }
    }
    assert!(unanswered <= cases / 20, "rsync hung in {unanswered} of {cases} cases");
    // In one of about a thousand cases rsync leaves a letter out, and not every time.
    let may_differ = other_lines.len() as u64 <= cases / 100;
    assert!(may_differ, "seed {seed}: other lines in {}:\n{}", other_lines.len(), other_lines.join("\n\n"));
    other_lines.iter().for_each(|case| note!("other lines in {case}"));
    assert!(failures.is_empty(), "seed {seed}: {} differ:\n{}", failures.len(), failures.join("\n\n"));
}
