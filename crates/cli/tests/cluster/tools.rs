//! The applets other than `cp`, with several processes: same results as with one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use haul_testkit::mpi::{Mpi, MpiKind};
use haul_testkit::run::TestRun;
use haul_testkit::sandbox::remove_tree;
use haul_testkit::{Facts, RunOutcome, Sandbox, Snapshot, compare, note, program, require};

use crate::start::{Way, script};

/// Facts to compare: everything but modification times.
const FACTS: Facts = Facts::PRESERVED.difference(Facts::MODIFIED).difference(Facts::DIRECTORY_MODIFIED);

/// A command line, run in a directory with the tree `tree`, a slightly different one `other`, and
/// the results of `before`.
pub(crate) struct Line {
    pub(crate) words: &'static str,
    /// Shell command that runs first.
    pub(crate) before: &'static str,
    /// True if the order of standard output matters.
    pub(crate) ordered: bool,
    /// Shell command that prints a result in a form that depends only on its content. It removes
    /// the result, since the bytes may differ.
    pub(crate) shown: &'static str,
}

pub(crate) const fn line(words: &'static str) -> Line {
    Line { words, before: "true", ordered: false, shown: "true" }
}

/// Makes some entries of `other` the same as in `tree`, and others different in every way.
const SYNC_CHANGES: &str = "cp -a tree/. other; chmod 600 other/c/*; rm -r other/a; \
                            echo x >other/a; ln -s x other/link; echo new >tree/link; touch -d @5 other/c/word-1";

/// Prints the entries of `tree` whose times or numbers of names aren't those in `other`.
const TIMES: &str = "for top in tree other; do (cd $top; find . -printf '%p %T@ %n\\n' | sort) >$top.list; done; \
                     comm -23 tree.list other.list; rm tree.list other.list";

const LINES: &[Line] = &[
    Line { before: "ln tree/c/large tree/c/twin", shown: TIMES, ..line("sync tree other") },
    Line { before: SYNC_CHANGES, shown: TIMES, ..line("sync -v --checksum tree other") },
    line("sync tree tree/a"),
    line("cmp tree tree"),
    line("cmp --attributes tree other"),
    Line { ordered: true, ..line("cmp --json tree other") },
    line("cmp tree missing"),
    Line { ordered: true, ..line("cmp --exclude=c/* --include=new --max-size=1K tree other") },
    Line { ordered: true, ..line("each --sort=path tree -- wc -c {}") },
    line("each --batch 7 --name *.txt --exclude c tree -- cat"),
    Line { ordered: true, ..line("each --block 100K tree/c/large -- wc -l") },
    line("each --exclude=/a/b --exclude=word* --min-size=100 tree tree/c/word-1 -- cat"),
    // The priorities of the ranks' commands: 19 and idle.
    line("each --nice tree/a/1 -- sh -c nice;ionice"),
    line("each --type f,l,d --sort=path tree -- test -h {}"),
    line("each tree missing -- true"),
    line("each tree -- no-such-command"),
    line("tar --sort=name -cf x.tar tree other missing"),
    Line {
        before: "truncate -s 9M tree/c/holes; printf x >> tree/c/holes; touch -d @1000000000 tree/c/holes tree/c",
        ..line("tar --sort=name -Shcf x.tar tree")
    },
    // Compressed frames end with each directory if several processes may create them.
    Line { shown: "gzip -dc x.tar; rm x.tar", ..line("tar --sort=name -czf x.tar tree") },
    // Names that occur twice, in the same directory and in place of another entry, and a link in
    // place of a directory that occurs twice.
    Line {
        before: "tar -cf x.tar tree; mv tree t; cp -a other tree; tar -rf x.tar tree; rm -r tree; ln -s x tree; touch -h -d @1 tree; \
                 tar -rf x.tar tree; rm tree; mv t tree; tar -rf x.tar tree; mkdir new",
        ..line("tar -x -f x.tar -C new")
    },
    Line { before: "tar -cf x.tar tree", ..line("tar -x -k -f x.tar") },
    Line {
        before: "tar -cf x.tar tree other && truncate -s 100000 x.tar && mkdir new",
        ..line("tar -x -f x.tar -C new")
    },
    line("grep -rn 77 tree other missing"),
    line("grep -rvc 7 tree"),
    Line { ordered: true, ..line("grep -rC1 --sort=path 100 tree other") },
    line("grep -rL word tree"),
    Line { ordered: true, ..line("grep -nA1 99$ tree/c/large tree/a/1 tree/c/empty") },
    line("grep -r no-such-words tree"),
    Line { ordered: true, ..line("sum tree other missing tree/c/large") },
    Line { ordered: true, ..line("sum --exclude=* --include=*/ --include=*.txt tree other") },
    Line { ordered: true, ..line("sum --hash=sha256 --manifest-format=json tree") },
    Line { shown: "cat x; rm x", ..line("sum --hash=md5 -o x tree other") },
    Line {
        before: "find tree other -type f | sort | xargs md5sum > x; echo more >> tree/a/1; rm other/a/2; echo rubbish >> x",
        ordered: true,
        ..line("sum -cw x")
    },
    Line {
        before: "find tree -type f | sort | xargs sha256sum > x; echo more >> tree/a/1; rm tree/a/2; echo > tree/new",
        ordered: true,
        ..line("cmp --manifest=x tree")
    },
    line("bzip2 -1rk tree"),
    line("bzip2 -1r tree"),
    line("bzip2 -1rk --exclude=b/ --include=*.txt --max-size=10K tree"),
    line("bzip2 -tr tree missing"),
    Line {
        before: "cd tree && find . -type f -links 1 | xargs bzip2 -1 && echo no > a/bad.bz2",
        ..line("bzip2 -drv tree")
    },
];

