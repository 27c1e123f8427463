//! What a killed run leaves under temporary names, whatever kind of entry it is, the next run
//! removes.

use std::ffi::OsString;

use haul_testkit::{
    CopyProgram, Facts, RunOutcome, Sandbox, Snapshot, TestRun, compare, needs, program, require,
};

use super::{TEMPORARY, ended_name};

/// Every kind of entry in the place of another one. The copy is of type `new`, what it replaces of
/// type `old`; of the hard links all names exist.
const SCENE: &str = "
    rm -rf s t kept; mkdir -p s/d t/d kept/d; echo new >s/d/file; echo old >t/d/file; echo older >kept/d/file
    ln -s new s/d/link; ln -s old t/d/link; ln -s older kept/d/link; ln -s old t/d/fifo; mkfifo s/d/fifo
    for n in s/d/1 s/d/2 s/3; do test -e s/d/1 && ln s/d/1 $n || echo new >$n; echo old >t/${n#s/}; done
    touch -h -d 2001-01-01 t/d/* kept/d/*";

/// A command whose run with number `at` of the call ends before that.
fn killed(ours: &CopyProgram, sandbox: &Sandbox, words: &[&str], call: &str, at: usize) -> RunOutcome {
    let (trace, log) = (format!("trace={call}"), sandbox.join("log"));
    let inject = format!("inject={call}:signal=KILL:when={at}");
    let head = ["-f", "-qq", "-e", &trace, "-e", &inject, "-o", log.to_str().unwrap(), "--"];
    let strace = needs::find_tool("strace").unwrap();
    run(ours, sandbox, words).behind(&strace, head.map(OsString::from).into()).finish().unwrap()
}

fn run(ours: &CopyProgram, sandbox: &Sandbox, words: &[&str]) -> TestRun {
    TestRun::new(ours.path()).args(words).in_folder(sandbox.path())
}

fn leftovers(sandbox: &Sandbox) -> Vec<String> {
    let found = Snapshot::take(sandbox.path(), Facts::empty()).unwrap();
    let names = found.entries().keys().map(|name| String::from_utf8_lossy(name).into_owned());
    names.filter(|name| name.contains(TEMPORARY)).collect()
}

#[test]
fn nothing_of_any_type_is_left_after_the_next_run() {
    let ours = program!();
    require!(ours.needs_haul(), needs::tool("strace"));
    for words in [
        ["sync", "-j1", "s", "t"].as_slice(),
        &["sync", "-j1", "--inplace", "s", "t"],
        &["sync", "-j1", "--backup-dir=../kept", "s", "t"],
        &["cp", "-a", "--atomic", "-j1", "-T", "s", "t"],
        &["cp", "-a", "--resume", "-j1", "-T", "s", "t"],
    ] {
        let sandbox = Sandbox::in_memory().unwrap();
        let mut seen = 0;
        // Each is made under its temporary name before one of these calls, and gone after another.
        for call in ["renameat", "renameat2", "unlinkat"] {
            for at in 1.. {
                sandbox.script(SCENE).unwrap();
                let ending = killed(&ours, &sandbox, words, call, at);
                let left = leftovers(&sandbox);
                if ending.succeeded() {
                    assert_eq!(left, Vec::<String>::new(), "{words:?}");
                    break;
                }
                assert!(ending.status().is_none() && at < 100, "{words:?}: {}", ending.errors());
                seen += left.iter().filter(|name| !name.contains(".haul-resume-")).count();
                let again = run(&ours, &sandbox, words).finish().unwrap();
                let context = format!("{words:?}, after {call} {at} with {left:?}");
                assert!(again.succeeded(), "{context}: {}", again.errors());
                assert_eq!(leftovers(&sandbox), Vec::<String>::new(), "{context}");
                let facts = Facts::CONTENT | Facts::LINKS;
                let differences = compare::compare_paths(&sandbox.join("s"), &sandbox.join("t"), facts);
                assert!(differences.as_ref().unwrap().is_empty(), "{context}: {differences:?}");
            }
        }
        assert!(seen > 1, "{words:?}: the runs were not killed while anything had a temporary name");
    }
}

#[test]
fn a_copied_file_stays_whatever_its_name_is() {
    let ours = program!();
    require!(ours.needs_haul());
    let sandbox = Sandbox::in_memory().unwrap();
    let name = ended_name();
    let script =
        format!("mkdir -p s/d other/d; echo content >s/{name}; echo content >s/d/{name}; echo o >other/d/o");
    sandbox.script(&script).unwrap();
    let file = format!("s/{name}");
    for (words, copies, is_swept) in [
        (["sync", "s", "t"].as_slice(), vec![format!("t/{name}"), format!("t/d/{name}")], true),
        (&["cp", "-aT", "--atomic", "s", "t"], vec![format!("t/{name}"), format!("t/d/{name}")], true),
        (&["cp", "-a", "--atomic", "s/d", "t"], vec![format!("t/d/{name}")], false),
        (&["cp", "-a", "--atomic", &file, "t"], vec![format!("t/{name}")], false),
        (&["cp", "-a", "--atomic", "s/d", "other/d", "t"], vec![format!("t/d/{name}")], false),
    ] {
        sandbox.script(&format!("rm -rf t; mkdir -p t/d; echo old >t/d/{name}")).unwrap();
        // A leftover that the source doesn't have goes in the same run.
        let other = format!("t/{}-7", name.rsplit_once('-').unwrap().0);
        std::fs::write(sandbox.join(&other), "left").unwrap();
        run(&ours, &sandbox, words).succeed().unwrap();
        for copy in copies {
            let content = std::fs::read_to_string(sandbox.join(&copy)).unwrap_or_default();
            assert_eq!(content, "content\n", "{words:?}: {copy}");
        }
        assert_eq!(sandbox.join(&other).exists(), !is_swept, "{words:?}: {other}");
    }
}

/// Where a name that looks left behind is a source, or may be one, it stays: after a copy, one that
/// fails, and one that has nothing to do.
#[test]
fn a_source_stays_whatever_its_name_is() {
    let ours = program!();
    require!(ours.needs_haul());
    // `N` stands for the name. The files that must stay have the content `precious`.
    for (script, words, stays) in [
        ("echo old >f", "cp --atomic -n N f", "N"),
        ("echo old >f; touch -d 2001-01-01 N", "cp --atomic -u N f", "N"),
        ("echo old >f", "cp --journal=J -n N f", "N"),
        ("echo old >f; ln f g", "cp --atomic N f", "N"),
        ("", "cp --atomic -s N f", "N f"),
        ("", "cp --atomic N f", "N f"),
        ("ln -s N l", "cp --atomic l f", "N f"),
        ("mkdir d", "cp --atomic --parents N d", "N d/N"),
        // The directory above the target, and the target, are in the source.
        ("mkdir -p p/d; cp N p; cp N p/d", "sync --exclude=/d --exclude=.haul* p p/d", "p/N"),
        ("mkdir -p p/s p/d; cp N p", "sync p/s p/d", "p/N"),
        ("mkdir -p s/d; cp N s/d", "cp -rT --atomic s s/d", "s/d/N"),
        ("mkdir -p s/d/s; cp N s/d; cp N s/d/s", "cp -r --atomic s s/d", "s/d/N s/d/s/N"),
        // The source is in the target.
        ("mkdir -p t/s/s; cp N t/s", "cp -rT --atomic --exclude=.haul* t/s t", "t/s/N"),
        // Excluded entries stay on both sides.
        ("mkdir s d; cp N s; cp N d", "cp -r --atomic --exclude=.haul* s/. d/", "s/N d/N"),
        ("mkdir s d; cp N s; cp N d", "cp -rT --atomic --exclude=.haul* s d", "s/N d/N"),
        // Several directories are copied onto one.
        ("mkdir a b t; echo x >b/N; cp N t", "cp -rn --atomic a/. b/. t", "t/N"),
        (
            "mkdir -p s/x s/y t/y; ln -s y t/x; echo x >s/y/N; cp N t/y",
            "cp -rn --atomic --keep-directory-symlink -T s t",
            "t/y/N",
        ),
        // The source has a link to the target.
        ("mkdir -p s t/s; ln -s ../t/s s/link; cp N t/s", "cp -rL --atomic s t", "t/s/N"),
    ] {
        let sandbox = Sandbox::in_memory().unwrap();
        let name = ended_name();
        let named = |text: &str| text.replace('N', &name);
        sandbox.script(&named(&format!("echo precious >N; {script}"))).unwrap();
        let words = named(words);
        let words: Vec<_> = words.split(' ').collect();
        let outcome = run(&ours, &sandbox, &words).finish().unwrap();
        for stays in named(stays).split(' ') {
            let content = std::fs::read_to_string(sandbox.join(stays)).unwrap_or_default();
            assert_eq!(content, "precious\n", "{words:?}: {stays}: {}", outcome.errors());
        }
    }
}

/// A directory that is copied onto the target itself is complete before the directories that
/// operands are copied to are.
#[test]
fn a_target_directory_is_finished_once() {
    let ours = program!();
    require!(ours.needs_haul(), needs::root());
    let sandbox = Sandbox::in_memory().unwrap();
    let ours = ours.publish(sandbox.path()).unwrap();
    sandbox
        .script("chmod 755 .; mkdir -p f/s f/own; echo x >f/s/f; chmod 300 f/own; chown -R 65534 f")
        .unwrap();
    let words = |words: &str| words.split(' ').map(str::to_owned).collect::<Vec<_>>();
    for (line, problem) in [
        ("cp -r --fsync s/. own/", "error syncing 'own/.'"),
        ("cp -r --atomic s/. own/", "cannot remove leftovers of an earlier run in 'own/.'"),
        ("cp -r --journal=J s/. own/", ""),
        ("cp -r --journal=J s/. own/", "cannot remove leftovers of an earlier run in 'own/.'"),
    ] {
        let run = TestRun::new(ours.path()).args(words(line)).in_folder(&sandbox.join("f"));
        let outcome = run.as_nobody().finish().unwrap();
        let errors = outcome.errors();
        let count = usize::from(!problem.is_empty());
        assert!(errors.lines().count() == count && errors.contains(problem), "{line}: {errors}");
    }
}

#[test]
fn the_next_manifest_is_without_that_of_a_killed_run() {
    let ours = program!();
    require!(ours.needs_haul(), needs::tool("strace"));
    let sandbox = Sandbox::in_memory().unwrap();
    for words in [["sum", "-o", "d/M", "d"].as_slice(), &["cp", "-rT", "--manifest=d/M", "d", "e"]] {
        sandbox.script("rm -rf d e; mkdir d; echo 1 >d/a").unwrap();
        // Incomplete large files of copies that are resumed have names of this form.
        let partial = "d/.haul-0123456789abcdef-0123456789abcdef-1-1-1";
        std::fs::write(sandbox.join(partial), "part").unwrap();
        assert!(killed(&ours, &sandbox, words, "renameat", 1).status().is_none(), "{words:?}");
        assert_eq!(leftovers(&sandbox).iter().filter(|name| name.starts_with("d/")).count(), 2, "{words:?}");
        run(&ours, &sandbox, words).succeed().unwrap();
        assert_eq!(std::fs::read_to_string(sandbox.join("d/M")).unwrap().lines().count(), 2, "{words:?}");
        std::fs::remove_file(sandbox.join(partial)).unwrap();
        let kept = leftovers(&sandbox).into_iter().filter(|name| name.starts_with("d/"));
        assert_eq!(kept.collect::<Vec<_>>(), Vec::<String>::new(), "{words:?}");
    }
}
