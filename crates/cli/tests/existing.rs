//! Existing targets: backups, removal, prompts, updates, two names of one file, and
//! overlapping operands.
//!
//! Where the installed GNU cp knows the options, it runs alongside and everything is compared. The
//! behaviour of newer releases is spelled out here.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use haul_testkit::duel::Duel;
use haul_testkit::strace;
use haul_testkit::{CopyProgram, Release, RunOutcome, Sandbox, needs, note, program, require, rustix};

fn write(folder: &Path, name: &str, content: &str, seconds: u64) -> io::Result<()> {
    let path = folder.join(name);
    fs::write(&path, content)?;
    touch(&path, seconds)
}

fn touch(path: &Path, seconds: u64) -> io::Result<()> {
    let time: SystemTime = UNIX_EPOCH + Duration::from_secs(seconds);
    fs::File::options().append(true).open(path)?.set_modified(time)
}

/// Builds the directory that every command line starts in: old and new files, backups, hard links,
/// symbolic links, and trees to merge.
fn prepare(folder: &Path) -> io::Result<()> {
    for directory in ["d/sub", "e", "n", "m/a", "w/sub", "t/d"] {
        fs::create_dir_all(folder.join(directory))?;
    }
    for (name, content, seconds) in [
        ("a", "aaaa", 1_100_000_000),
        ("b", "bbbbbb", 1_200_000_000),
        ("a~", "a before", 1_000_000_000),
        ("ro", "ro", 1_000_000_000),
        ("num", "num", 1_150_000_000),
        ("num.~1~", "num 1", 1_000_000_000),
        ("num.~9~", "num 9", 1_000_000_000),
        ("num.~99~", "num 99", 1_000_000_000),
        ("d/x", "dx", 1_100_000_000),
        ("d/y", "dy", 1_100_000_000),
        ("d/sub/z", "dz", 1_100_000_000),
        ("e/a", "ea", 1_000_000_000),
        ("e/x", "ex", 1_300_000_000),
        ("n/a", "na", 1_500_000_000),
        ("n/d", "nd", 1_500_000_000),
        ("w/x", "wx", 1_000_000_000),
        ("w/y", "wy", 1_500_000_000),
        ("w/link", "wlink", 1_000_000_000),
        ("w/hard", "whard", 1_500_000_000),
        ("w/pipe", "wpipe", 1_000_000_000),
        ("w/sub/z", "wz", 1_000_000_000),
        ("t/d/x", "tdx", 1_000_000_000),
        ("same", "same", 1_000_000_000),
    ] {
        write(folder, name, content, seconds)?;
    }
    fs::set_permissions(folder.join("ro"), fs::Permissions::from_mode(0o444))?;
    for (name, leads_to) in [
        ("link", "a"),
        ("link2", "link"),
        ("twin", "a"),
        ("to-d", "d"),
        ("links", "e"),
        ("dangling", "nowhere"),
        ("loop", "loop"),
        ("d/link", "x"),
        ("t/d/sub", "../../e"),
    ] {
        symlink(leads_to, folder.join(name))?;
    }
    for (name, other) in [("a", "hard"), ("d/x", "d/hard"), ("same", "e/same"), ("link", "link-too")] {
        fs::hard_link(folder.join(name), folder.join(other))?;
    }
    for name in ["pipe", "d/pipe"] {
        let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o640));
        rustix::fs::mknodat(rustix::fs::CWD, folder.join(name), kind, mode, 0)?;
    }
    Ok(())
}

const BACKUPS: &str = "\
    -b a b | -b a new | -bv a b | -b a num | -v --backup=t a num | --backup=numbered a b | --backup=simple a num | -S .o \
    a b | -vS .o a b | --suffix= a b | -S d/x a b | -S x/ a b | -b --backup=none -v a b | --backup=off a b | -b a a | -b \
    a ./a | -bf a a | -bf num num | --backup=t -f num num | -bf a ./a | -b a hard | -bf a hard | -b a~ a | \
    --backup=simple a~ a | --backup=numbered a~ a | -b a link | -b link a | -b link link | -b link2 link | -bv link2 link | -b d/link to-d | -bP link a | -bd link a | -bd link a | -bd \
    link twin | -bd link link-too | -bf a link | -b dangling b | -bP dangling b | -b a dangling | -b a loop | -b a pipe \
    | -bR pipe b | -bR pipe a | -ba pipe pipe | -br d w | -brT d w | -brTv d w | -baTv d w | --backup=t -aTv d w | -bl a \
    b | -blf a b | -bl a hard | -bs a b | -bsf a b | -bsv a b | -bs d/x n | -bsv d/x n/d | -sb a a | -lb a a | -lb a \
    link | -lbd link a | --backup=bogus a b | --backup=n a b | -b a a e | -bv a a e | --backup=t a a e | --backup=t a \
    e/a n/a w | -b a e/a w | -vb d/x e/x w | --backup=t d/x e/x w | -dvb a hard e | -rb d d e | --remove-destination -b \
    a b | --remove-destination -bv a hard";

