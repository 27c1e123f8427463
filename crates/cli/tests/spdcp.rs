//! `spdcp` as a program: under its own name and as a command, what it copies, lists and prints.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::process::{Command, Output};

use haul_testkit::mpi::{Mpi, MpiKind};
use haul_testkit::{program, require};

/// Creates a directory with the program under the name `spdcp`, and a tree to copy.
fn ground() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    symlink(program!().path(), folder.path().join("spdcp")).unwrap();
    let source = folder.path().join("source");
    fs::create_dir_all(source.join("below/empty")).unwrap();
    fs::write(source.join("below/file"), "content").unwrap();
    fs::write(source.join("a b"), "").unwrap();
    symlink("nowhere", source.join("link")).unwrap();
    fs::write(folder.path().join("lone"), "lone").unwrap();
    folder
}

fn spdcp(folder: &Path, words: &[&str]) -> Output {
    Command::new(folder.join("spdcp"))
        .args(words)
        .current_dir(folder)
        .env("LC_ALL", "C")
        .env_remove("HAUL_AGENT")
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn it_copies_a_tree_and_keeps_times() {
    require!(program!().needs_haul());
    let folder = ground();
    let output = spdcp(folder.path(), &["-rpv", "source", "target"]);
    assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("'source/below/file' -> 'target/below/file'\n"));
    let times = |name: &str| fs::symlink_metadata(folder.path().join(name)).unwrap().mtime_nsec();
    assert_eq!(times("source/below/file"), times("target/below/file"));
    assert_eq!(fs::read_link(folder.path().join("target/link")).unwrap(), Path::new("nowhere"));
}

#[test]
fn several_sources_go_into_a_directory_and_nowhere_else() {
    require!(program!().needs_haul());
    let folder = ground();
    fs::create_dir(folder.path().join("into")).unwrap();
    assert!(spdcp(folder.path(), &["-r", "lone", "source", "into"]).status.success());
    assert!(
        folder.path().join("into/source/below/file").exists() && folder.path().join("into/lone").exists()
    );
    let refused = spdcp(folder.path(), &["lone", "source/a b", "missing"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).starts_with("spdcp: target 'missing': No such file or directory\n"));
}

#[test]
fn targets_are_listed_and_nothing_is_made() {
    require!(program!().needs_haul());
    let folder = ground();
    let output = spdcp(folder.path(), &["-dr", "source", "lone", "."]);
    // Copying onto themselves is no error here: -d copies nothing.
    assert!(output.status.success(), "{}", text(&output.stderr));
    let listed = spdcp(folder.path(), &["-d", "-r", "source/", "target"]);
    assert!(listed.status.success() && listed.stderr.is_empty());
    let wanted = "target\n'target/a b'\ntarget/below\ntarget/below/empty\ntarget/below/file\ntarget/link\n";
    assert_eq!(text(&listed.stdout), wanted);
    assert!(!folder.path().join("target").exists());
    // The list matches what a copy creates.
    let copied = spdcp(folder.path(), &["-rv", "source/", "target"]);
    let mut made: Vec<_> = text(&copied.stdout)
        .lines()
        .map(|line| line.split(" -> ").nth(1).unwrap().replace('\'', ""))
        .collect();
    made.sort();
    let mut listed: Vec<_> = wanted.lines().map(|line| line.replace('\'', "")).collect();
    listed.sort();
    assert_eq!(made, listed);
}

#[test]
fn what_cannot_be_copied_is_not_listed() {
    require!(program!().needs_haul());
    let folder = ground();
    for (words, complaint) in [
        (&["-d", "source", "target"][..], "spdcp: -r not specified; omitting directory 'source'\n"),
        (&["-d", "missing", "target"], "spdcp: cannot stat 'missing': No such file or directory\n"),
        (&["-d", "lone", "source", "lone"], "spdcp: target 'lone': Not a directory\n"),
        (
            &["-d", "lone"],
            "spdcp: missing destination file operand after 'lone'\nTry 'spdcp --help' for more information.\n",
        ),
        (&["-d"], "spdcp: missing file operand\nTry 'spdcp --help' for more information.\n"),
    ] {
        let listed = spdcp(folder.path(), words);
        let copied = spdcp(
            folder.path(),
            &words.iter().map(|word| if *word == "-d" { "--" } else { word }).collect::<Vec<_>>(),
        );
        for output in [listed, copied] {
            assert_eq!(output.status.code(), Some(1), "{words:?}");
            assert_eq!(
                (text(&output.stdout).as_str(), text(&output.stderr).as_str()),
                ("", complaint),
                "{words:?}"
            );
        }
    }
}

#[test]
fn the_versions_of_command_and_agent_are_reported() {
    require!(program!().needs_haul());
    let folder = ground();
    let version = env!("CARGO_PKG_VERSION");
    let own = text(&spdcp(folder.path(), &["-V"]).stdout);
    assert!(own.starts_with(&format!("spdcp (haul {version})\nagent: haul {version}\nMPI: ")), "{own}");
    let agent = |agent: &str| {
        let output =
            Command::new(program!().path()).args(["spdcp", "-V"]).env("HAUL_AGENT", agent).output().unwrap();
        assert!(output.status.success());
        text(&output.stdout).lines().nth(1).unwrap().to_owned()
    };
    assert!(agent("true").starts_with("agent: true (GNU coreutils)"), "{}", agent("true"));
    assert_eq!(agent("/no/such/agent"), "agent: /no/such/agent: No such file or directory (os error 2)");
}

/// `-V` names the MPI whose launcher comes first on `PATH`.
#[test]
fn the_mpi_that_would_be_used_is_named() {
    require!(program!().needs_haul());
    let found = [(MpiKind::OpenMpi5, "Open MPI v5."), (MpiKind::Mpich5, "MPICH Version")];
    require!(found.iter().find_map(|(kind, _)| kind.needed()));
    for (kind, name) in found {
        let launcher = Mpi::find(kind).unwrap().launcher().to_owned();
        let mut path = launcher.parent().unwrap().as_os_str().to_owned();
        path.push(":/usr/bin:/bin");
        let output =
            Command::new(program!().path()).args(["spdcp", "-V"]).env("PATH", path).output().unwrap();
        let told = text(&output.stdout);
        assert!(told.contains(&format!("\nMPI: {name}")), "{told}");
        let folder = launcher.parent().unwrap().display();
        assert!(told.contains(&format!("\nlauncher: {folder}/mpirun\n")), "{told}");
    }
}

#[test]
fn help_names_the_program_as_it_was_called() {
    require!(program!().needs_haul());
    let folder = ground();
    let by_name = spdcp(folder.path(), &["-h"]);
    assert!(text(&by_name.stdout).starts_with("Usage: spdcp [options] SRC DEST\n"));
    for words in [&["spdcp", "-h"][..], &["help", "spdcp"]] {
        let output = Command::new(program!().path()).args(words).output().unwrap();
        assert!(text(&output.stdout).starts_with("Usage: haul spdcp [options] SRC DEST\n"));
    }
    let wrong = Command::new(program!().path()).args(["spdcp", "-z"]).output().unwrap();
    assert_eq!(wrong.status.code(), Some(1));
    assert_eq!(
        text(&wrong.stderr),
        "haul spdcp: invalid option -- 'z'\nTry 'haul spdcp --help' for more information.\n"
    );
}
