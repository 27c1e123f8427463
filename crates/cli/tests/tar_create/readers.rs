//! Every tar can read the archives, with all attributes.

use std::path::Path;

use haul_testkit::compare::compare_paths;
use haul_testkit::{Facts, Standin, cold, everything, needs, require, standin, strace};

use super::Scene;

/// Builds a tree of everything and archives it.
fn archived(options: &str) -> Scene {
    let scene = Scene::on_disk("mkdir out");
    everything::spec().build(&scene.path().join("tree")).unwrap();
    // Sockets are never archived (see messages.rs); the huge hole needs -S.
    let too_large = if options.contains("-S") { "" } else { "-o -name hole-huge" };
    scene.good(&format!("find tree \\( -type s {too_large} \\) -delete; $HAUL tar {options} -cf a.tar tree"));
    scene
}

fn equal(scene: &Scene, found: &Path, facts: Facts) {
    let differences = compare_paths(&scene.path().join("tree"), found, facts).unwrap();
    assert!(differences.is_empty(), "{differences}");
}

#[test]
fn gnu_tar_reads_everything_back() {
    require!(needs::root());
    require!(needs::tool("tar"));
    for options in ["--xattrs --acls -S", "--xattrs --acls --jobs=4 --sort=name"] {
        let scene = archived(options);
        scene.good("tar --xattrs '--xattrs-include=*' --acls -C out -xpf a.tar");
        let holes = if options.contains("-S") { Facts::empty() } else { Facts::HOLES };
        equal(&scene, &scene.path().join("out/tree"), Facts::PRESERVED - holes);
    }
}

#[test]
fn bsdtar_reads_everything_back() {
    require!(needs::root());
    require!(needs::tool("bsdtar"));
    let scene = archived("--xattrs --acls -S");
    // bsdtar reads -0.5 as half a second after 0, in any archive.
    scene.good("find tree ! -newermt 1970-01-01 -exec touch -hd 1970-01-02 {} + && $HAUL tar --xattrs --acls -Scf a.tar tree");
    scene.good("bsdtar --xattrs --acls -C out -xpf a.tar");
    equal(&scene, &scene.path().join("out/tree"), Facts::PRESERVED - Facts::HOLES);
}

#[test]
fn python_reads_everything_back() {
    require!(needs::root());
    require!(needs::tool("python3"));
    let scene = archived("-S");
    scene.good("python3 -c 'import tarfile; tarfile.open(\"a.tar\").extractall(\"out\")'");
    // Python keeps times to about a microsecond, and no attributes.
    let facts = Facts::CONTENT | Facts::MODE | Facts::OWNER | Facts::LINKS;
    equal(&scene, &scene.path().join("out/tree"), facts);
}

#[test]
fn haul_reads_everything_back() {
    require!(needs::root());
    let scene = archived("--xattrs --acls -S");
    scene.good("$HAUL tar --xattrs '--xattrs-include=*' --acls -C out -xpf a.tar");
    equal(&scene, &scene.path().join("out/tree"), Facts::PRESERVED - Facts::HOLES);
}

#[test]
fn a_real_tree_is_read_back() {
    require!(needs::tool("tar"));
    let scene = Scene::on_disk("mkdir out; cp -a /usr/share/perl5 tree || cp -a /usr/share/doc tree");
    scene.good("$HAUL tar -cf a.tar tree && tar -C out -xpf a.tar");
    equal(&scene, &scene.path().join("out/tree"), Facts::PRESERVED - Facts::ATTRIBUTES - Facts::HOLES);
}

#[test]
fn directories_keep_their_times_however_many_workers_are_in_them() {
    require!(needs::tool("tar"));
    let scene = Scene::on_disk(
        "mkdir out; for a in 1 2 3 4 5 6; do for b in 1 2 3; do mkdir -p tree/$a/$b/deep
        for n in 1 2 3 4 5; do head -c $((n * a * 9000)) /dev/zero >tree/$a/$b/$n; done
        head -c 1500000 /dev/zero >tree/$a/$b/deep/late; echo $a >tree/$a/$b/deep/small; done
        head -c 2000000 /dev/zero >tree/$a/large; done; find tree -depth -exec touch -hd @1234567890.5 {} +",
    );
    for options in ["--jobs=1", "--jobs=2", "--jobs=8", "--jobs=4 --engine=io-uring"] {
        scene.good(&format!("$HAUL tar {options} -cf a.tar tree; rm -rf out/*; tar -C out -xpf a.tar"));
        // tar restores a directory's times once a member from elsewhere follows.
        equal(&scene, &scene.path().join("out/tree"), Facts::PRESERVED - Facts::HOLES);
        assert_eq!(scene.good("tar -tf a.tar | sort | uniq -d"), "", "{options}");
    }
}

