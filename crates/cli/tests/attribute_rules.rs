//! Selection of extended attributes: `/etc/xattr.conf` and SELinux contexts; and attributes that
//! can't be read or set.
//!
//! Each case of the former runs in its own mount namespace, with another `xattr.conf` mounted, or
//! with a `/sys/fs` that makes SELinux seem enabled.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use haul_testkit::mount::Mount;
use haul_testkit::program::ENGINES;
use haul_testkit::{CopyProgram, RunOutcome, Sandbox, TestRun, libc, needs, program, require};

fn needs_namespaces() -> Option<String> {
    let list = (!Path::new("/etc/xattr.conf").exists()).then(|| "needs /etc/xattr.conf".to_owned());
    needs::root().or_else(|| needs::tool("unshare")).or_else(|| needs::tool("setfattr")).or(list)
}

/// Runs a shell script in its own mount namespace; `command` becomes `$@`.
fn privately(sandbox: &Sandbox, script: &str, command: &[&str]) -> RunOutcome {
    let run = TestRun::new(&needs::find_tool("unshare").unwrap()).args(["-m", "sh", "-c", script, "sh"]);
    run.args(command).in_folder(sandbox.path()).finish().unwrap()
}

/// Builds a tree whose entries have many attributes.
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

/// Rule lists, both valid and ones that libattr rejects.
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

/// Copies with one list and one set of options, and prints the attributes of the result.
const COPY: &str = r#"
    mount --bind "$LIST" /etc/xattr.conf || exit 9
    rm -rf t; "$@" $WAY s t; echo "status $?"
    cd t; getfattr -R -h -d -m - . 2>/dev/null | grep -v '^$' | LC_ALL=C sort
"#;

#[test]
fn the_list_of_attributes_holds_as_for_gnu_cp() {
    require!(needs_namespaces(), CopyProgram::needs_gnu());
    let sandbox = Sandbox::in_memory().unwrap();
    tree(&sandbox);
    let (gnu, program) = (CopyProgram::gnu().unwrap(), program!());
    let copy = |command: &[&str], way: &str| {
        let script = COPY.replace("$LIST", "list").replace("$WAY", way);
        let outcome = privately(&sandbox, &script, command);
        let words: Vec<_> = outcome.errors().lines().map(str::to_owned).collect();
        (outcome.printed(), words)
    };
    let has_permissions = gnu_copies_permissions(&sandbox, &gnu);
    for (number, list) in LISTS.iter().enumerate() {
        // Before 9.2, GNU cp skips `permissions` attributes unless it knows them as an ACL.
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
            // GNU cp repeats the message for each attribute, so only compare whether there is one.
            assert_eq!(words.is_empty(), expected_words.is_empty(), "{way} with {list:?}: {words:?}");
        }
    }
}