const REPLACED: &str = "\
    a b | -f a ro | -fv a ro | a ro | -f a loop | -fv a loop | -f a dangling | -f -s a b | -fsv a b | -flv a b | -lf a \
    hard | -lfd link a | -ld link a | -ld a link | -l a link | -lP link a | -lP a link | -lfP a link | -lL a link | -sL \
    a link | -sf a link | -sf link a | -s link a | -s a a | -sf a a | -sfd a link | -sfd link a | -sd a link | -sf link \
    link2 | -sf a hard | -d link link-too | -P link link-too | -d link twin | --remove-destination a b | \
    --remove-destination -v a b | --remove-destination a a | --remove-destination a hard | --remove-destination a link | \
    --remove-destination link a | --remove-destination link link2 | --remove-destination a dangling | \
    --remove-destination a loop | --remove-destination -v a ro | --remove-destination -T a d | --remove-destination -rTv \
    d w | --remove-destination -aTv d w | --remove-destination -l a b | --remove-destination -s a b | \
    --remove-destination -l a hard | --remove-destination -ld link a | --remove-destination -R pipe b | \
    --remove-destination a dangling | -r d a | -rT d a | -rT a d | -T a d | -rT d to-d | -rT d links | -rT d dangling | \
    -r t/d w | -rT d t/d | -aT d t/d | -aTv d t/d | -LrT d t/d | a e/a w | d/x e/x w | link twin n | -P link d/link w | \
    -d d/link d/link w | -P link w/link n | -dv link w/link n | -d link n/a e | -vd twin link n | -a a hard n | -d a hard e | -a a hard d e | -dv same \
    e/same w | -av same e | -dv same d/x d/hard e";

const UPDATES: &str = "\
    -u a b | -u b a | -uv b a | -u a a | -u a link | -ua a b | -ur d w | -urTv d w | -uaTv d w | -udTrv d w | -upT d w | \
    -up b a | -ub b a | -ubv b a | -ub a b | -u a missing/x | -u d w | -u -l b a | -u -s b a | -u -P link b | -u -P link \
    a | -uR pipe b | -u --preserve=links d/x d/hard w | -u --preserve=links d/hard d/x w | -uv --preserve=links d/hard \
    d/x w | -uvf a b | -u loop a | -u a loop | -n a b | -nv a b | -n a new | -nr d w | -nrTv d w | -naTv d w | -n a a | \
    -n a dangling | -nT a d | -nT d a | -nrT d a | -n a loop | -nl a b | -ns a b | -n missing b | -nR pipe b | -nu a b | \
    -in a b | -nf a b";

const OVERLAPPING: &str = "\
    -r d/. e/x w | -r e/x d/. n | -av d/. e/x w | -r d d/sub e | -r d/sub d e | -rv d/sub d e | -a d/sub d n | -rL d/sub d e | -rH d/sub d e | -r d d e | -r d d/. e | \
    -r d/. d e | -r d d/../d e | -r d/sub d d/sub e | -r d/sub to-d/ e | -rH to-d d e | -r to-d d e | -r d/sub t d w e";