/// Builds the trees: directories with text files, one of several blocks, an empty one, and links.
fn prepare(folder: &Path) {
    let script = "mkdir -p tree/a/b tree/c && cd tree && for n in 1 2 3 4 5 6 7 8 9; do
        seq $n 200 > a/$n; seq 0 $n 3000 > a/b/$n.txt; echo word $n > c/word-$n; done
        seq 1 400000 > c/large; : > c/empty; ln -s ../a/1 c/link; ln a/1 a/twin; ln -s nowhere a/dangling
        chmod 600 a/2; cd .. && cp -a tree other && echo more >> other/a/3 && rm other/c/empty && echo x > other/c/new
        seq 2 400001 > other/c/large; chmod 644 other/a/2; find . -depth -exec touch -h -d @1000000000 {} +";
    shell(script, folder);
}

fn shell(line: &str, folder: &Path) -> Vec<u8> {
    let output =
        Command::new("sh").args(["-ec", line]).current_dir(folder).env("LC_ALL", "C").output().unwrap();
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

#[derive(PartialEq, Eq)]
struct Product {
    status: Option<i32>,
    printed: Vec<Vec<u8>>,
    said: Vec<Vec<u8>>,
    shown: Vec<u8>,
}

fn lines_of(bytes: &[u8], ordered: bool) -> Vec<Vec<u8>> {
    let mut lines: Vec<_> = bytes.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    if !ordered {
        lines.sort_unstable();
    }
    lines
}

fn run(program: &Path, line: &Line, folder: &Path, source: &Path) -> (Product, Snapshot, RunOutcome) {
    remove_tree(folder);
    shell(&format!("cp -a '{}' '{}'", source.display(), folder.display()), source);
    shell(line.before, folder);
    let words = line.words.split(' ');
    let run = TestRun::new(program)
        .args(words)
        .in_folder(folder)
        .within(Duration::from_secs(60))
        .env("HAUL_SILENCE", "30");
    let outcome = run.finish().unwrap();
    let product = Product {
        status: outcome.status(),
        printed: lines_of(&outcome.stdout, line.ordered),
        said: lines_of(outcome.errors().replace(&*folder.to_string_lossy(), "").as_bytes(), false),
        shown: shell(line.shown, folder),
    };
    (product, Snapshot::take(folder, FACTS).unwrap(), outcome)
}

/// Compares lines run by one process and by several; returns the differences.
fn differences(mpi: &Mpi, way: Way, lines: &[&Line]) -> Vec<String> {
    differences_with(mpi, way, &[], lines)
}

/// The same, where the several processes get options of their own.
pub(crate) fn differences_with(mpi: &Mpi, way: Way, own: &[&str], lines: &[&Line]) -> Vec<String> {
    let sandbox = Sandbox::in_memory().unwrap();
    let source = sandbox.join("source");
    fs::create_dir(&source).unwrap();
    prepare(&source);
    let one = fs::canonicalize(program!().path()).unwrap();
    let several: PathBuf = script(&sandbox, mpi, way, own).path().to_owned();
    let mut failures = Vec::new();
    for line in lines {
        let (wanted, there, _) = run(&one, line, &sandbox.join("one"), &source);
        let (found, here, outcome) = run(&several, line, &sandbox.join("several"), &source);
        let differs = compare(&there, &here, FACTS).unwrap();
        if wanted != found || !differs.list.is_empty() {
            failures.push(format!(
                "{} {way:?} {own:?}: {}: status {:?}, not {:?}; {differs:?}\n{}{}",
                mpi.kind().name(),
                line.words,
                found.status,
                wanted.status,
                outcome.printed(),
                outcome.errors()
            ));
        }
    }
    failures
}

#[test]
fn tools_do_by_ranks_what_they_do_alone() {
    let Some(mpi) = Mpi::find(MpiKind::OpenMpi4) else {
        require!(MpiKind::OpenMpi4.needed());
        return;
    };
    let all: Vec<_> = LINES.iter().collect();
    let ways = [Way::Clients(1), Way::Clients(2), Way::Clients(4), Way::Ranks(3)];
    let failures: Vec<_> = ways.iter().flat_map(|way| differences(&mpi, *way, &all)).collect();
    note!("{} lines of tools by ranks: {} differ", ways.len() * all.len(), failures.len());
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// With a requested order, the output of several processes equals that of one byte for byte, in
/// every run.
#[test]
fn sorted_output_is_the_same_in_every_run() {
    let Some(mpi) = Mpi::find(MpiKind::OpenMpi4) else {
        require!(MpiKind::OpenMpi4.needed());
        return;
    };
    let lines = [
        Line { ordered: true, ..line("grep -rn --sort=path 7 tree other") },
        Line { ordered: true, ..line("grep -rc --sort=path 7 other tree") },
        Line { ordered: true, ..line("each --sort=path tree other -- cat {}") },
        Line { ordered: true, shown: "cat x.tar", ..line("tar --sort=name -cvf x.tar tree other") },
    ];
    let sandbox = Sandbox::in_memory().unwrap();
    let source = sandbox.join("source");
    fs::create_dir(&source).unwrap();
    prepare(&source);
    let one = fs::canonicalize(program!().path()).unwrap();
    // Both run in a directory of the same name.
    let folder = sandbox.join("work");
    let mut failures = Vec::new();
    for line in &lines {
        let (wanted, _, _) = run(&one, line, &folder, &source);
        assert_eq!(wanted.status, Some(0), "{}", line.words);
        assert!(wanted.printed.len() > 10, "{}", line.words);
        for way in [Way::Clients(3), Way::Ranks(3)] {
            let several = script(&sandbox, &mpi, way, &[]).path().to_owned();
            for round in 0..3 {
                let (found, _, outcome) = run(&several, line, &folder, &source);
                if found != wanted {
                    failures.push(format!("{way:?}, run {round}: {}: {}", line.words, outcome.errors()));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn every_mpi_runs_every_tool() {
    let mut first: Vec<&Line> = Vec::new();
    for line in LINES {
        let tool = line.words.split(' ').next();
        if first.iter().all(|known| known.words.split(' ').next() != tool) {
            first.push(line);
        }
    }
    let installed = Mpi::installed();
    if installed.is_empty() {
        require!(Some("needs an MPI installation".to_owned()));
    }
    let failures: Vec<_> =
        installed.iter().flat_map(|mpi| differences(mpi, Way::Clients(2), &first)).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Under a launcher, the terminal that a process may find as its standard output isn't the user's.
#[test]
fn a_terminal_of_the_launcher_is_not_the_users() {
    require!(MpiKind::OpenMpi4.needed(), program!().needs_haul());
    let mpi = Mpi::find(MpiKind::OpenMpi4).unwrap();
    let sandbox = Sandbox::in_memory().unwrap();
    prepare(sandbox.path());
    for ranks in [1, 2] {
        let several = script(&sandbox, &mpi, Way::Ranks(ranks), &[]);
        let printed = |words: &str| {
            let run = TestRun::new(several.path()).args(words.split(' ')).in_folder(sandbox.path());
            let outcome = run.env("TERM", "xterm").within(Duration::from_secs(60)).finish().unwrap();
            assert!(outcome.succeeded(), "{ranks}: {words}: {}", outcome.errors());
            outcome.stdout
        };
        let shown = |file: &str, bytes: &[u8], command: &str| {
            fs::write(sandbox.join(file), bytes).unwrap();
            shell(command, sandbox.path())
        };
        let names = shown("x.tar", &printed("tar -cf - tree"), "tar -tf x.tar | sort");
        let expected = shell("find tree -type d -printf '%p/\\n' -o -print | sort", sandbox.path());
        assert_eq!(String::from_utf8_lossy(&names), String::from_utf8_lossy(&expected), "{ranks}");
        let content = shown("x.bz2", &printed("bzip2 -kc tree/c/large"), "bzip2 -dc x.bz2");
        assert!(content == fs::read(sandbox.join("tree/c/large")).unwrap(), "{ranks}");
        assert_eq!(printed("grep --color=auto word tree/c/word-1"), b"word 1\n", "{ranks}");
    }
}
