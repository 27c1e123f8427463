//! Cases from the test suites of other `cp` implementations, alongside GNU cp: uutils coreutils,
//! busybox, toybox.
//!
//! Only the situations come from their tests; the lines are our own. Each line creates its files in
//! an empty directory and runs `cp` there, as root and as an unprivileged user, with GNU cp and
//! with the program under test. Status, output and the resulting directory must match.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;

use haul_testkit::duel::Duel;
use haul_testkit::message::normalise;
use haul_testkit::mount::Mount;
use haul_testkit::rustix::fs::{XattrFlags, setxattr};
use haul_testkit::{CopyProgram, Sandbox, needs, note, program, require, skip};

const LINES: &[&str] = &[
    // The same source twice, under one or several spellings, and other sources of that name.
    "echo a >a; mkdir d; cp a ./a d; cp \"$PWD/a\" a d",
    "echo a >a; mkdir d; cp --backup a a d; cp --backup=numbered a ./a d; ls d",
    "mkdir x y d; echo 1 >x/a; echo 2 >y/a; cp x/a y/a d; cp -b x/a y/a d; cp --backup=t x/a y/a d",
    "mkdir -p x/d y/d t; echo 1 >x/d/1; echo 2 >y/d/2; cp -r x/d y/d t",
    "mkdir -p x/d y/d t; echo 1 >x/d/f; echo 2 >y/d/f; cp -r x/d y/d t; cp -r --backup x/d y/d t",
    "mkdir d t; echo 1 >d/f; cp -rv d d d t; cp -r d ./d d/ t",
    "mkdir x y d; ln -s ../nowhere x/f; echo 2 >y/f; cp -P x/f y/f d; cp -dR y/f x/f d",
    // An unreadable source together with a bad target.
    "echo a >a; chmod 0 a; mkdir -p i/a d; cp a a; cp -r a .; cp a ./a; cp -v a i; cp -rf a i; cp a new/; cp -a a a/; ls -l --time-style=+ i",
    "echo a >a; chmod 0 a; echo b >b; cp -n a b; cp -u a b; cp -b a a; cp --backup=simple a b; cp a a/x; cp -v a d//; ls",
    "echo a >a; chmod 0 a; mkdir -p i/a; cp -v --attributes-only a b; cp -v --attributes-only -p a i; cp -va --attributes-only a c; ls -l --time-style=+ . i",
    "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"s\")'; mkdir -p d i/s; cp -rv --copy-contents --attributes-only s d; cp -v --attributes-only s e; cp -v --copy-contents s i; cp -v s f; ls d i",
    // Empty names.
    "echo a >a; cp '' b; cp a ''; cp -r '' b; cp -T a ''; cp '' ''",
    "echo a >a; mkdir d; cp a '' d; cp '' a d; cp -t '' a; cp -t d ''; cp --parents '' d",
    // Prompts.
    "echo a >a; echo b >b; chmod 444 b; echo n | cp -vfi a b; echo y | cp -vfi a b; cp -i a b </dev/null",
    "echo a >a; echo b >b; touch -d 2001-01-01 a; echo y | cp -iu a b; echo n | cp -ui b a; cat a b",
    "mkdir -p a b; for f in one two three; do echo $f >a/$f; : >b/$f; done; yes n | cp -ri a/. b",
    "echo a >a; echo b >b; echo n | cp -nib a b; echo n | cp -in a b; echo n | cp -ni a b; cat b",
    // Updates.
    "echo a >a; echo b >b; touch -d 2001-01-01 b; cp -uv a b; cp -uv a b; cat b; touch -d 2000-01-01 a; cp -uv a b",
    "echo a >a; echo b >b; touch -d @1e9 a b; cp -uv a b; cat b; cp -u --preserve=timestamps a new; cp -uv a new",
    "mkdir -p a/d b/d; echo 1 >a/d/f; echo 2 >b/d/f; touch -d 2000-01-01 b/d/f; cp -ruv a/. b; cat b/d/f",
    "echo a >a; ln -s a l; touch -hd 2000-01-01 l; echo b >b; cp -uP l b; cp -u l b; ls -l b | cut -c1",
    // Backups.
    "echo a >a; echo b >b; cp -b -S '' a b; cp -b --suffix=-x a b; cp -S .x a b; cp --suffix=/x -b a b; ls",
    "echo a >a; echo b >b; SIMPLE_BACKUP_SUFFIX=.s cp -b a b; SIMPLE_BACKUP_SUFFIX= cp -b a b; ls",
    "echo a >a; echo b >b; for v in none off nil existing simple never t numbered bogus; do VERSION_CONTROL=$v cp -b a b; ls; done",
    "echo a >a; echo b >b; for v in none off nil existing simple never t numbered bogus; do cp --backup=$v a b; ls; done",
    "echo a >a; echo b >b; : >b.~1~; cp --backup=nil a b; : >b.~9~; cp --backup=existing a b; ls",
    "echo a >a; mkfifo b; cp -b a b; ls -l | cut -c1",
    "echo b >b; echo old >b~; cp -b b~ b; cp -b ./b~ b; cp --backup=simple b~ ./b; cat b b~",
    "echo b >b; echo old >b~; ln b~ other; cp -b other b; cat b b~ other",
    "echo b >b; echo 1 >b.~1~; cp --backup=numbered b.~1~ b; ls; cat b",
    "echo a >a; ln -s a l; cp -b a l; ls -l | cut -c1; cat a",
    "echo a >a; echo b >b; ln -s b l; cp -b a l; cp -b --remove-destination a l; ls -l | cut -c1; cat b l",
    "echo a >a; ln -s nowhere l; cp -b a l; cp -bf a l; cp -bP l a; ls",
    "echo a >a; cp -b a a; cp -f a a; cp -bf a a; cp -l -b a a; cp -lf a a; cp --backup=t -f a ./a; ls",
    "echo a >a; echo b >b; cp -lb a b; cp -lb a b; cp -sb a b; cp -sb a b; ls",
    "mkdir d e; echo 1 >d/f; echo 2 >e/f; cp -rb d/. e; cp -r --backup=t d/. e; cp -rb d e; cp -rb d e; ls e e/d",
    // Links, and which of them are followed.
    "mkdir d; echo a >d/f; ln -s f d/l; ln -s d s; for o in -RHL -RLH -RHP -RPL -aL -La -aH -Ha -dL -Ld; do cp $o s new$o; done",
    "echo a >a; ln a b; ln -s a l; mkdir d e f; cp -L --preserve=links a b l d; cp -d a b l e; cp -H -d a b l f; ls -l d e f | cut -c1-15",
    "mkdir d; echo a >d/a; ln -s a d/l; ln d/a d/h; cp -rL --preserve=links d new; cp -r d copy; cp -aL d all; stat -c %h new/* copy/* all/*",
    "mkdir d o; : >o/f; ln -s ../o d/o; ln -s nowhere d/n; cp -rL d new; cp -rH d two; cp -r d three; ls new two three",
    "mkdir d; ln -s b d/a; ln -s a d/b; cp -r d new; cp -rL d two; cp -P d/a x; cp d/a y",
    "mkdir d; ln -s . d/self; cp -r d new; cp -rP d two; cp -rL d/self three 2>/dev/null; test -e new/self",
    "mkdir -p s/d t o; echo 1 >s/d/f; ln -s ../o t/d; cp -r s/. t; cp -rf s/. t; cp -r --remove-destination s/. t; ls o t",
    "mkdir -p s/d o; echo 1 >s/d/f; ln -s o t; cp -r s t; cp -r s/. t; cp -r s t/; cp -rT s t; ls o",
    "echo a >a; ln -s b l; cp a l; POSIXLY_CORRECT=1 cp a l; cat b; rm b; cp -f a l; cp --remove-destination a l; ls -l | cut -c1",
    "echo a >a; ln -s a l; echo b >b; cp -P l b; cp -d l b; cp -P b l; cp -dl l b; ls -l | cut -c1",
    "ln -s one l; ln -s two m; cp -d l m; cp -P l m; readlink m; cp -df l m; readlink m; cp -dfb l m; ls",
    "ln -s x l; ln -s x m; cp -P l m; ln l n; cp -P l n; cp -P l l; cp -Pf l l; cp -P --remove-destination l l; ls",
    "echo a >a; ln -s \"$PWD/a\" l; cp --remove-destination a l; cp --remove-destination l a; cp --remove-destination ./a a; ls",
    "echo a >a; ln a b; cp --remove-destination a b; stat -c %h a; ln -s l l; cp --remove-destination a l; cp l n; cat l",
    "mkdir d; ln -s l d/l; cp -r d/l new; cp -rf d/l d; cp d/l d/l; cp -s d/l x; cp -l d/l y; ls",
    "mkdir d; echo a >d/f; ln -s d l; cp -rs \"$PWD/d\" new; cp -rs d two; cp -s d three; cp -rl l four; cp -rlL l five; ls -lR new four five | cut -c1",
    "mkdir a b; echo x >a/f; ln -s a/f b/l; cp -l b/l c; cp -lL b/l d; cp -rL b e; cp -l a/f b/l; cp -lf a/f b/l",
    "echo a >a; ln -s a l; chmod 604 a; cp -P --preserve=mode l n; cp -a l b; cp --preserve=mode l c; stat -c '%A %N' n b c",
    // Directories.
    "mkdir d; echo 1 >d/f; cd d; cp -r . ../new; cp -r . ../new; cp -r ./ ../two/; cp -rv . ..; ls -R ..",
    "mkdir -p d/e; echo 1 >d/e/f; cp -rv d/. new; cp -rv d/e/.. two; cp -rv d/e/../e/ three; cp -r d//e// four//; ls",
    "mkdir d; echo 1 >d/f; : >x; cp -r d x; cp -r x d; cp -rT x d; cp -rf d x; mkdir d/x; cp x d; cp -r x d; cp d x",
    "mkdir -p one/two/three; : >one/two/three/f; cp -r \"$PWD/one\" d; cp -r one/. d; cp -r one/* d; cp -pr one/ e; cp -pr one/. e; ls -R d e",
    "mkdir d e; : >d/f; cp -t e d; cp -rt e d d/f; cp -t e; cp -r -t e/missing d; cp -rT d e; cp -T d; cp -T d e f",
    "mkdir d; chmod 2750 d; : >d/f; cp -r d a; cp -r --no-preserve=mode d b; cp -a d c; cp -p d e; cp -r --preserve=mode d f; umask 77; cp -r d g",
    "mkdir d; echo 1 >d/f; chmod 500 d; cp -r d a; cp -rp d b; cp -a d b; cp -r d/. b; umask 777; cp -r d c; stat -c %A a b c; chmod -R 700 .",
    "mkdir -p d/s; echo 1 >d/s/f; chmod 0 d/s; cp -r d a; cp -a d b; chmod 700 d/s; chmod 0 d/s/f; cp -r d c; cp -a d e; chmod -R 700 .",
    "mkdir d e; : >d/1; chmod 0 e; cp d/1 e; cp -r d e; cp -rf d/. e; cp -t e d/1; chmod 700 e; ls -R",
    "mkdir d e; : >d/1; chmod 500 e; cp d/1 e; cp -r d e; cp -r d e/new; cp -b d/1 e; cp -P d/1 e/n/n; chmod 700 e",
    "mkdir a b; echo 1 >'a/end\\'; echo 2 >'a/new\nline'; echo 3 >'a/ sp '; cp -rv a/. b; cp -rv a new",
    "f=$(printf 'x\\377y'); echo 1 >\"$f\"; mkdir \"d$f\"; cp -v \"$f\" new; cp -v \"$f\" \"d$f\"; cp -rv \"d$f\" \"e$f\"; cp \"$f\" \"d$f/no/$f\"",
    // `--parents`.
    "mkdir -p a/b/c t; echo 1 >a/b/c/f; chmod 750 a; chmod 2711 a/b; cp --parents a/b/c/f t; cp -p --parents a/b/c/f t; cp -r --parents a/b t",
    "mkdir -p a/b t u; echo 1 >a/b/f; ln -s a l; cp --parents l/b/f t; cp -P --parents l/b/f u; cp -r --parents l u; cp -rP --parents l/b t",
    "mkdir -p a/b t; echo 1 >a/b/f; cp --parents \"$PWD/a/b/f\" t; ls t$PWD/a/b >/dev/null; cp --parents a/b/../b/f t; cp -r --parents a/b/. a/b/.. t; rm -rf t/*",
    "mkdir -p a/b t; echo 1 >a/b/f; echo x >t/a; cp --parents a/b/f t; cp --parents a/b/f a; cp --parents a/b/f new; cp --parents a/b t",
    // File permissions.
    "echo a >a; echo b >b; chmod 0 b; cp a b; cp -f a b; chmod 0 a; cp a n; cp -f a b; cp -l a m; chmod 600 a b; ls",
    "echo a >a; chmod 444 a; cp a b; cp a b; cp -p a c; cp -a a c; cp --reflink=auto a c; cp -f a c; cp --attributes-only a c; stat -c %A b c",
    "echo a >a; chmod 6755 a; cp a b; cp -p a c; cp --preserve=mode a d; cp --no-preserve=mode -p a e; cp -p --no-preserve=mode a f; stat -c '%A' b c d e f",
    "echo a >a; echo b >b; chmod 600 a; chmod 664 b; umask 27; cp a b; cp --preserve=mode a b; cp --no-preserve=mode a n; cp --preserve=timestamps a o; stat -c %A *",
    "echo a >a; for p in mode,mode links,mode all,timestamps ,mode mode, m timestamps,x; do cp --preserve=$p a b; cp --no-preserve=$p a b; done",
    "echo a >a; touch -d 2001-01-01 a; cp --preserve --no-preserve=timestamps a b; cp --no-preserve=timestamps -p a c; cp -a --no-preserve=timestamps a d; cp --preserve=timestamps --preserve=mode a e",
    "echo a >a; cp -p a b c; cp --preserve a b c; cp --preserve=mode; cp --preserve a; cp --preserve=mode a",
    // No data, or special files.
    "echo a >a; echo b >b; ln -s b l; cp --attributes-only a l; cp --attributes-only -P l n; cp -a --attributes-only -f l b; cat b; ls -l | cut -c1",
    "echo a >a; ln -s no l; ln -s l m; cp --attributes-only a l; cp -Pf --attributes-only l m; cp -a --attributes-only --remove-destination l a; ls -l | cut -c1",
    "echo a >a; cp --attributes-only a a; cp --attributes-only a ./a; cp --attributes-only a d/; cp --attributes-only a no/b; mkdir r; chmod 500 r; cp --attributes-only a r; chmod 700 r",
    "mkfifo -m 620 p; cp -r p q; cp -rp p r; cp -a p q; cp -rl p s; cp -al p t; cp -rn p q; stat -c '%F %A' q r s t",
    "mkfifo p; echo data >p & cp p b; cat b; echo more >p & cp -r --copy-contents p c; cat c; wait",
    "cp /dev/null a; cp -r --copy-contents /dev/null b; cp -f /dev/null a; cp -p --no-preserve=all /dev/null c; stat -c '%F %s' a b c",
    "cp -r /dev/null n; cp -a /dev/null /dev/zero . ; stat -c '%F %t %T' n null zero; cp -r /dev/zero n; rm -f n null zero",
    "echo a >a; cp a /dev/full; cp a /dev/null; cp -v a b >/dev/full; cp -f a /dev/null; cp a /dev/null/b",
    "echo in | cp /dev/stdin a; cp /dev/fd/0 b <a; (umask 0; echo x | cp /dev/stdin c; echo x | cp -p --no-preserve=all /dev/stdin d); stat -c '%A %s' a b c d",
    "cp /proc/version a; cmp a /proc/version; cp --sparse=always /proc/version b; cp --sparse=never /proc/version c; cmp b c; cp -r /proc/version d; cmp c d; rm a b c d",
    "truncate -s 1M a; for s in auto always never; do cp --sparse=$s a $s; stat -c '%s' $s; done; : >e; cp --sparse=always e f; cp --sparse=never e f",
    // Contradictory options.
    "echo a >a; cp --reflink=always --sparse=always a b; cp --reflink=always --sparse=never a b; cp --reflink=always --reflink=never a b; cp --reflink=never --sparse=never --reflink=auto a c; ls",
    "echo a >a; echo b >b; cp -bn a b; cp --backup=none -n a b; cp -nb a b; cp -n --backup=t a b; cp -ns a b; cat b",
    "mkdir d e; echo a >a; cp -t d -T a; cp -T -t d a; cp -t d -t e a; cp -t; cp -T; cp -t d -r; cp --target-directory= a; cp --target-directory a",
    "echo a >a; echo b >b; cp -fni a b; echo y | cp -nfi a b; cp -f --remove-destination a b; cp -if a b </dev/null; cat b",
    "echo a >a; ln -s a l; cp --strip-trailing-slashes l/ b; cp l/ c; cp -P --strip-trailing-slashes l/ d; cp a/ e; cp -r --strip-trailing-slashes a/ f; ls",
];

