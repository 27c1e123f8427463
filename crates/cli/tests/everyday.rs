//! Sixty everyday command lines.
//!
//! They come from manuals, makefiles, install scripts, container recipes and backup scripts. A
//! shell runs each in the directory of a small project twice, with GNU cp and with the program
//! under test as `cp`. Status, output and the resulting directory must be identical: bytes, holes,
//! modes, owners, times, links, attributes.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::io;
use std::path::Path;

use haul_testkit::duel::Duel;
use haul_testkit::everything::ACCESS_ACL;
use haul_testkit::program::each_engine;
use haul_testkit::spec::{EntrySpec, PieceSpec, Spec, SpecKind, acl};
use haul_testkit::{CopyProgram, needs, note, program, require};

const LINES: [&str; 60] = [
    // Manuals.
    "cp README README.bak",
    "cp README LICENSE Makefile dest",
    "cp -v README LICENSE dest/",
    "cp -r src dest",
    "cp -R src/. dest",
    "cp -a src dest",
    "cp -av src/ dest/copy",
    "cp -i config.sample config </dev/null",
    "yes | cp -i README LICENSE config.sample backup",
    "echo n | cp -i config.sample config",
    "yes | cp -ri src/. backup",
    "cp -b config.sample config",
    "cp --backup=numbered config.sample config && cp --backup=t README config",
    "cp -S .orig -v config.sample config",
    "VERSION_CONTROL=existing SIMPLE_BACKUP_SUFFIX=.old cp -b README LICENSE Makefile backup",
    "cp --parents src/lib/list.h dest",
    "cp -t dest README LICENSE",
    "cp --attributes-only --preserve=mode,timestamps tool config",
    "cp --preserve=timestamps README dest",
    "cp -p --no-preserve=ownership tool dest",
    "cp --no-preserve=mode,ownership tool dest && cp -a --no-preserve=links home dest",
    "cp -s README dest; cp -s \"$PWD/README\" dest",
    "cp -- -file dest",
    "cp \"a file\" dest && cp 'a file' 'another file'",
    "cp --strip-trailing-slashes current/ dest; cp -P --strip-trailing-slashes current/ dest",
    "cp README",
    "cp README LICENSE missing dest; cp README LICENSE Makefile",
    // Makefiles and install scripts.
    "cp -u build/*.o dest",
    "cp -uv build/*.o dest",
    "cp -ru src/. backup",
    "cp -f ro.conf etc/ro.conf || exit 2",
    "cp -fp build/*.o dest && cp -fp build/*.o dest",
    "cp -p script.sh dest/script && cp -p tool dest",
    "cp -d src/lib/libx.so* dest",
    "cp -P src/lib/libx.so dest/ && cp -P src/lib/libx.so dest/",
    "umask 077 && cp -R src dest && cp script.sh dest",
    "for name in *.sample; do cp \"$name\" \"${name%.sample}.new\"; done",
    "test -f config || cp config.sample config; cp -n config.sample config",
    "cp -rn src/. backup",
    "cp -rT src dest/project && cp -rT src backup",
    "find src -name '*.h' -exec cp --parents {} dest \\;",
    "find src -type f -name '*.c' -print0 | xargs -0 cp -p -t dest",
    "cp --remove-destination README link-to-config && cp -r --remove-destination src/. backup",
    "cp -rf src dest && cp -rf src dest",
    "cd src && cp -rfv . ../dest",
    "cp -lf build/*.o dest",
    // Container recipes and their entry points.
    "cp -R src/* dest && cp .profile dest/.profile",
    "cp ./* dest",
    "cp -r . /nonexistent/target 2>&1",
    "cat README | cp /dev/stdin dest/readme",
    "cp /dev/null config && cp /dev/null dest/empty",
    "cp -rL current dest && cp -RH current dest/now",
    "cp --reflink=auto -r src dest && cp --sparse=never disk.img dest",
    // Backup scripts.
    "cp -Rp src home dest",
    "cp -dpR home dest/home",
    "cp -al home dest/snapshot && cp -al home dest/snapshot",
    "cp -rs \"$PWD/src\" dest",
    "cp -a --reflink=auto --sparse=always disk.img home dest",
    "cp -axv home dest && cp -auv home dest",
    "cp -a --backup=numbered src/. backup && cp -a --backup=numbered src/. backup",
];

/// Returns the standard input of a line that asks questions.
fn answers(line: &str) -> Vec<u8> {
    if line.starts_with("yes |") { b"y\n".repeat(100) } else { Vec::new() }
}

