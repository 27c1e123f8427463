//! Messages and exit statuses match GNU tar's, for unreadable, changing and missing files.

use std::collections::BTreeSet;

use haul_testkit::{needs, require};

use super::Scene;

/// Runs GNU tar and haul with the same arguments; output, messages and exit status must match.
fn same(scene: &Scene, words: &str) {
    let run = |tar: &str| {
        let outcome = scene.shell(&format!("rm -f a.tar; {tar} {words}"));
        let told = outcome.errors().replace("haul tar: ", "tar: ");
        // Several workers report, and add operands, in any order.
        let told: BTreeSet<_> =
            told.lines().filter(|line| !line.starts_with("Try '")).map(str::to_owned).collect();
        let mut printed: Vec<_> = outcome.printed().lines().map(str::to_owned).collect();
        printed.sort();
        (outcome.status(), told, printed)
    };
    assert_eq!(run("$HAUL tar"), run("tar"), "{words}");
}

#[test]
fn what_goes_wrong_is_said_as_gnu_tar_says_it() {
    require!(needs::tool("tar"));
    let scene = Scene::on_disk(
        "mkdir d; echo 1 >d/1; ln -s nowhere d/dangling; mkdir $'odd\\n\\xff\\\\'; python3 -c '
import socket; socket.socket(socket.AF_UNIX).bind(\"d/socket\")'",
    );
    for words in [
        "-cf a.tar missing d/1",
        "-cf a.tar missing",
        "-cf a.tar",
        "-cf missing/a.tar d",
        "-cf a.tar -C missing d",
        "-cf a.tar d/1 -C missing",
        "-cf a.tar d",
        "-hcf a.tar d",
        "-cf a.tar $PWD/d/1 $PWD/d",
        "-cf a.tar ../$(basename $PWD)/d/1",
        "-cf a.tar --exclude=socket .",
        "-cf a.tar --exclude=missing missing/ d/1",
        "-cf a.tar --exclude=missing d/missing $PWD/missing/1 -C d 1",
        "-cf a.tar --exclude=gone missing gone",
        "-cf a.tar --exclude='d*' d",
        "-cvf a.tar odd*",
        "-cvf a.tar $PWD/odd* d/1",
        "-cvvf a.tar --owner=me $PWD/d/1 d/1",
        "-cvf - ../$(basename $PWD)/odd* >a.tar",
        "-cvPf a.tar $PWD/odd*",
        "-cvf - d/1 >a.tar",
        "-cf /dev/full d/1",
    ] {
        same(&scene, words);
    }
    for owner in ["--owner=999999999999", "--owner=4294967296", "--group=99999999999", "--group=a:4294967296"]
    {
        let [ours, theirs] = ["$HAUL tar", "tar"].map(|tar| {
            let outcome = scene.shell(&format!("{tar} -cf a.tar {owner} d/1"));
            let told = outcome.errors().lines().next().unwrap_or_default().replace("haul tar: ", "tar: ");
            (outcome.status(), told)
        });
        assert_eq!(ours, theirs, "{owner}");
    }
    let twice = scene.shell("$HAUL tar -cx d");
    assert_eq!((twice.status(), twice.errors().lines().count()), (Some(2), 2));
    let nothing = scene.shell("$HAUL tar d");
    assert_eq!((nothing.status(), nothing.errors().lines().count()), (Some(2), 2));
}

/// `--null` is for the lists that follow it. In others, a NUL is noticed.
#[test]
fn names_in_lists_end_with_a_newline_or_a_nul_as_in_gnu_tar() {
    require!(needs::tool("tar"));
    let scene = Scene::on_disk(
        r"mkdir d; touch a b e $'c\nd' d/x; printf 'a\nb\0c\nd\0e' >mixed; printf 'a\0b\0' >nul; printf 'a\nb\n' | tee lines >more
        printf -- '-T nul\n' >outer; printf -- '--null\n-T nul\n--no-null\n-T lines\n' >switches
        printf -- 'e\0-C d\0x\0\0' >options; printf 'e\0a\\142\0' >quoted; printf -- '-Clines\0' >verbatim",
    );
    for words in [
        "-cvf a.tar -T mixed",
        "-cvf a.tar -T nul",
        "-cvf a.tar --null -T nul --no-null -T lines",
        "-cvf a.tar -T lines --null -T nul",
        "-cvf a.tar --null -T nul -T lines",
        "-cvf a.tar -T outer",
        "-cvf a.tar -T outer -T lines",
        "-cvf a.tar -T switches -T more",
        "-cvf a.tar -T options",
        "-cvf a.tar -T quoted",
        "-cvf a.tar --null -T verbatim",
        "-cvf a.tar --null -T options",
    ] {
        same(&scene, words);
    }
    for words in ["-T nul --null", "-T lines --no-null", "--null -T nul --null"] {
        let outcome = scene.shell(&format!("$HAUL tar -cf a.tar {words}"));
        assert_eq!(outcome.status(), Some(2), "{words}");
        assert!(outcome.errors().contains("null has no effect after the last name"), "{}", outcome.errors());
    }
    // Members are chosen by the same lists.
    scene.good("tar -cf all.tar a b d");
    for words in ["--null -T nul", "-T lines --null -T nul", "-T nul", "-T lines --null"] {
        let run = |tar: &str| {
            let outcome = scene.shell(&format!("{tar} -tf all.tar {words}"));
            let told = outcome.errors().replace("haul tar: ", "tar: ");
            let told = told.replace("tar: Exiting with failure status due to previous errors\n", "");
            (outcome.status(), outcome.printed(), told)
        };
        assert_eq!(run("$HAUL tar"), run("tar"), "{words}");
    }
}

#[test]
fn an_empty_owner_is_one_without_a_name() {
    require!(needs::tool("tar"));
    let scene = Scene::on_disk("echo 1 >f; touch -d @1000 f; chown 1:1 f || true");
    for options in [
        "--owner=''",
        "--group=''",
        "--owner='' --group=''",
        "--owner= --group=:5",
        "--owner= --format=gnu",
        "--group= --format=ustar",
        "--owner= --numeric-owner",
        "--owner=x:7 --group=",
        "--owner=:",
        "--group=x:",
    ] {
        let run = |tar: &str| {
            let outcome = scene.shell(&format!(
                "rm -f a.tar; {tar} -cf a.tar {options} f && tar -tvf a.tar && tar --numeric-owner -tvf a.tar"
            ));
            let told = outcome.errors().lines().next().unwrap_or_default().replace("haul tar: ", "tar: ");
            (outcome.status(), outcome.printed(), told)
        };
        assert_eq!(run("$HAUL tar"), run("tar"), "{options}");
    }
}

#[test]
fn what_may_not_be_read_is_not_in_the_archive() {
    require!(needs::root(), needs::tool("tar"));
    let scene = Scene::on_disk(
        "chmod 777 .; mkdir d; echo 1 >d/1; echo 2 >d/2; : >d/3; chmod 0 d/2 d/3; mkdir d/closed; chmod 0 d/closed
        mkdir d/listed; echo 4 >d/listed/4; chmod 744 d/listed; cp $HAUL haul",
    );
    let run = |tar: &str| {
        let outcome = scene.shell(&format!(
            "rm -f a.tar; setpriv --reuid=65534 --regid=65534 --clear-groups {tar} -cf a.tar d"
        ));
        let mut told: Vec<_> =
            outcome.errors().replace("haul tar: ", "tar: ").lines().map(str::to_owned).collect();
        told.sort();
        (outcome.status(), told, scene.good("tar -tf a.tar | sort"))
    };
    assert_eq!(run("./haul tar"), run("tar"));
}

#[test]
fn a_file_that_is_shorter_than_it_says_is_filled_up() {
    require!(needs::tool("tar"));
    // Its st_size is a page, whatever its content.
    let file = "/sys/kernel/mm/transparent_hugepage/enabled";
    if !std::path::Path::new(file).exists() {
        haul_testkit::skip!("needs {file}");
    }
    let scene = Scene::on_disk("mkdir d; echo 1 >d/1");
    for words in
        [format!("-cPf a.tar d {file}"), format!("-cPzf a.tar {file} d"), format!("-cP {file} d >a.tar")]
    {
        same(&scene, &words);
        scene.good(&format!(
            "$HAUL tar {words} || true; tar -xPOf a.tar {file} | head -c 20 | cmp - <(head -c 20 {file})"
        ));
        scene.good("tar -tf a.tar | grep -x d/1 >found");
    }
}

#[test]
fn a_file_that_is_gone_when_it_is_to_be_read_leaves_nothing_behind() {
    require!(needs::tool("tar"));
    // The program blocks on the full pipe while the file is removed, with only part of the first
    // file read.
    let scene = Scene::on_disk(
        "mkdir d; head -c 20000000 /dev/urandom >d/a; for n in 1 2 3 4 5; do head -c ${n}0000 /dev/urandom >d/$n$n; done
        for n in 1 2 3 4 5; do mv d/$n$n d/b$n; done; ln d/b3 d/c; head -c 3000000 /dev/urandom >d/large; mkdir keep",
    );
    for (file, rest) in [("b3", "a b1 b2 b4 b5 large"), ("large", "a b1 b2 b3 b4 b5 c")] {
        let outcome = scene.shell(&format!(
            "rm -f archive; mkfifo archive; $HAUL tar --sort=name --jobs=1 -cf archive d &
            exec 3<archive; head -c 2000 <&3 >a.tar; mv d/{file} keep; cat <&3 >>a.tar; wait $!"
        ));
        assert_eq!(outcome.status(), Some(2), "{}", outcome.errors());
        let told = format!("haul tar: d/{file}: Cannot stat: No such file or directory\n");
        assert!(outcome.errors().contains(&told), "{}", outcome.errors());
        assert_eq!(
            outcome.errors().contains("Hard links to it in the archive are dangling"),
            file == "b3",
            "{}",
            outcome.errors()
        );
        for reader in ["tar -xf", "bsdtar -xf", "python3 -m tarfile -e", "$HAUL tar -xf"] {
            if file == "b3" && reader.starts_with("python3") {
                // Python stops at the first member that it can't create.
                continue;
            }
            // A hard link to the missing file can't be created.
            scene.shell(&format!("rm -rf out; mkdir out; cd out; {reader} ../a.tar"));
            scene.good(&format!("test ! -e out/d/{file}; for n in {rest}; do cmp d/$n out/d/$n; done"));
        }
        scene.good(&format!("mv keep/{file} d"));
    }
}

#[test]
fn an_archive_ends_before_what_is_gone_at_its_end() {
    let scene =
        Scene::on_disk("mkdir d; head -c 20000000 /dev/zero >d/a; echo b >d/m; echo y >d/y; echo z >d/z");
    let outcome = scene.shell(
        "mkfifo archive; $HAUL tar --sort=name --jobs=1 -cf archive d &
        exec 3<archive; head -c 2000 <&3 >a.tar; rm d/y d/z; cat <&3 >>a.tar; wait $!",
    );
    assert_eq!(outcome.status(), Some(2), "{}", outcome.errors());
    // Python requires a member after each extended header.
    assert_eq!(scene.good("python3 -m tarfile -l a.tar"), "d/ \nd/a \nd/m \n");
    assert_eq!(scene.good("tar -tf a.tar; $HAUL tar -tf a.tar"), "d/\nd/a\nd/m\n".repeat(2));
}

#[test]
fn nothing_is_read_for_an_archive_that_cannot_be_written() {
    require!(needs::tool("strace"));
    let scene = Scene::on_disk("head -c 300000000 /dev/zero >large");
    for options in ["--engine=sync", "--engine=sync --sort=name"] {
        let outcome = scene.shell(&format!(
            "strace -f -e trace=pread64 -o calls $HAUL tar {options} --block-size=128K -cf /dev/full large"
        ));
        assert_eq!(outcome.status(), Some(2), "{}", outcome.errors());
        let calls: usize = scene.good("grep -c pread64 calls || true").trim().parse().unwrap();
        assert!((1..600).contains(&calls), "{calls} of 2289 blocks were read");
    }
}

#[test]
fn a_file_that_changes_is_reported() {
    // The program blocks on the full pipe while the file is changed, with only part of it read.
    let scene = Scene::on_disk("mkdir d; head -c 20000000 /dev/zero >d/a; echo b >d/b");
    let outcome = scene.shell(
        "mkfifo archive; $HAUL tar --sort=name --jobs=1 -cf archive d &
        exec 3<archive; head -c 2000 <&3 >a.tar; echo more >>d/a; cat <&3 >>a.tar; wait $!",
    );
    assert_eq!(outcome.status(), Some(1), "{}", outcome.errors());
    assert_eq!(outcome.errors(), "haul tar: d/a: file changed as we read it\n");
    assert_eq!(scene.good("tar -tf a.tar"), "d/\nd/a\nd/b\n");
}
