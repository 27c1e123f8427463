//! Directories in the target that their owner can't read.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use haul_testkit::{Sandbox, needs, program, require};

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