#[test]
fn each_file_is_opened_once() {
    require!(needs::tool("tar"));
    require!(needs::tool("strace"));
    // More members than may wait for their turn.
    let scene = Scene::on_disk(
        "mkdir tree; head -c 30000 /dev/urandom >it
        for d in $(seq 60); do mkdir -p tree/$((d % 7))/$d; for f in $(seq 50); do cp it tree/$((d % 7))/$d/$f; done; done; sync -f tree",
    );
    for (jobs, is_cold) in [(1, false), (1, true), (2, true), (4, false), (4, true)] {
        if is_cold {
            cold::make(&scene.path().join("tree")).unwrap();
        }
        let words = [&format!("--jobs={jobs}"), "--debug", "-cf", "a.tar", "tree"];
        let run = scene.applet("tar", words);
        let (outcome, calls) = strace::record(run, "openat", &scene.path().join("log")).unwrap();
        assert!(outcome.succeeded(), "{}", outcome.errors());
        let opened = calls.iter().filter_map(|call| call.result.split_once("/tree/"));
        let opened = opened.filter(|(_, name)| name.split('/').count() == 3).count();
        let told = outcome.errors();
        let deferrals = told.lines().find_map(|line| line.split_once("members deferred: "));
        let deferrals: usize = deferrals.unwrap().1.parse().unwrap();
        // Only a deferred file is opened again. One worker alone meets the files in the order of
        // the archive; of several, the scheduler may hold up the one that the others wait for.
        assert_eq!(opened, 60 * 50 + deferrals, "{jobs} {is_cold}");
        assert!(deferrals == 0 || jobs > 1, "{jobs} {is_cold}: {deferrals}");
        scene.good("tar -df a.tar");
    }
}

#[test]
fn workers_wait_for_one_that_is_held_up() {
    require!(needs::tool("tar").or_else(standin::needed));
    let standin = Standin::start(1, &["--latency=1500ms"]).unwrap();
    let slow = standin.client(0);
    // More data than may wait lies behind the slow file, and is read long before it.
    let scene = Scene::on_disk(&format!(
        "ln -s {slow} slow; echo it >slow/file; head -c 30000 /dev/urandom >it
        for d in $(seq 60); do mkdir -p tree/$d; for f in $(seq 50); do cp it tree/$d/$f; done; done; sync -f tree",
        slow = slow.display()
    ));
    let options = "--engine=sync --jobs=2 --debug -cf a.tar";
    let told = scene.good(&format!("$HAUL tar {options} slow/. tree 2>&1; tar -df a.tar"));
    assert!(told.contains("members deferred: 0\n"), "{told}");
}

#[test]
fn links_come_after_what_they_lead_to() {
    require!(needs::tool("tar"));
    // Hard links to files, to a link and to a FIFO; links that GNU tar creates last; and
    // directories that it can't reenter.
    let scene = Scene::on_disk(
        "mkdir out; for n in $(seq 40); do mkdir -p tree/$n; seq $n >tree/$n/own; ln -s ../own tree/$n/up; done; ln -s own tree/1/link
        for n in $(seq 2 40); do ln tree/$((n - 1))/own tree/$n/before; ln tree/$n/own tree/$((n - 1))/after
        ln tree/1/link tree/$n/link; done; mkfifo tree/7/fifo; ln tree/7/fifo tree/3; ln tree/7/fifo tree/9
        find tree -depth -exec touch -hd @1234567890.5 {} +; chmod 555 tree/*; chmod 777 out",
    );
    for options in ["--jobs=8", "--jobs=2", "--jobs=1", "--jobs=4 --engine=io-uring"] {
        scene.good(&format!("$HAUL tar {options} -cf a.tar tree; rm -rf out/*; tar -C out -xpf a.tar"));
        equal(&scene, &scene.path().join("out/tree"), Facts::PRESERVED - Facts::HOLES);
        assert_eq!(scene.good("tar -tf a.tar | sort | uniq -d"), "", "{options}");
        scene.good("rm -rf out/*; chmod 644 a.tar");
        if needs::root().is_none() {
            scene.good("cd out; setpriv --reuid 65534 --regid 65534 --clear-groups tar -xf - <../a.tar");
        }
    }
}

#[test]
fn large_members_are_read_back() {
    require!(needs::tool("tar"));
    let scene = Scene::on_disk(
        "mkdir out tree; head -c 20000001 /dev/urandom >tree/a; head -c 1048577 /dev/urandom >tree/b
        head -c 5000000 /dev/urandom >tree/c; ln tree/c tree/d; truncate -s 30M tree/e
        dd if=tree/a of=tree/e bs=1M seek=7 count=9 conv=notrunc status=none",
    );
    for options in [
        "-cf a.tar tree",
        "-Scf a.tar tree",
        "-c --jobs=3 -f a.tar tree",
        "-Sc tree >a.tar",
        "-cf - tree >a.tar",
    ] {
        scene.good(&format!("$HAUL tar {options}"));
        scene.good("rm -rf out/*; tar -C out -xpf a.tar");
        equal(
            &scene,
            &scene.path().join("out/tree"),
            Facts::CONTENT | Facts::MODE | Facts::MODIFIED | Facts::LINKS,
        );
    }
}