/// Builds the project. Directories count from 1: src, src/lib, build, dest, backup, backup/lib,
/// etc, home, home/.config, release, release/1.0.
fn prepare(folder: &Path) -> io::Result<()> {
    let directory = |parent, name: &str| EntrySpec::new(parent, name, SpecKind::Directory);
    let link =
        |parent, name: &str, leads_to: &str| EntrySpec::new(parent, name, SpecKind::Symlink(leads_to.into()));
    let (old, new) = (1_000_000_000, 1_400_000_000);
    let nodes = vec![
        directory(0, "src").modified(1_200_000_000, 1),
        directory(1, "lib").mode(0o750),
        directory(0, "build"),
        directory(0, "dest").mode(0o775),
        directory(0, "backup"),
        directory(5, "lib").mode(0o700),
        directory(0, "etc"),
        directory(0, "home").mode(0o700).owner(1000, 1000),
        directory(8, ".config").mode(0o2755),
        directory(0, "release"),
        directory(10, "1.0"),
        EntrySpec::file(0, "README", 1, 3000),
        EntrySpec::file(0, "LICENSE", 2, 11_000).mode(0o444),
        EntrySpec::file(0, "Makefile", 3, 700).modified(old, 3),
        EntrySpec::file(0, "config.sample", 4, 400).modified(new, 4),
        EntrySpec::file(0, "config", 5, 450).mode(0o600).owner(33, 33).modified(old, 5),
        EntrySpec::file(0, "script.sh", 6, 120).mode(0o755),
        EntrySpec::file(0, "tool", 7, 70_000).mode(0o4755),
        EntrySpec::file(0, "ro.conf", 8, 80).mode(0o444),
        EntrySpec::file(0, "a file", 9, 90),
        EntrySpec::file(0, "-file", 10, 100),
        EntrySpec::file(0, ".profile", 11, 110),
        EntrySpec::new(
            0,
            "disk.img",
            SpecKind::File(vec![
                PieceSpec::Hole(1 << 20),
                PieceSpec::Data { seed: 12, bytes: 5000 },
                PieceSpec::Zeros(1 << 18),
            ]),
        ),
        link(0, "link-to-config", "config"),
        link(0, "current", "release/1.0"),
        EntrySpec::file(1, "main.c", 20, 9000).modified(new, 20),
        EntrySpec::file(1, "util.c", 21, 4000),
        EntrySpec::file(1, "main.h", 22, 300),
        EntrySpec::file(2, "list.c", 23, 100_000).modified(new, 23),
        EntrySpec::file(2, "list.h", 24, 200).mode(0o640),
        EntrySpec::file(2, "libx.so.1.2", 25, 50_000).mode(0o755),
        link(2, "libx.so.1", "libx.so.1.2"),
        link(2, "libx.so", "libx.so.1"),
        link(1, "gone", "nowhere"),
        EntrySpec::file(3, "main.o", 30, 12_000).modified(new, 30),
        EntrySpec::file(3, "util.o", 31, 6000),
        EntrySpec::file(3, "list.o", 32, 8000).modified(old, 32),
        EntrySpec::file(4, "main.o", 33, 11_000),
        EntrySpec::file(4, "util.o", 34, 6001),
        EntrySpec::file(4, "list.o", 35, 8001).modified(new, 35).mode(0o400),
        EntrySpec::file(5, "main.c", 40, 8000).modified(old, 40),
        EntrySpec::file(5, "util.c", 41, 5000).modified(new, 41),
        EntrySpec::file(5, "README", 42, 10).mode(0o400),
        EntrySpec::file(5, "README.~1~", 43, 11),
        EntrySpec::file(5, "LICENSE", 44, 12),
        EntrySpec::file(6, "list.c", 45, 13).modified(old, 45),
        EntrySpec::file(7, "ro.conf", 50, 81).mode(0o444),
        EntrySpec::file(8, "letter", 60, 6000).mode(0o600).owner(1000, 1000).attribute("user.author", "me"),
        EntrySpec::new(8, "letter.linked", SpecKind::HardLink(36)),
        EntrySpec::file(8, "shared", 61, 600).mode(0o660).attribute(ACCESS_ACL, acl(0o660, 7, 6)),
        EntrySpec::new(8, "pipe", SpecKind::Fifo).mode(0o600),
        link(8, "to-config", ".config"),
        EntrySpec::file(9, "settings", 62, 640).mode(0o600).owner(1000, 1000),
        EntrySpec::file(11, "changes", 70, 7000),
        link(11, "readme", "../../README"),
    ];
    Spec { nodes }.build(folder)
}

#[test]
fn everyday_command_lines_do_what_they_do_with_gnu_cp() {
    require!(CopyProgram::needs_gnu(), needs::root());
    let duel = Duel::with_gnu(program!()).unwrap();
    let engines = each_engine();
    let mut failures = Vec::new();
    let mut count = 0;
    for (index, line) in LINES.iter().enumerate() {
        let duel = Duel { input: answers(line), ..duel.clone() };
        // With the automatic choice of engine, then with one engine in turn, or each of them in a
        // full run.
        let in_turn = engines.iter().skip(index % engines.len()).take(1);
        let ways: Vec<_> = if needs::is_full_run() { engines.iter().collect() } else { in_turn.collect() };
        for own in std::iter::once(&[][..]).chain(ways.into_iter().map(Vec::as_slice)) {
            let verdict = duel.run_script(&prepare, line, own).unwrap();
            assert!(!verdict.standard_hung(), "GNU cp hung: {line}");
            count += 1;
            if !verdict.complaints.is_empty() {
                failures.push(format!("{line}  {own:?}\n{}", verdict.report()));
            }
        }
    }
    note!("everyday: {} command lines, {count} runs, {} different from GNU cp", LINES.len(), failures.len());
    assert!(failures.is_empty(), "{} of {count} runs differ:\n{}", failures.len(), failures.join("\n"));
}