/// True for GNU cp 9.2 and later.
fn gnu_copies_permissions(sandbox: &Sandbox, gnu: &CopyProgram) -> bool {
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

/// Makes SELinux seem enabled: a tmpfs over `/sys/fs` with `selinux/enforce`.
const LABELLED: &str =
    "mount -t tmpfs none /sys/fs && mkdir /sys/fs/selinux && touch /sys/fs/selinux/enforce && ";

/// The kernel has no SELinux but stores the attribute, so copying can be tested and policy can't.
#[test]
fn contexts_are_kept_where_there_are_any() {
    require!(needs_namespaces());
    let program = program!();
    require!(
        program.needs_haul(),
        Path::new("/sys/fs/selinux").exists().then(|| "this kernel has SELinux".to_owned())
    );
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
    // A source without a context is an error only if a context was requested.
    sandbox.script("setfattr -h -x security.selinux s/f").unwrap();
    assert_eq!(copy("-a").errors(), "f: security.selinux: No such attribute\n");
    let outcome = copy("-r --preserve=context");
    let reason = "failed to get security context of 's/f': No data available";
    assert!(outcome.status() == Some(1) && outcome.errors().contains(reason), "{}", outcome.errors());
    let outcome = copy("-r --context=u:r:t");
    let reason = "failed to set default file creation context to 'u:r:t'";
    assert!(outcome.status() == Some(1) && outcome.errors().contains(reason), "{}", outcome.errors());
}

/// Stand-in for libselinux: derives the type from the file mode and logs each lookup.
const LIBSELINUX: &str = r#"
    #include <errno.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    #include <sys/stat.h>
    void *selabel_open(unsigned backend, const void *options, unsigned count) {
        errno = EACCES;
        return backend || options || count || getenv("NO_LIST") ? NULL : stdout;
    }
    int selabel_lookup_raw(void *handle, char **context, const char *path, int mode) {
        const char *type = S_ISDIR(mode) ? "dir_t" : S_ISLNK(mode) ? "lnk_t" : S_ISFIFO(mode) ? "fifo_t" : "file_t";
        FILE *log = fopen(getenv("LOG"), "a");
        fprintf(log, "%s %s\n", path, type);
        fclose(log);
        if (strstr(path, "unknown")) { errno = ENOENT; return -1; }
        if (strstr(path, "refused")) { errno = EINVAL; return -1; }
        return asprintf(context, "x:y:%s:z", type) < 0 ? -1 : 0;
    }
    void freecon(char *context) { free(context); }
"#;

/// Without SELinux, new files get no context: the result shows on existing files, and for new ones
/// in the log of lookups.
#[test]
fn copies_get_the_type_of_their_path() {
    require!(needs_namespaces(), needs::tool("gcc"));
    let program = program!();
    require!(
        program.needs_haul(),
        Path::new("/sys/fs/selinux").exists().then(|| "this kernel has SELinux".to_owned())
    );
    let sandbox = Sandbox::in_memory().unwrap();
    tree(&sandbox);
    fs::write(sandbox.join("selinux.c"), LIBSELINUX).unwrap();
    let compile = "mkdir lib; gcc -D_GNU_SOURCE -shared -fPIC -o lib/libselinux.so.1 selinux.c";
    sandbox.script(compile).unwrap();
    let copy = |environment: &str, line: &str| {
        let script = format!(
            "{LABELLED} rm -rf t log; mkdir -p t/s/d; for name in f unknown refused; do echo >t/s/$name; echo >s/$name; done
             for name in . d f unknown refused; do setfattr -n security.selinux -v u:r:old:s0:c1 t/s/$name; done
             LOG=$PWD/log {environment} \"$@\" {line}; status=$?
             for name in . d f unknown refused; do echo $(getfattr --only-values -n security.selinux t/s/$name); done
             getfattr -hn security.selinux t/s/l; test ! -e log || LC_ALL=C sort log; exit $status"
        );
        privately(&sandbox, &script, &[program.path().to_str().unwrap(), "cp"])
    };
    let folder = sandbox.path().canonicalize().unwrap().display().to_string();
    for line in ["-rZ s t", "-aZ s t", "-r --context s t", "-aZ s/. $PWD/t/s"] {
        let outcome = copy("LD_LIBRARY_PATH=$PWD/lib", line);
        assert_eq!(outcome.status(), Some(0), "{line}: {}", outcome.errors());
        let refusal = "failed to set the security context of ";
        assert_eq!(outcome.errors().matches(refusal).count(), 1, "{line}: {}", outcome.errors());
        let kept = "u:r:old:s0:c1";
        let types = format!("u:r:dir_t:s0:c1\nu:r:dir_t:s0:c1\nu:r:file_t:s0:c1\n{kept}\n{kept}\n");
        let asked = ["d dir_t", "f file_t", "l lnk_t", "p fifo_t", "refused file_t", "unknown file_t"];
        let asked = asked.map(|entry| format!("{folder}/t/s/{entry}\n")).concat();
        assert_eq!(outcome.printed(), format!("{types}{folder}/t/s dir_t\n{asked}"), "{line}");
    }
    fs::create_dir(sandbox.join("bad")).unwrap();
    fs::write(sandbox.join("bad/libselinux.so.1"), "not a library").unwrap();
    for (environment, reason) in [
        ("LD_LIBRARY_PATH=$PWD/bad", "-Z needs the library 'libselinux.so.1', which cannot be loaded"),
        ("NO_LIST=1 LD_LIBRARY_PATH=$PWD/lib", "'libselinux.so.1': Permission denied"),
    ] {
        let outcome = copy(environment, "-rZ s t");
        assert_eq!(outcome.status(), Some(1), "{environment}");
        assert!(outcome.errors().contains(reason), "{environment}: {}", outcome.errors());
        assert!(!sandbox.join("t/s/p").exists(), "{environment}: something was copied");
    }
}

#[test]
fn a_backup_is_put_back_if_attributes_alone_cannot_be_given() {
    let ours = program!();
    require!(needs::root(), needs::tool("setfattr"));
    let (sandbox, mount) = (Sandbox::in_memory().unwrap(), Mount::without_attributes().unwrap());
    sandbox.script("echo new >s; setfattr -n user.key -v value s").unwrap();
    let target = mount.join("f");
    fs::write(&target, "old").unwrap();
    let run = ours.run().args(["-b", "--attributes-only", "--preserve=xattr"]).arg(sandbox.join("s"));
    let outcome = run.arg(&target).finish().unwrap();
    assert_eq!(outcome.status(), Some(1), "{}", outcome.errors());
    assert_eq!(fs::read_to_string(&target).unwrap(), "old");
    assert!(!mount.join("f~").exists());
}

/// Asserts that both programs have the same status, and prefix their messages with their names
/// only. Returns the messages.
fn assert_same(gnu: &RunOutcome, ours: &RunOutcome, what: &str) -> String {
    let told = |outcome: &RunOutcome| {
        let lines = outcome.errors();
        lines.lines().filter_map(|line| Some(line.split_once(": ")?.1.to_owned())).collect::<Vec<_>>()
    };
    assert_eq!(ours.ending, gnu.ending, "{what}: {} {}", gnu.errors(), ours.errors());
    assert_eq!(told(ours), told(gnu), "{what}");
    ours.errors()
}

/// In a user namespace with one user, no file can be given to another. Symbolic links are left out:
/// GNU cp sets their owners first, so they don't get their times.
#[test]
fn what_cannot_get_its_owner_gets_its_times() {
    require!(needs::root(), needs::tool("unshare"), CopyProgram::needs_gnu());
    let sandbox = Sandbox::in_memory().unwrap();
    sandbox
        .script(
            "mkdir -p s/d; echo 1 >s/f; echo 2 >s/d/g; mkfifo s/p; chmod 644 s/f s/p
            chown -R 1000 s; touch -d 2001-01-01 s/f s/d/g s/p s/d s",
        )
        .unwrap();
    let unshare = needs::find_tool("unshare").unwrap();
    let list = |name: &str| {
        let line = "LC_ALL=C; export LC_ALL; cd $0; find . -printf '%P %y %m %T@\\n' | sort";
        TestRun::new(Path::new("/bin/sh"))
            .args(["-c", line])
            .arg(sandbox.join(name))
            .succeed()
            .unwrap()
            .printed()
    };
    let (gnu, ours) = (CopyProgram::gnu().unwrap(), program!());
    for way in ["-p s/f", "-a s/p", "-a s", "-rp s", "-a --attributes-only s/f", "-rp --parents s/d"] {
        let copy = |program: &CopyProgram, target: &str| {
            sandbox.script(&format!("rm -rf {target}; mkdir {target}")).unwrap();
            let run = program.run().args(way.split(' ')).arg(format!("{target}/."));
            run.in_folder(sandbox.path()).behind(&unshare, vec!["-r".into()]).finish().unwrap()
        };
        let (expected, found) = (copy(&gnu, "t"), copy(&ours, "u"));
        assert_eq!(found.status(), expected.status(), "{way}: {}", found.errors());
        let count = |outcome: &RunOutcome| outcome.errors().lines().count();
        assert_eq!(count(&found), count(&expected), "{way}: {} {}", expected.errors(), found.errors());
        let without_top = |list: String| list.split_once('\n').map(|(_, entries)| entries.to_owned());
        assert_eq!(without_top(list("u")), without_top(list("t")), "{way}");
    }
}

/// An access list is copied, or its loss is reported and the copy stays private.
#[test]
fn an_access_list_that_cannot_be_listed_or_read_is_not_lost_silently() {
    require!(needs::root(), needs::tool("setfacl"), CopyProgram::needs_gnu());
    let sandbox = Sandbox::in_memory().unwrap();
    sandbox
        .script("mkdir s; echo 1 >s/f; mkdir s/d; setfacl -m u:7:rw,m:rw s/f; setfacl -m u:8:r,d:u:9:r s/d")
        .unwrap();
    let facls = |name: &str| {
        let line = "cd $0 && getfacl -Rn . && ls -l f | cut -c1-10";
        let run = TestRun::new(Path::new("/bin/sh")).args(["-c", line]).arg(sandbox.join(name));
        run.finish().unwrap().printed()
    };
    let (gnu, ours) = (CopyProgram::gnu().unwrap(), program!());
    let get = [libc::SYS_fgetxattr, libc::SYS_getxattr, libc::SYS_lgetxattr];
    let list = [libc::SYS_flistxattr, libc::SYS_listxattr, libc::SYS_llistxattr];
    for (calls, error, what) in [
        (get, libc::EPERM, "read: EPERM"),
        (get, libc::EIO, "read: EIO"),
        (list, libc::EPERM, "listed: EPERM"),
        (list, libc::ENOSYS, "listed: ENOSYS"),
    ] {
        for way in ["-a", "-rp", "-r --preserve=mode"] {
            let copy = |program: &CopyProgram, target: &str| {
                sandbox.script(&format!("rm -rf {target}; cp -a s {target}; setfacl -Rb {target}")).unwrap();
                let outcomes = ["s/f", "s/d"].map(|source| {
                    let run = program.run().args(way.split(' ')).arg(source).arg(format!("{target}-new"));
                    sandbox.script(&format!("rm -rf {target}-new")).unwrap();
                    let outcome = run.refusing(&calls, error).in_folder(sandbox.path()).finish().unwrap();
                    let name = source.trim_start_matches("s/");
                    sandbox
                        .script(&format!("rm -rf {target}/{name}; mv {target}-new {target}/{name}"))
                        .unwrap();
                    outcome
                });
                (outcomes, facls(target))
            };
            let ((expected, expected_list), (found, found_list)) = (copy(&gnu, "t"), copy(&ours, "u"));
            for (gnu, ours) in expected.iter().zip(&found) {
                assert_same(gnu, ours, &format!("{what} {way}"));
            }
            assert_eq!(found_list, expected_list, "{what} {way}");
        }
    }
}

/// `-a` copies what the target can hold; `--preserve=xattr` demands all.
#[test]
fn attributes_that_do_not_fit_are_left_out_as_by_gnu_cp() {
    require!(needs::loop_mount("ext4"), needs::tool("setfattr"), CopyProgram::needs_gnu());
    let sandbox = Sandbox::in_memory().unwrap();
    let disk = Mount::image("ext4", 64 << 20).unwrap();
    // Too big for a block of ext4, and small enough for the file system in memory.
    let value = "x".repeat(20_000);
    sandbox
        .script(&format!("echo 1 >f; setfattr -n user.big -v {value} f; setfattr -n user.a -v b f"))
        .unwrap();
    let (gnu, ours) = (CopyProgram::gnu().unwrap(), program!());
    for way in
        ["-a", "-p", "--preserve=all", "--preserve=xattr", "-a --preserve=xattr", "-a --attributes-only"]
    {
        let copy = |program: &CopyProgram| {
            let target = disk.path().join("f");
            let _absent = fs::remove_file(&target);
            let run = program.run().args(way.split(' ')).arg("f").arg(&target);
            let outcome = run.in_folder(sandbox.path()).finish().unwrap();
            let names = TestRun::new(&needs::find_tool("getfattr").unwrap()).args(["-d", "--absolute-names"]);
            (outcome, names.arg(&target).finish().unwrap().printed())
        };
        let ((expected, expected_names), (found, names)) = (copy(&gnu), copy(&ours));
        assert_eq!(found.ending, expected.ending, "{way}: {}", found.errors());
        assert_eq!(found.errors().is_empty(), expected.errors().is_empty(), "{way}: {}", found.errors());
        assert_eq!(names, expected_names, "{way}");
    }
}