/// Prints each status, not only the last, except after prompts, where releases of GNU cp differ.
const STATUS: &str = r#"
    cp() {
        command cp "$@"
        status=$?
        case $1 in -[!-]*i* | -i*) ;; *) echo "status $status" ;; esac
    }
"#;

/// Runs a line as an unprivileged user who owns the directory.
const AS_USER: &str =
    "chown 65534:65534 . && exec setpriv --reuid=65534 --regid=65534 --clear-groups bash -c \"$LINE\"";

#[test]
fn what_other_suites_try_ends_as_with_gnu_cp() {
    require!(CopyProgram::needs_gnu(), needs::root());
    let tools = Sandbox::on_disk().unwrap();
    fs::set_permissions(tools.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let duel = Duel::with_gnu(program!().publish(tools.path()).unwrap()).unwrap();
    let mut failures = Vec::new();
    for line in LINES {
        for (who, script) in [("root", "exec bash -c \"$LINE\""), ("a user", AS_USER)] {
            // Each status is printed. The overall one says nothing, and varies after prompts.
            let line = format!("{STATUS}\n{line}\nfalse");
            let environment = vec![(OsString::from("LINE"), OsString::from(&line))];
            let verdict = Duel { environment, ..duel.clone() }.run_script(&|_| Ok(()), script, &[]).unwrap();
            assert!(!verdict.standard_hung(), "GNU cp hung: {line}");
            if !verdict.complaints.is_empty() {
                failures.push(format!("{who}: {line}\n{}", verdict.report()));
            }
        }
    }
    note!("other suites: {} lines, {} runs different from GNU cp", LINES.len(), failures.len());
    assert!(failures.is_empty(), "{} runs differ:\n{}", failures.len(), failures.join("\n"));
}

/// On a target without extended attributes, each file gets at most one message, however many
/// attributes it has, and none if they don't matter.
#[test]
fn attributes_that_a_file_system_refuses_are_one_message() {
    require!(CopyProgram::needs_gnu(), needs::root());
    let (gnu, ours) = (CopyProgram::gnu().unwrap(), program!());
    let sandbox = Sandbox::on_disk().unwrap();
    let source = sandbox.join("source");
    fs::create_dir(&source).unwrap();
    fs::write(source.join("file"), "data").unwrap();
    for (path, key) in [("", "user.one"), ("file", "user.two"), ("file", "user.three")] {
        if setxattr(source.join(path), key, b"value", XattrFlags::empty()).is_err() {
            skip!("needs a file system with extended attributes for the tests' folders");
        }
    }
    let target = Mount::without_attributes().unwrap();
    for options in [
        "-a",
        "-rp",
        "-a --preserve=xattr",
        "-rp --preserve=xattr",
        "-a --attributes-only",
        "-r --preserve=all",
    ] {
        let mut results = Vec::new();
        for program in [&gnu, &ours] {
            let run = program.run().args(options.split(' ')).arg("source").arg(target.join("copy"));
            let outcome = run.in_folder(sandbox.path()).finish().unwrap();
            results.push((outcome.ending, normalise(&outcome.stderr)));
            fs::remove_dir_all(target.join("copy")).unwrap();
        }
        assert_eq!(results[1], results[0], "{options}");
    }
}
