//! Which extended attributes are copied: `/etc/xattr.conf`, and SELinux contexts.
//!
//! Each case runs in a mount namespace of its own, where another list, or a kernel that seems to have SELinux, is in place.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use haul_testkit::program::ENGINES;
use haul_testkit::{Outcome, Program, Run, Sandbox, needs, program, require};

fn needs_namespaces() -> Option<String> {
    let list = (!Path::new("/etc/xattr.conf").exists()).then(|| "needs /etc/xattr.conf".to_owned());
    needs::root().or_else(|| needs::tool("unshare")).or_else(|| needs::tool("setfattr")).or(list)
}

/// Runs a script in an own mount namespace; `command` becomes `$@`.
fn privately(sandbox: &Sandbox, script: &str, command: &[&str]) -> Outcome {
    let run = Run::new(&needs::find_tool("unshare").unwrap()).args(["-m", "sh", "-c", script, "sh"]);
    run.args(command).in_folder(sandbox.path()).finish().unwrap()
}

/// Makes a tree with attributes of many names.
fn tree(sandbox: &Sandbox) {
    sandbox
        .script(
            r#"
            mkdir -p s/d; echo text >s/f; ln -s nowhere s/l; mkfifo s/p
            for name in a b c c1 d e 'e*' ex fxg Beagle.z; do
                for file in s s/d s/f; do setfattr -n "user.$name" -v "$name" $file; done
            done
            for file in s s/d s/f s/l s/p; do
                setfattr -h -n security.evm -v 1 $file 2>/dev/null || true
                setfattr -h -n security.selinux -v u:r:t $file
                setfattr -h -n trusted.SGI_ACL_FILE -v 1 $file; setfattr -h -n trusted.other -v 1 $file
            done
            "#,
        )
        .unwrap();
}

/// Lists of rules: good ones, and ones that libattr refuses.
const LISTS: [&str; 9] = [
    "user.a skip\nuser.b permissions # c\n# x\n  user.[cd]*\tskip\nuser.c1 permissions\nuser.e\\* skip\nuser.f?g skip\n",
    "*\tskip\nuser.a permissions\n",
    "user.* skip\nsecurity.selinux skip#\ntrusted.* permissions\n",
    "",
    "# only",
    "user.a skip\nuser.b skip",
    "user.a drop\n",
    "user.a#x skip\n",
    "user.a skip x\n",
];

const WAYS: [&str; 6] =
    ["-a", "-r --preserve=xattr", "-r --preserve=mode,xattr", "-rp", "-r --preserve=all", "-r"];

/// Copies with every list in every way, and lists what attributes there are.
const COPY: &str = r#"
    mount --bind "$LIST" /etc/xattr.conf || exit 9
    rm -rf t; "$@" $WAY s t; echo "status $?"
    cd t; getfattr -R -h -d -m - . 2>/dev/null | grep -v '^$' | LC_ALL=C sort
"#;

#[test]
fn the_list_of_attributes_holds_as_for_gnu_cp() {
    require!(needs_namespaces());
    require!(Program::needs_gnu());
    let sandbox = Sandbox::in_memory().unwrap();
    tree(&sandbox);
    let (gnu, program) = (Program::gnu().unwrap(), program!());
    let copy = |command: &[&str], way: &str| {
        let script = COPY.replace("$LIST", "list").replace("$WAY", way);
        let outcome = privately(&sandbox, &script, command);
        let words: Vec<_> = outcome.errors().lines().map(str::to_owned).collect();
        (outcome.printed(), words)
    };
    let has_permissions = gnu_copies_permissions(&sandbox, &gnu);
    for (number, list) in LISTS.iter().enumerate() {
        // GNU cp 9.1 does not copy what belongs to the mode, unless it is an access list that it knows.
        if list.contains("permissions") && !has_permissions {
            continue;
        }
        fs::write(sandbox.join("list"), list).unwrap();
        for (index, way) in WAYS.iter().enumerate() {
            let engine = ENGINES[(number + index) % ENGINES.len()];
            let path = program.path().to_str().unwrap();
            let command = if program.is_haul() { vec![path, "cp", engine] } else { vec![path] };
            let (expected, expected_words) = copy(&[gnu.path().to_str().unwrap()], way);
            let (found, words) = copy(&command, way);
            assert_eq!(found, expected, "{way} with {list:?}: {words:?}");
            // GNU cp says the same once for each attribute.
            assert_eq!(words.is_empty(), expected_words.is_empty(), "{way} with {list:?}: {words:?}");
        }
    }
}

