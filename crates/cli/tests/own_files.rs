//! Files that a run writes itself (events, a log, a journal, a manifest, its control socket): every
//! tool leaves them out, and no copy takes their place.

#![allow(clippy::unwrap_used, clippy::panic)]

mod scene;

use std::fs;

use haul_testkit::RunOutcome;
use scene::Scene;

/// Options that name a file to be written, and what the file is called here.
const WRITTEN: &[&str] = &["--events=", "--log-file=", "--journal=", "--manifest=", "--control="];

/// Two directories with a file of the same name in the source, and another.
fn two_trees() -> Scene {
    Scene::of("mkdir s t; echo data >s/own; echo more >s/other")
}

fn copy(scene: &Scene, command: &str, option: &str) -> RunOutcome {
    scene.shell(&format!("LC_ALL=C $HAUL {command} {option} s t"))
}

#[test]
fn no_copy_takes_the_place_of_a_file_that_is_being_written() {
    for option in WRITTEN {
        for command in ["cp -rT", "cp -rT --remove-destination", "cp -rT --backup", "cp -aT --atomic"] {
            if option == &"--journal=" && command.contains("backup") {
                continue;
            }
            let scene = two_trees();
            let outcome = copy(&scene, command, &format!("{option}t/own"));
            let context = format!("{command} {option}: {}", outcome.errors());
            assert_eq!(outcome.status(), Some(1), "{context}");
            let told = match *option {
                "--manifest=" => "not writing the manifest 't/own', as a file was copied there",
                _ => "will not overwrite 't/own' with 's/own', as haul is writing to it",
            };
            assert_eq!(outcome.errors().matches(told).count(), 1, "{context}");
            assert_eq!(fs::read(scene.path().join("t/other")).unwrap(), b"more\n", "{context}");
            let own = fs::read(scene.path().join("t/own"));
            match *option {
                // The socket is gone when the run ends.
                "--control=" => assert!(own.is_err(), "{context}"),
                "--manifest=" => assert_eq!(own.unwrap(), b"data\n", "{context}"),
                _ => assert_ne!(own.unwrap(), b"data\n", "{context}"),
            }
        }
    }
}

#[test]
fn no_copy_takes_the_place_of_a_manifest_that_is_to_be_replaced() {
    let scene = two_trees();
    scene.script("echo old >t/own");
    let outcome = copy(&scene, "cp -rT", "--manifest=t/own");
    assert_eq!(outcome.status(), Some(1));
    assert!(outcome.errors().contains("will not overwrite 't/own' with 's/own'"), "{}", outcome.errors());
    let manifest = fs::read_to_string(scene.path().join("t/own")).unwrap();
    assert!(manifest.contains("other") && !manifest.contains("own"), "{manifest}");
}

#[test]
fn a_file_that_is_being_written_is_not_copied() {
    for option in WRITTEN.iter().filter(|option| !["--manifest=", "--control="].contains(option)) {
        let scene = Scene::of("mkdir s t; echo more >s/other");
        let outcome = copy(&scene, "cp -rT", &format!("{option}s/own"));
        let context = format!("{option}: {}", outcome.errors());
        assert_eq!(outcome.status(), Some(0), "{context}");
        let told = "warning: leaving out 's/own', as haul is writing to it";
        assert_eq!(outcome.errors().matches(told).count(), 1, "{context}");
        assert_eq!(scene.script("ls t"), "other\n", "{context}");
    }
}

#[test]
fn a_manifest_in_the_source_is_written_and_its_temporary_name_is_not_copied() {
    let scene = Scene::of("mkdir s t; echo more >s/other");
    assert_eq!(copy(&scene, "cp -rT", "--manifest=s/own").status(), Some(0));
    assert_eq!(scene.script("ls -A t"), "other\n");
    assert_eq!(scene.script("ls -A s"), "other\nown\n");
}

#[test]
fn neither_a_mirror_nor_a_dry_run_takes_the_log_for_a_file_of_a_tree() {
    for (command, copied) in [("sync --delete", "other\n"), ("cp -rT --dry-run", "")] {
        let outcome = copy(&two_trees(), command, "--log-file=t/own");
        assert_eq!(outcome.status(), Some(1), "{command}");
        assert!(outcome.errors().contains("will not overwrite 't/own'"), "{command}: {}", outcome.errors());
        let scene = Scene::of("mkdir s t; echo more >s/other");
        let outcome = copy(&scene, command, "--log-file=s/own");
        assert_eq!(outcome.status(), Some(0), "{command}: {}", outcome.errors());
        assert!(outcome.errors().contains("leaving out 's/own'"), "{command}: {}", outcome.errors());
        assert_eq!(scene.script("ls -A t"), copied, "{command}");
    }
}

