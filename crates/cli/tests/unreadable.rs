//! Directories that can't be read, in the source and in the target.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use haul_testkit::duel::Duel;
use haul_testkit::needs::LANDLOCK;
use haul_testkit::{CopyProgram, Facts, Release, Sandbox, TestRun, needs, program, require};

/// First release seen to leave existing and inherited ACLs in place.
const LISTS_STAY: Release = Release(9, 7);

/// Runs a script with GNU cp and with haul in turn, and asserts that nothing differs.
fn same_as_gnu(duel: &Duel, script: &str) {
    let verdict = duel.run_script(&|_| Ok(()), script, &[]).unwrap();
    assert!(verdict.complaints.is_empty(), "{script}\n{}", verdict.report());
}

#[test]
fn a_directory_that_cannot_be_read_gets_its_attributes() {
    require!(needs::root(), needs::tool("setfacl"));
    let sandbox = Sandbox::in_memory().unwrap();
    let ours = program!().publish(sandbox.path()).unwrap();
    fs::set_permissions(sandbox.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let lines = ["cp -aT", "cp -rpT", "cp -rT --preserve=mode", "cp -aT --atomic", "sync"];
    for line in lines.into_iter().filter(|line| ours.is_haul() || *line == "cp -aT") {
        sandbox
            .script(
                "rm -rf folder; mkdir -p folder/s/d folder/t/d; cd folder; echo x >s/d/f; setfacl -d -m u:7:r s/d
                chmod 750 s/d; setfacl -m u:8:r t/d; setfacl -d -m u:9:r t/d; touch -d @5 s/d; chmod 300 t/d
                chown -R 65534:65534 .",
            )
            .unwrap();
        let run = haul_testkit::TestRun::new(ours.path()).args(line.split(' ')).args(["s", "t"]);
        let outcome = run.as_nobody().in_folder(&sandbox.join("folder")).finish().unwrap();
        // A warning: what an earlier run has left there can't be found. `sync` makes the directory
        // readable.
        let told = match line.ends_with("--atomic") {
            true => "cannot remove leftovers of an earlier run in 't/d': Permission denied\n",
            false => "",
        };
        let errors = outcome.errors();
        assert_eq!(errors.split_once(": ").map_or("", |(_, text)| text), told, "{line}");
        assert!(outcome.succeeded(), "{line}");
        let there = fs::metadata(sandbox.join("folder/t/d")).unwrap();
        assert_eq!(there.permissions().mode() & 0o7777, 0o750, "{line}");
        assert!(there.mtime() == 5 || line.ends_with("mode"), "{line}");
        let list = |tree: &str| {
            let mut getfacl = std::process::Command::new("getfacl");
            let output = getfacl.args(["-c", "d"]).current_dir(sandbox.join("folder").join(tree)).output();
            String::from_utf8(output.unwrap().stdout).unwrap()
        };
        assert_eq!(list("t"), list("s"), "{line}");
    }
}

#[test]
fn a_directory_that_cannot_be_searched_gets_its_attributes() {
    require!(needs::root());
    let sandbox = Sandbox::in_memory().unwrap();
    let ours = program!().publish(sandbox.path()).unwrap();
    fs::set_permissions(sandbox.path(), fs::Permissions::from_mode(0o755)).unwrap();
    for line in ["cp -aT", "cp -rT --preserve=mode,timestamps"] {
        for mode in ["0", "200", "600"] {
            let script = format!(
                "rm -rf folder; mkdir -p folder/s/d folder/t/d; cd folder; chmod 750 s/d; touch -d @5 s/d
                chmod {mode} t/d; chown -R 65534:65534 ."
            );
            sandbox.script(&script).unwrap();
            let run = haul_testkit::TestRun::new(ours.path()).args(line.split(' ')).args(["s", "t"]);
            let outcome = run.as_nobody().in_folder(&sandbox.join("folder")).finish().unwrap();
            assert_eq!((outcome.errors().as_str(), outcome.status()), ("", Some(0)), "{line} {mode}");
            let there = fs::metadata(sandbox.join("folder/t/d")).unwrap();
            assert_eq!((there.permissions().mode() & 0o7777, there.mtime()), (0o750, 5), "{line} {mode}");
        }
    }
}

/// Makes a script run as nobody, who then owns the directory.
fn as_nobody(script: &str) -> String {
    format!("chown 65534:65534 . && exec setpriv --reuid=65534 --regid=65534 --clear-groups sh -c '{script}'")
}

/// A source that can't be reached is an error also where its target stays.
#[test]
fn sources_in_a_directory_that_cannot_be_searched_are_not_skipped() {
    require!(CopyProgram::needs_gnu(), needs::root(), needs::tool("setpriv"));
    let folder = Sandbox::in_memory().unwrap();
    let duel = Duel::with_gnu(program!().publish(folder.path()).unwrap()).unwrap();
    let options =
        [("-n", 8, 0), ("-u", 8, 0), ("-i", 8, 0), ("--update=none", 9, 3), ("--update=none-fail", 9, 5)];
    let is_known =
        |major, minor| duel.standard.release().is_some_and(|release| release >= Release(major, minor));
    for source in ["touch s/d/f", "ln -s x s/d/f", "mkfifo s/d/f"] {
        for mode in ["444", "600", "755"] {
            for (option, ..) in options.into_iter().filter(|(_, major, minor)| is_known(*major, *minor)) {
                let scene = format!("mkdir -p s/d t/s/d; {source}; echo 1 >t/s/d/f; chmod {mode} s/d");
                same_as_gnu(&duel, &as_nobody(&format!("{scene}; cp -r {option} s t </dev/null")));
            }
        }
    }
}

/// Without the ACL, what was its mask would be the rights of the group.
#[test]
fn a_source_that_cannot_be_read_has_its_acls() {
    require!(CopyProgram::needs_gnu(), needs::root(), needs::tool("setfacl"), needs::tool("setpriv"));
    let folder = Sandbox::in_memory().unwrap();
    let mut duel = Duel::with_gnu(program!().publish(folder.path()).unwrap()).unwrap();
    if duel.standard.release().is_some_and(|release| release >= LISTS_STAY) {
        duel.facts -= Facts::ATTRIBUTES;
    }
    let acl = "u::-wx,u:33:rwx,g::---,m::rwx,o::---";
    for scene in [
        format!("mkdir s; setfacl -m {acl} s"),
        "mkdir s; setfacl -d -m u:33:rwx s; chmod 311 s".to_owned(),
        // The target has attributes of its own.
        format!("mkdir -p s t/s; setfacl -m {acl} s; setfacl -m u:34:rwx,g::--- t/s"),
    ] {
        for line in ["-a s t", "-rp s t", "-r --preserve=mode s t", "-r s t", "-aL l t/s"] {
            same_as_gnu(&duel, &as_nobody(&format!("{scene}; mkdir -p t; ln -s s l; cp {line}")));
        }
    }
    // A link to something that can't be opened.
    for line in ["-rpL s t", "-rL --preserve=mode s t"] {
        same_as_gnu(
            &duel,
            &format!("mkdir s; mkfifo p; setfacl -m u:33:rw,g::- p; ln -s ../p s/p; cp {line}"),
        );
    }
}

/// What isn't known to be gone from the source stays.
#[test]
fn a_target_keeps_the_attributes_of_a_source_that_cannot_be_read() {
    let ours = program!();
    require!(ours.needs_haul(), needs::root(), needs::tool("setfacl"), needs::tool("setfattr"));
    let sandbox = Sandbox::in_memory().unwrap();
    let ours = ours.publish(sandbox.path()).unwrap();
    sandbox
        .script(
            "mkdir -p folder/s/d folder/t/d; cd folder; setfattr -n user.k -v v s/d
            setfacl -m u::-wx,u:33:rwx,g::---,o::--- s/d; setfacl -m u:34:rwx,g::--- t/d
            setfattr -n user.k -v v t/d; setfattr -n user.own -v v t/d; chown -R 65534:65534 .",
        )
        .unwrap();
    let run = haul_testkit::TestRun::new(ours.path()).args(["sync", "s/", "t/"]).as_nobody();
    let outcome = run.in_folder(&sandbox.join("folder")).finish().unwrap();
    assert_eq!(outcome.errors(), "haul sync: cannot access 's/d': Permission denied\n");
    sandbox
        .script(
            "cd folder; [ \"$(getfacl -c s/d)\" = \"$(getfacl -c t/d)\" ]
            getfattr -n user.k t/d; getfattr -n user.own t/d",
        )
        .unwrap();
}

/// As in a sandbox that may write there, and not list.
#[test]
fn a_tree_is_copied_where_nothing_can_be_listed() {
    require!(CopyProgram::needs_gnu(), needs::root(), needs::landlock(), needs::tool("setfacl"));
    let mut duel = Duel::with_gnu(program!()).unwrap();
    duel.environment.push(("LANDLOCK".into(), LANDLOCK.into()));
    let scene = "mkdir -p s/d/e s/ro t; echo x >s/d/f; echo y >s/d/e/g; echo z >s/ro/h; chmod 555 s/ro
        setfacl -m u:7:rwx s/d; setfacl -d -m u:8:r s/d; touch -d @5 s/d/e s/ro s/d s; umask 022";
    for (umask, before) in
        [("022", "true"), ("477", "true"), ("022", "mkdir -p n/d; setfacl -d -m u:9:r n n/d")]
    {
        for line in [
            "-a s t/",
            "-r s t/",
            "-rp s t/n",
            "-r --backup=numbered s t/n",
            "-rf s t/n",
            "-aT s n",
            "-rpT s n",
        ] {
            same_as_gnu(
                &duel,
                &format!("{scene}; {before}; umask {umask}\npython3 -c \"$LANDLOCK\" s cp {line}"),
            );
        }
    }
}

/// GNU cp looks at the target before it opens the source.
#[test]
fn a_target_that_cannot_be_examined_is_reported_before_an_unreadable_source() {
    require!(CopyProgram::needs_gnu(), needs::root(), needs::tool("setpriv"));
    let folder = Sandbox::in_memory().unwrap();
    let duel = Duel::with_gnu(program!().publish(folder.path()).unwrap()).unwrap();
    let scene = "echo a >f; mkdir -p d t/d; echo b >d/f; chmod 0 f d/f
        ln -s f t/f; ln -s f t/d/f; mkdir -m 0 t/w";
    let long = format!("f t/{}", "x".repeat(256));
    for operands in ["f t/", "f t/w/", "f t/w/x", &long, "f t/f/", "f t/new", "-r d t/", "-T f t/f"] {
        for options in ["", "-v", "-n", "-u", "-i", "-fv", "--attributes-only", "-b"] {
            same_as_gnu(&duel, &as_nobody(&format!("{scene}; cp {options} {operands} </dev/null")));
        }
    }
}

/// Landlock refuses to open a file that the kernel has made already.
#[test]
fn no_temporary_name_stays_where_files_cannot_be_written() {
    let ours = program!();
    require!(ours.needs_haul(), needs::root(), needs::landlock());
    let ours = ours.path().display();
    for line in ["cp -r", "cp -a --atomic", "cp -r --journal=w/j", "cp --atomic --fsync -r", "sync"] {
        let sandbox = Sandbox::in_memory().unwrap();
        let script = "mkdir -p w/s t; cd w/s; head -c 200M /dev/zero >big; echo x >small; touch -d @5 *";
        sandbox.script(script).unwrap();
        let run = TestRun::new(&needs::find_tool("python3").unwrap());
        // The right to write files.
        let run = run.args(["-c", LANDLOCK, "w"]).env("LANDLOCK_RIGHT", "2").args(["sh", "-c"]);
        let outcome = run.arg(format!("{ours} {line} w/s t/n")).in_folder(sandbox.path()).finish().unwrap();
        let errors = outcome.errors();
        assert!(errors.contains("'t/n/big': Permission denied"), "{line}: {errors}");
        let left: Vec<_> =
            fs::read_dir(sandbox.join("t/n")).unwrap().map(|it| it.unwrap().file_name()).collect();
        assert!(left.iter().all(|name| !name.as_encoded_bytes().starts_with(b".haul")), "{line}: {left:?}");
    }
}

/// A file that is up to date isn't opened, whether or not it has other names.
#[test]
fn an_unreadable_source_whose_target_stays_is_no_error() {
    require!(CopyProgram::needs_gnu(), needs::root(), needs::tool("setpriv"));
    let folder = Sandbox::in_memory().unwrap();
    let duel = Duel::with_gnu(program!().publish(folder.path()).unwrap()).unwrap();
    for names in ["true", "ln s/f s/g", "ln s/f s/g; mkdir s/d; ln s/f s/d/h"] {
        let scene =
            format!("mkdir s; echo 1 >s/f; {names}; cp -a s t; chmod -R 0 s/* t/*; chmod 700 s/d t/d");
        for before in ["true", "rm t/f", "rm -f t/g"] {
            for options in ["-au", "-an"] {
                let script = format!("{scene} 2>/dev/null; {before} 2>/dev/null; cp {options} s/. t");
                same_as_gnu(&duel, &as_nobody(&script));
            }
        }
    }
}

#[test]
fn sync_leaves_unreadable_files_with_several_names_that_have_not_changed() {
    let ours = program!();
    require!(ours.needs_haul(), needs::root());
    let sandbox = Sandbox::in_memory().unwrap();
    let ours = ours.publish(sandbox.path()).unwrap();
    let scene = "mkdir folder; cd folder; mkdir s; echo 1 >s/f; ln s/f s/g; echo 2 >s/h; chmod 0 s/*
        cp -a s t; chown -R 65534:65534 .";
    sandbox.script(scene).unwrap();
    let sync = || {
        let run = TestRun::new(ours.path()).args(["sync", "s", "t"]).as_nobody();
        run.in_folder(&sandbox.join("folder")).finish().unwrap()
    };
    let outcome = sync();
    assert_eq!((outcome.errors().as_str(), outcome.status()), ("", Some(0)));
    // Its names are joined again, which needs no content; and its mode is set.
    sandbox.script("cd folder/t; rm g; cp -p f g; chown 65534:65534 g; chmod 600 f g").unwrap();
    let outcome = sync();
    assert_eq!((outcome.errors().as_str(), outcome.status()), ("", Some(0)));
    sandbox.script("cd folder/t; [ f -ef g ]; [ \"$(stat -c %a f)\" = 0 ]").unwrap();
    // What has changed must be read.
    sandbox.script("cd folder/t; touch -d @5 f").unwrap();
    let outcome = sync();
    let errors = outcome.errors();
    assert_eq!(errors.lines().count(), 2, "{errors}");
    assert!(errors.lines().all(|line| line.ends_with("for reading: Permission denied")), "{errors}");
}