/// True for GNU cp since 9.2.
fn gnu_copies_permissions(sandbox: &Sandbox, gnu: &Program) -> bool {
    fs::write(sandbox.join("list"), "user.a permissions\n").unwrap();
    let script = COPY.replace("$LIST", "list").replace("$WAY", "-rp");
    privately(sandbox, &script, &[gnu.path().to_str().unwrap()]).printed().contains("user.a")
}

#[test]
fn attributes_that_belong_to_the_mode_are_copied_with_it() {
    require!(needs_namespaces());
    let program = program!();
    require!(program.needs_haul());
    let sandbox = Sandbox::in_memory().unwrap();
    tree(&sandbox);
    fs::write(sandbox.join("list"), "user.* skip\nuser.a permissions\ntrusted.* skip\nsecurity.* skip\n")
        .unwrap();
    for (way, expected) in [("-rp", true), ("-a", true), ("-r --preserve=xattr", false), ("-r", false)] {
        let script = COPY.replace("$LIST", "list").replace("$WAY", way);
        let outcome = privately(&sandbox, &script, &[program.path().to_str().unwrap(), "cp"]);
        let lines: Vec<_> = outcome.printed().lines().map(str::to_owned).collect();
        assert_eq!(lines.contains(&"user.a=\"a\"".to_owned()), expected, "{way}: {lines:?}");
        assert!(!lines.iter().any(|line| line.starts_with("user.b")), "{way}: {lines:?}");
    }
}

/// What takes a kernel for one with SELinux, and what would set the context of new files.
const LABELLED: &str =
    "mount -t tmpfs none /sys/fs && mkdir /sys/fs/selinux && touch /sys/fs/selinux/enforce && ";

/// The kernel here has no SELinux, but the attribute can be stored: what is copied can be tested, policies can't.
#[test]
fn contexts_are_kept_where_there_are_any() {
    require!(needs_namespaces());
    let program = program!();
    require!(program.needs_haul());
    require!(Path::new("/sys/fs/selinux").exists().then(|| "this kernel has SELinux".to_owned()));
    let sandbox = Sandbox::in_memory().unwrap();
    tree(&sandbox);
    let copy = |way: &str| {
        let script = format!(
            "{LABELLED} rm -rf t; \"$@\" {way} s t || exit; cd t; getfattr -h -m - d f l p | grep -v '^$'; \
             getfattr -h -n security.selinux --only-values d f l p"
        );
        privately(&sandbox, &script, &[program.path().to_str().unwrap(), "cp"])
    };
    let labels = "u:r:tu:r:tu:r:tu:r:t";
    for way in ["-a", "-r --preserve=all", "-r --preserve=context", "-a --no-preserve=xattr"] {
        let outcome = copy(way);
        assert!(outcome.printed().ends_with(labels), "{way}: {} {}", outcome.printed(), outcome.errors());
        let with_others = way == "-a" || way.ends_with("all");
        assert_eq!(outcome.printed().contains("user.a"), with_others, "{way}");
    }
    let outcome = copy("-a --no-preserve=context,xattr");
    assert!(!outcome.printed().contains("selinux"), "{}", outcome.printed());
    // A source without a context is an error only where one was asked for.
    sandbox.script("setfattr -h -x security.selinux s/f").unwrap();
    assert_eq!(copy("-a").errors(), "f: security.selinux: No such attribute\n");
    let outcome = copy("-r --preserve=context");
    let reason = "failed to get security context of 's/f': No data available";
    assert!(outcome.status() == Some(1) && outcome.errors().contains(reason), "{}", outcome.errors());
    let outcome = copy("-r --context=u:r:t");
    let reason = "failed to set default file creation context to 'u:r:t'";
    assert!(outcome.status() == Some(1) && outcome.errors().contains(reason), "{}", outcome.errors());
}