/// A list gives no inode numbers, so the walk can't know it.
#[test]
fn a_log_that_a_list_names_is_not_copied() {
    for option in ["", "--dry-run"] {
        let scene = Scene::of("mkdir s t; echo own >list");
        let outcome = copy(&scene, "cp -rT --files-from=list --log-file=s/own", option);
        let told = "leaving out 's/own', as haul is writing to it";
        assert_eq!(outcome.errors().matches(told).count(), 1, "{option}: {}", outcome.errors());
        assert_eq!(scene.script("ls -A t"), "", "{option}");
    }
}

#[test]
fn no_tool_takes_its_log_for_a_file_of_the_tree() {
    const LOG: &str = "--log-file=s/own";
    for (command, result, wanted) in [
        (format!("sum {LOG} --output=result s"), "sed 's/.*  //' result", "s/other\n"),
        (format!("bzip2 -r {LOG} s"), "ls s", "other.bz2\nown\n"),
        (format!("tar -c {LOG} -f result s"), "tar -tf result", "s/\ns/other\n"),
        (format!("grep -rl {LOG} e s >result"), "cat result", "s/other\n"),
        (format!("cmp {LOG} s t >result"), "cat result", ""),
        (format!("each {LOG} s -- echo {{}} >result"), "cat result", "s/other\n"),
    ] {
        let scene = Scene::of("mkdir s t; echo more >s/other; echo more >t/other");
        let outcome = scene.shell(&format!("LC_ALL=C $HAUL {command}"));
        let context = format!("{command}: {}", outcome.errors());
        assert_eq!(outcome.status(), Some(0), "{context}");
        let told = "warning: leaving out 's/own', as haul is writing to it";
        assert_eq!(outcome.errors().matches(told).count(), 1, "{context}");
        assert_eq!(scene.script(result), wanted, "{context}");
    }
}

#[test]
fn no_tool_takes_its_log_from_a_list() {
    for (command, result, wanted) in [
        ("sum --output=result", "sed 's/.*  //' result", "s/other\n"),
        ("bzip2 -r", "ls s", "other.bz2\nown\n"),
        ("each", "cat result", "s/other\n"),
    ] {
        let scene = Scene::of("mkdir s; echo more >s/other; echo old >s/own; printf 'own\\nother\\n' >list");
        let end = if command == "each" { "-- echo {} >result" } else { "" };
        let line = format!("LC_ALL=C $HAUL {command} --log-file=s/own --files-from=list s {end}");
        let outcome = scene.shell(&line);
        assert_eq!(outcome.status(), Some(0), "{command}: {}", outcome.errors());
        assert_eq!(scene.script(result), wanted, "{command}: {}", outcome.errors());
    }
}

#[test]
fn two_options_that_name_one_file_are_refused_before_anything_is_touched() {
    let scene = two_trees();
    scene.script("mkdir d; ln -s d e; echo kept >old; ln -s old link; ln -s new dangling; ls >names");
    let files = [("x", "./x"), ("d/x", "e/x"), ("old", "link"), ("dangling", "new")];
    for (command, flags) in [("cp -a", WRITTEN), ("sum", &["--events=", "--log-file=", "--output="])] {
        for (index, first) in flags.iter().enumerate() {
            for (second, (one, other)) in flags[index + 1..].iter().zip(files.iter().cycle().skip(index)) {
                if (*first, *second) == ("--journal=", "--manifest=") {
                    continue; // They exclude each other.
                }
                let outcome = copy(&scene, command, &format!("{second}{other} {first}{one}"));
                let context = format!("{command} {first}{one} {second}{other}: {}", outcome.errors());
                assert_eq!(outcome.status(), Some(1), "{context}");
                let told = [first, " and ", second].concat().replace('=', "");
                let pair = |one: &str| outcome.errors().contains(one);
                let turned = [second, " and ", first].concat().replace('=', "");
                assert!(pair(&told) || pair(&turned), "{context}");
                assert!(outcome.errors().contains(" name the same file"), "{context}");
                scene.script("ls | cmp names -; test ! -e t/s -a ! -e d/x; test $(cat old) = kept");
            }
        }
    }
    scene.script("$HAUL sum --events=fd:5 --log-file=x s 5>x && exit 1; test ! -s x");
    scene.script("$HAUL cp -a --events=a --log-file=b --manifest=c s t && test -e t/s/own");
    scene.script("$HAUL sum --events=/dev/null --log-file=/dev/null s >sums && test -s sums");
}