/// Runs command lines alongside GNU cp, alternating between one worker and four.
fn same_as_gnu(duel: &Duel, lines: &str) {
    let mut failures = Vec::new();
    for (index, line) in lines.split('|').map(str::trim).enumerate() {
        let own: OsString = ["-j1", "-j4"][index % 2].into();
        let words: Vec<_> = line.split_whitespace().collect();
        let verdict = duel.run(&prepare, &words, &[own]).unwrap();
        assert!(!verdict.standard_hung(), "GNU cp hung on {line}: take the line out");
        if !verdict.complaints.is_empty() {
            failures.push(format!("cp {line}\n{}", verdict.report()));
        }
    }
    note!("{} command lines, {} different from GNU cp", lines.split('|').count(), failures.len());
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn duel() -> Option<Duel> {
    Duel::with_gnu(program!())
}

#[test]
fn backups_are_gnus() {
    require!(CopyProgram::needs_gnu());
    same_as_gnu(&duel().unwrap(), BACKUPS);
}

#[test]
fn what_the_environment_says_of_backups_counts() {
    require!(CopyProgram::needs_gnu());
    let lines = "-b a b | -bv a num | --backup=simple a num | -S .o a b | --backup= a b | a b";
    for (control, suffix) in
        [("numbered", ""), ("never", ".old"), ("nil", "a/b"), ("", "~~"), ("bogus", ".x"), ("n", "")]
    {
        let variables = [("VERSION_CONTROL", control), ("SIMPLE_BACKUP_SUFFIX", suffix)];
        let environment = variables.map(|(name, value)| (name.into(), value.into())).into();
        same_as_gnu(&Duel { environment, ..duel().unwrap() }, lines);
    }
}

#[test]
fn what_is_replaced_is_replaced_as_by_gnu() {
    require!(CopyProgram::needs_gnu());
    same_as_gnu(&duel().unwrap(), REPLACED);
}

#[test]
fn a_further_name_takes_the_place_of_whatever_gnu_lets_it_take() {
    require!(CopyProgram::needs_gnu());
    let names = [
        "nowhere",
        "loop",
        "to-directory",
        "to-first",
        "to-file",
        "pipe",
        "directory",
        "file",
        "first",
        "free",
    ];
    let prepare = |folder: &Path| {
        for directory in ["s", "w/directory"] {
            fs::create_dir_all(folder.join(directory))?;
        }
        write(folder, "a", "first", 1_200_000_000)?;
        names.iter().try_for_each(|name| fs::hard_link(folder.join("a"), folder.join("s").join(name)))?;
        for (name, leads_to) in [
            ("nowhere", "missing/x"),
            ("loop", "loop"),
            ("to-directory", "."),
            ("to-first", "a"),
            ("to-file", "file"),
        ] {
            symlink(leads_to, folder.join("w").join(name))?;
        }
        let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o640));
        rustix::fs::mknodat(rustix::fs::CWD, folder.join("w/pipe"), kind, mode, 0)?;
        write(folder, "w/file", "before", 1_300_000_000)?;
        fs::hard_link(folder.join("a"), folder.join("w/first"))
    };
    let duel = duel().unwrap();
    let has_answer = |options: &str, name: &str| {
        // Since 9.5, a backup moves a target of another kind out of the way.
        !(options.contains('b') && name == "directory") || duel.standard.release() >= Some(Release(9, 5))
    };
    let mut failures = Vec::new();
    let options = [
        "-a",
        "-dv",
        "-dvf",
        "-dvn",
        "-dvu",
        "-dvb",
        "-dv --remove-destination",
        "--preserve=links -v",
        "-sv",
        "-lv",
        "-lvn",
        "-av --parents",
    ];
    // Workers race for the first name; the result must not depend on who wins.
    let lines = options
        .iter()
        .flat_map(|options| names.map(|name| (options, name)))
        .cycle()
        .take(3 * options.len() * names.len());
    for (options, name) in lines.filter(|(options, name)| has_answer(options, name)) {
        let line = format!("{options} a s/{name} w");
        let verdict =
            duel.run(&prepare, &line.split_whitespace().collect::<Vec<_>>(), &["-j4".into()]).unwrap();
        if !verdict.complaints.is_empty() {
            failures.push(format!("cp {line}\n{}", verdict.report()));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn what_is_new_enough_stays_as_with_gnu() {
    require!(CopyProgram::needs_gnu());
    same_as_gnu(&duel().unwrap(), UPDATES);
}

#[test]
fn what_is_in_the_place_of_a_link_to_its_own_directory_is_the_first_obstacle() {
    require!(CopyProgram::needs_gnu());
    let prepare = |folder: &Path| {
        for directory in ["d", "w", "e/here"] {
            fs::create_dir_all(folder.join(directory))?;
        }
        symlink(".", folder.join("d/here"))?;
        write(folder, "w/here", "file", 1_000_000_000)
    };
    let duel = duel().unwrap();
    for line in ["-rLT d w", "-rLTu d w", "-rLTn d w", "-lrT d w", "-rLT d e", "-rLT d new", "-rLTv d new"] {
        let words: Vec<_> = line.split_whitespace().collect();
        let verdict = duel.run(&prepare, &words, &[]).unwrap();
        assert!(verdict.complaints.is_empty(), "cp {line}\n{}", verdict.report());
    }
}

#[test]
fn operands_that_overlap_are_refused_by_their_order() {
    require!(CopyProgram::needs_gnu());
    // Workers race, but which operands are refused must not depend on it.
    for _ in 0..5 {
        same_as_gnu(&duel().unwrap(), OVERLAPPING);
    }
}

#[test]
fn a_source_that_holds_the_target_is_read_before_others_are_copied_into_it() {
    let itself = "cp: cannot copy a directory, 'e', into itself, 'e/e'\n";
    for _ in 0..10 {
        expect("-r e n/a e", "", 1, "", itself, &[("e/a", "na"), ("e/e/a", "ea"), ("e/e/x", "ex")]);
    }
}

#[test]
fn what_is_said_of_operands_that_are_copied_in_order_comes_in_order() {
    let said = "cp: cannot copy a directory, './e', into itself, 'e/e'\n\
                cp: warning: source directory 'e' specified more than once\n";
    expect("-a ./e e e", "", 1, "", said, &[]);
}

/// Runs the program on one command line in a prepared directory, with `input` as standard input.
fn run(sandbox: &Sandbox, line: &str, input: &str) -> RunOutcome {
    let folder = sandbox.join("folder");
    if !folder.exists() {
        fs::create_dir(&folder).unwrap();
        prepare(&folder).unwrap();
    }
    let run = program!().run().args(line.split_whitespace()).in_folder(&folder);
    run.input(input.as_bytes()).umask(0o022).finish().unwrap()
}

/// Runs one command line in a new directory and checks status, output, errors and some files.
fn expect(line: &str, input: &str, status: i32, printed: &str, errors: &str, files: &[(&str, &str)]) {
    let sandbox = Sandbox::in_memory().unwrap();
    let outcome = run(&sandbox, line, input);
    let mut said = outcome.errors().replace("haul cp", "cp");
    if line.contains("--debug") {
        // The engine choice doesn't matter here.
        said = said.split_inclusive('\n').filter(|line| !line.starts_with("cp: engine ")).collect();
    }
    assert_eq!((outcome.status(), said.as_str()), (Some(status), errors), "{line}");
    assert_eq!(outcome.printed(), printed, "{line}");
    for (name, content) in files {
        let found = fs::read_to_string(sandbox.join("folder").join(name));
        assert_eq!(found.ok().as_deref(), Some(*content), "{line}: {name}");
    }
}

#[test]
fn questions_are_asked_one_by_one_and_a_no_is_a_failure() {
    let ask =
        |names: &[&str]| names.iter().map(|name| format!("cp: overwrite '{name}'? ")).collect::<String>();
    for (input, status, content) in [
        ("y\n", 0, "aaaa"),
        ("Yes, please\n", 0, "aaaa"),
        ("y", 0, "aaaa"),
        ("n\n", 1, "bbbbbb"),
        ("\n", 1, "bbbbbb"),
        (" y\n", 1, "bbbbbb"),
        ("", 1, "bbbbbb"),
    ] {
        expect("-i a b", input, status, "", &ask(&["b"]), &[("b", content)]);
    }
    expect("-i a new", "", 0, "", "", &[("new", "aaaa")]);
    let both = [("e/a", "aaaa"), ("e/x", "dx")];
    expect("-i a d/x e", "y\ny\n", 0, "", &ask(&["e/a", "e/x"]), &both);
    expect(
        "-iv a d/x e",
        "n\ny\n",
        1,
        "'d/x' -> 'e/x'\n",
        &ask(&["e/a", "e/x"]),
        &[("e/a", "ea"), ("e/x", "dx")],
    );
    expect("-i --debug a b", "n\n", 1, "skipped 'b'\n", &ask(&["b"]), &[("b", "bbbbbb")]);
    // No question about files that are not replaced anyway. The last of -i and -n wins.
    expect("-iu b a", "y\n", 0, "", &ask(&["a"]), &[("a", "bbbbbb")]);
    expect("-iu a b", "", 0, "", "", &[("b", "bbbbbb")]);
    expect("-iu b e/a", "y\n", 0, "", &ask(&["e/a"]), &[("e/a", "bbbbbb")]);
    expect("-in a b", "y\n", 0, "", "", &[("b", "bbbbbb")]);
    expect("-ni a b", "y\n", 0, "", &ask(&["b"]), &[("b", "aaaa")]);
    expect("-i --update=none a b", "y\n", 0, "", "", &[("b", "bbbbbb")]);
    expect("-ib a b", "y\n", 0, "", &ask(&["b"]), &[("b", "aaaa"), ("b~", "bbbbbb")]);
    expect("-ib a b", "n\n", 1, "", &ask(&["b"]), &[("b", "bbbbbb")]);
    expect("-il a b", "y\n", 0, "", &ask(&["b"]), &[("b", "aaaa")]);
    let same = "cp: 'a' and 'a' are the same file\n";
    expect("-i a a", "", 1, "", same, &[]);
}

#[test]
fn a_question_comes_after_all_that_was_printed_before_it() {
    let sandbox = Sandbox::in_memory().unwrap();
    let folder = sandbox.join("folder");
    fs::create_dir(&folder).unwrap();
    prepare(&folder).unwrap();
    let script = "printf 'y\\n' | \"$0\" cp -iv a d/x n e 2>&1";
    let ours = program!();
    require!(ours.needs_haul());
    let mut shell = std::process::Command::new("sh");
    let told = told_in(shell.args(["-c", script]).arg(fs::canonicalize(ours.path()).unwrap()), &folder);
    let wanted = "cp: overwrite 'e/a'? 'a' -> 'e/a'\ncp: overwrite 'e/x'? cp: -r not specified; omitting directory 'n'\n";
    assert_eq!(told, wanted);
}

fn told_in(command: &mut std::process::Command, folder: &Path) -> String {
    let output = command.env("LC_ALL", "C").current_dir(folder).output().unwrap();
    String::from_utf8(output.stdout).unwrap().replace("haul cp: ", "cp: ")
}

#[test]
fn an_answer_is_all_that_is_read_of_the_input() {
    let sandbox = Sandbox::in_memory().unwrap();
    let folder = sandbox.join("folder");
    fs::create_dir(&folder).unwrap();
    prepare(&folder).unwrap();
    fs::write(sandbox.join("answers"), "n\ny\nthe rest\n").unwrap();
    let ours = program!();
    require!(ours.needs_haul());
    let script = "{ \"$0\" cp -i a b; \"$0\" cp -i a ro; cat; } < ../answers 2>/dev/null";
    let mut shell = std::process::Command::new("sh");
    let told = told_in(shell.args(["-c", script]).arg(fs::canonicalize(ours.path()).unwrap()), &folder);
    assert_eq!(told, "the rest\n");
    assert_eq!(fs::read_to_string(folder.join("b")).unwrap(), "bbbbbb");
    assert_eq!(fs::read_to_string(folder.join("ro")).unwrap(), "aaaa");
}

#[test]
fn what_may_not_be_written_to_is_asked_about_in_other_words() {
    require!(needs::root());
    let sandbox = Sandbox::in_memory().unwrap();
    let ours = program!().publish(sandbox.path()).unwrap();
    let folder = sandbox.join("folder");
    fs::create_dir(&folder).unwrap();
    let nobody = Some(haul_testkit::run::NOBODY);
    std::os::unix::fs::chown(&folder, nobody, nobody).unwrap();
    fs::set_permissions(sandbox.path(), fs::Permissions::from_mode(0o755)).unwrap();
    for (options, words) in [
        ("-i", "cp: unwritable 'ro' (mode 0444, r--r--r--); try anyway? "),
        ("-if", "cp: replace 'ro', overriding mode 0444 (r--r--r--)? "),
        ("-i --remove-destination", "cp: replace 'ro', overriding mode 0444 (r--r--r--)? "),
    ] {
        for (name, mode) in [("a", 0o644), ("ro", 0o444)] {
            let path = folder.join(name);
            fs::remove_file(&path).unwrap_or_default();
            fs::write(&path, name).unwrap();
            std::os::unix::fs::chown(&path, nobody, nobody).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        }
        let run = ours.run().args(options.split_whitespace()).args(["a", "ro"]).in_folder(&folder);
        let outcome = run.input(b"n\n").as_nobody().finish().unwrap();
        assert_eq!(outcome.errors().replace("haul cp: ", "cp: "), words, "{options}");
        assert_eq!(outcome.status(), Some(1));
        assert_eq!(fs::read_to_string(folder.join("ro")).unwrap(), "ro");
    }
}

#[test]
fn newer_releases_of_gnu_do_so() {
    let none_fail = "cp: not replacing 'b'\n";
    expect("--update=none-fail a b", "", 1, "", none_fail, &[("b", "bbbbbb")]);
    expect("--update=none-fail a new", "", 0, "", "", &[("new", "aaaa")]);
    expect("--update=none --debug a b", "", 0, "skipped 'b'\n", "", &[("b", "bbbbbb")]);
    expect("-n --debug a b", "", 0, "skipped 'b'\n", "", &[("b", "bbbbbb")]);
    expect("-u --debug a b", "", 0, "skipped 'b'\n", "", &[("b", "bbbbbb")]);
    expect("-u --update=all a b", "", 0, "", "", &[("b", "aaaa")]);
    // A backup makes room for a directory, but not for a file.
    let two = [("n/d~", "nd"), ("n/d/x", "dx"), ("n/d/sub/z", "dz")];
    expect("-rb d n", "", 0, "", "", &two);
    expect("-bT a d", "", 1, "", "cp: cannot create regular file 'd': Is a directory\n", &[("d/x", "dx")]);
    expect(
        "-T a d",
        "",
        1,
        "",
        "cp: cannot overwrite directory 'd' with non-directory 'a'\n",
        &[("d/x", "dx")],
    );
    // A link to a directory doesn't count as one, unless --keep-directory-symlink is given.
    let refused = "cp: cannot overwrite non-directory 't/d/sub' with directory 'd/sub'\n";
    expect("-rT d t/d", "", 1, "", refused, &[("t/d/y", "dy")]);
    expect("-rT --keep-directory-symlink d t/d", "", 0, "", "", &[("e/z", "dz"), ("t/d/x", "dx")]);
    expect("-rT --keep-directory-symlink d links", "", 0, "", "", &[("e/sub/z", "dz")]);
    let exclusive = "cp: --backup is mutually exclusive with -n or --update=none-fail\n\
                     Try 'cp --help' for more information.\n";
    for line in ["-bn a b", "--backup=none --update=none a b", "-S x --update=none-fail a b"] {
        expect(line, "", 1, "", exclusive, &[("b", "bbbbbb")]);
    }
}

#[test]
fn what_was_kept_is_put_back_when_its_successor_fails() {
    // A relative symbolic link that would lead elsewhere is refused after its target was
    // moved away.
    let said = "cp: n/a: can make relative symbolic links only in current directory\n";
    expect("-sb a n", "", 1, "", said, &[("n/a", "na")]);
    let lines = "'a' -> 'n/a' (backup: 'n/a~')\n'n/a~' -> 'n/a' (unbackup)\n";
    expect("-sbv a n", "", 1, lines, said, &[("n/a", "na")]);
}

#[test]
fn numbered_backups_are_never_lost_however_many_workers_make_them() {
    let sandbox = Sandbox::in_memory().unwrap();
    let (source, target) = (sandbox.join("source"), sandbox.join("target"));
    fs::create_dir(&source).unwrap();
    // Many files have names that are backup names of others.
    let names: Vec<_> = (0..300)
        .map(|n| match n % 3 {
            0 => format!("f{n}"),
            1 => format!("f{}.~1~", n - 1),
            _ => format!("f{}.~2~", n - 2),
        })
        .collect();
    let runs = 4;
    for round in 0..runs {
        for name in &names {
            fs::write(source.join(name), format!("{round} {name}")).unwrap();
        }
        let run = program!().run_with(&["-j8"]).args(["-rT", "--backup=numbered"]).arg(&source).arg(&target);
        run.succeed().unwrap();
    }
    let mut found: Vec<_> = fs::read_dir(&target)
        .unwrap()
        .map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap())
        .collect();
    found.sort();
    let mut wanted: Vec<_> =
        (0..runs).flat_map(|round| names.iter().map(move |name| format!("{round} {name}"))).collect();
    wanted.sort();
    assert_eq!(found, wanted);
}

#[test]
fn a_file_and_its_backup_are_copied_one_after_the_other() {
    for _ in 0..20 {
        let sandbox = Sandbox::in_memory().unwrap();
        for folder in ["source", "target"] {
            fs::create_dir(sandbox.join(folder)).unwrap();
            for number in 0..40 {
                for name in [format!("f{number}"), format!("f{number}~")] {
                    fs::write(sandbox.join(folder).join(&name), format!("{folder} {name}")).unwrap();
                }
            }
        }
        let run = program!().run_with(&["-j8", "--look-ahead=4"]).args([
            "-rT",
            "--backup=simple",
            "source",
            "target",
        ]);
        run.in_folder(sandbox.path()).succeed().unwrap();
        for number in 0..40 {
            let read = |name: String| fs::read_to_string(sandbox.join("target").join(name)).ok();
            let file = (read(format!("f{number}")), read(format!("f{number}~")));
            let new = |name: &str| Some(format!("source f{number}{name}"));
            let old = |name: &str| Some(format!("target f{number}{name}"));
            // Either the file came first and its backup was itself backed up, or it came last and
            // its backup replaced the other copy.
            assert_eq!(file.0, new(""));
            assert!(file.1 == new("~") || file.1 == old(""), "{file:?}");
        }
    }
}

#[test]
fn what_is_left_out_is_never_opened() {
    require!(needs::tool("strace"));
    let sandbox = Sandbox::on_disk().unwrap();
    for folder in ["source", "target"] {
        fs::create_dir(sandbox.join(folder)).unwrap();
        for number in 0..50 {
            write(&sandbox.join(folder), &format!("file{number}"), folder, 1_000_000_000).unwrap();
        }
    }
    for (option, each) in [("-n", 1), ("-u", 2), ("--update=none-fail", 1)] {
        let run = program!().run_with(&["--engine=sync", "-j1"]).args(["-rT", option, "source", "target"]);
        let (_, calls) = strace::record(run.in_folder(sandbox.path()), "all", &sandbox.join("log")).unwrap();
        let about =
            |call: &&strace::TracedCall| call.arguments.iter().any(|argument| argument.contains("\"file"));
        let calls: Vec<_> = calls.iter().filter(about).collect();
        assert!(calls.iter().all(|call| call.name == "statx"), "{option}: {}", calls[0].line());
        assert_eq!(calls.len(), each * 50, "{option}");
    }
}

#[test]
fn a_copy_with_a_coarser_time_is_not_older() {
    // A copy on a filesystem with timestamps of one or two seconds may seem older than its source.
    // The times seen there reveal the granularity.
    let sandbox = Sandbox::in_memory().unwrap();
    write(sandbox.path(), "a", "new", 1_000_000_001).unwrap();
    write(sandbox.path(), "b", "old", 1_000_000_000).unwrap();
    let outcome = program!().run().args(["-up", "a", "b"]).in_folder(sandbox.path()).finish().unwrap();
    assert!(outcome.succeeded());
    // tmpfs has fine timestamps, so a difference of one second counts.
    assert_eq!(fs::read_to_string(sandbox.join("b")).unwrap(), "new");
    assert_eq!(fs::metadata(sandbox.join("b")).unwrap().mtime(), 1_000_000_001);
}

#[test]
fn links_take_the_places_of_files_all_at_once() {
    const FILES: usize = 500;
    let sandbox = Sandbox::in_memory().unwrap();
    let fill = |folder: &str| {
        fs::create_dir(sandbox.join(folder)).unwrap();
        let mut names = (0..FILES).map(|number| format!("file{number}"));
        names.try_for_each(|name| write(&sandbox.join(folder), &name, folder, 1_000_000_000)).unwrap();
    };
    fill("source");
    for run in 0..10 {
        let target = format!("target{run}");
        fill(&target);
        let copy = program!().run_with(&["-j8"]).args(["-rlfT", "source", &target]);
        copy.in_folder(sandbox.path()).succeed().unwrap();
        let linked = fs::read_dir(sandbox.join(&target)).unwrap();
        let linked = linked.filter(|entry| entry.as_ref().unwrap().metadata().unwrap().nlink() > 1).count();
        assert_eq!((linked, fs::read_dir(sandbox.join(&target)).unwrap().count()), (FILES, FILES));
    }
}
