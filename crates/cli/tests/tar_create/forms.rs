//! Formats, compression, streams, member order and operands: the same members in every case.

use haul_testkit::{libc, needs, require};

use super::Scene;

/// A tree of many directories and files, some large, with long names and links.
const TREE: &str = "mkdir -p tree/{a,b,c}/{d,e,f}
    for file in tree/*/*/; do for n in {1..20}; do echo \"$file $n\" >$file/file$n; done; done
    long=$(printf 'n%.0s' {1..120}); mkdir -p tree/$long/$long; echo x >tree/$long/$long/$long; ln -s $long tree/link
    head -c 3000000 /dev/urandom >tree/a/large; ln tree/a/large tree/z; : >tree/empty; ln -s nowhere tree/dangling
    echo odd >$'tree/odd\\nname \\xff'; mkfifo tree/fifo";

#[test]
fn an_archive_in_order_of_names_is_the_same_whoever_makes_it_when() {
    let scene = Scene::on_disk(TREE);
    scene.good("$HAUL tar --sort=name --jobs=1 -cf 1.tar tree; cp -a tree copy; rm -r tree; mkdir copy2");
    // Recreate the tree with inode numbers in another order.
    scene.good("mv copy2 tree; (cd copy; find . | sort -r | cpio -pdm --quiet ../tree 2>/dev/null || cp -a . ../tree)");
    scene.good("cp -a copy/. tree/; touch -r copy tree");
    let options = "--sort=name --mtime=@7 --owner=0 --group=0";
    scene.good(&format!(
        "$HAUL tar {options} --jobs=8 -cf 2.tar tree; $HAUL tar {options} --jobs=1 -c tree >3.tar"
    ));
    scene.good("cmp 2.tar 3.tar");
    scene.good(&format!("(cd copy && cd ..; mv tree x; mv copy tree; $HAUL tar {options} -cf 4.tar tree)"));
    scene.good("cmp 2.tar 4.tar");
}

#[test]
fn compressed_archives_hold_the_same_bytes() {
    let scene = Scene::on_disk(TREE);
    scene.good("$HAUL tar --sort=name -cf plain.tar tree");
    for (option, program, name) in
        [("-z", "gzip", "a.tar.gz"), ("-j", "bzip2", "a.tar.bz2"), ("--zstd", "zstd", "a.tar.zst")]
    {
        require!(needs::tool(program));
        for jobs in [1, 5] {
            scene.good(&format!("$HAUL tar --jobs={jobs} --sort=name {option} -cf {name} tree"));
            scene.good(&format!("{program} -dc <{name} | cmp - plain.tar"));
            scene.good(&format!(
                "$HAUL tar --jobs={jobs} --sort=name {option} -c tree | {program} -dc | cmp - plain.tar"
            ));
        }
        scene.good(&format!(
            "rm {name}; $HAUL tar --sort=name -acf {name} tree; {program} -dc <{name} | cmp - plain.tar"
        ));
    }
}

#[test]
fn formats_are_those_of_gnu_tar() {
    require!(needs::tool("tar"));
    let scene = Scene::on_disk(TREE);
    for format in ["pax", "gnu"] {
        scene
            .good(&format!("$HAUL tar --format={format} --sort=name -cf a.tar tree; tar --compare -f a.tar"));
        let ours = scene.good("tar --full-time -tvf a.tar");
        let theirs = scene.good(&format!("tar --format={format} --sort=name -c tree | tar --full-time -tv"));
        assert_eq!(ours, theirs);
    }
    let refused = scene.shell("$HAUL tar --format=ustar -cf a.tar tree");
    assert_eq!(refused.status(), Some(2));
    assert!(refused.errors().contains("file name is too long (cannot be split); not dumped"));
    scene.good("tar -tf a.tar | grep tree/a/d/file7 >found");
}

#[test]
fn names_are_taken_from_where_they_are_said_to_be() {
    require!(needs::tool("tar"));
    let scene = Scene::on_disk(
        "mkdir -p d/e f g; echo 1 >d/1; echo 2 >d/e/2; echo 3 >f/3; echo 4 >4; echo 5 >g/5.o
        printf 'd/1\\nf\\n' >list; printf '4\\0g\\0' >list0; printf '*.o\\n' >patterns; : >none; printf '*.o \\r\\ne\\t\\n \\n' >spaces
        printf '%s\\n' 4 '-C d' 1 -Ce 2 --directory=../../f 3 >moves; ln -s d l; ln -s nowhere n; chmod 2775 g; chmod 7777 4
        touch $'new\\nline' 'a\\b'; printf '%s\\n' 'new\\nline' 'a\\\\b' '\\x' >quoted; mkdir 's p'; touch 's p/6'
        printf '%s\\n' --exclude=2 '-X \"patterns\"' '' d g ' --add-file=4' '-T list' \"-C 's p'\" 6 >options
        printf '%s\\n' --no-recursion d -- --recursion '-C g --no-recursion' . '-C ..' >bare",
    );
    for words in [
        "cf a.tar -C d 1 -C e 2 -C ../../f 3",
        "-cf a.tar 4 -C d . -C .. f",
        "cfC a.tar d 1 e",
        "-cf a.tar -T list",
        "-c --null -T list0 -f a.tar d",
        "-cf a.tar --exclude=2 d f",
        "-cf a.tar --exclude='e*' d/ f//",
        "-cf a.tar -X patterns .",
        "-cf a.tar -X spaces .",
        "-cf a.tar --no-recursion d f/3",
        "cvf a.tar d g",
        "-cf a.tar d d/1 d/../f",
        "-cPf a.tar $PWD/d ../$(basename $PWD)/f",
        "-cf a.tar ./d/./e",
        "-c --mode=u+rwX,go=rX,a-s --owner=me:77 --group=12 --mtime='2020-01-02 03:04Z' -f a.tar d",
        "-c --numeric-owner --one-file-system -f a.tar d",
        "-cf a.tar -T moves",
        "-cf a.tar -T none",
        "-cf a.tar -T options",
        "-cf a.tar --anchored -T options",
        "-cf a.tar -T bare f",
        "-cf a.tar d --no-recursion f -C g . -C ../d e",
        "-cf a.tar -T quoted",
        "-cf a.tar l/ n/ d/1/ f//",
        "-cf a.tar --exclude=e/ --exclude=d/e/ d",
        "-cf a.tar --exclude='[[:digit:]]' --exclude=g --anchored --exclude=e d g",
        "-cf a.tar --anchored --exclude=e --exclude=f d f",
        "-c -c -S -S --sort=name --sort=name -f a.tar d",
        "-c --mode==r -f a.tar 4 g",
        "-c --mode=755 -f a.tar 4 g",
        "-c --mode=00755 -f a.tar 4 g",
        "-c --mode=u=rwX,go=rX -f a.tar 4 g",
        "-c --mode==rwx -f a.tar 4 g",
        "-c --owner=nobody_has_this --group=a_name_of_more_than_thirty_one_bytes_of_a_directory:12 --format=pax -f a.tar d",
        "-cvvf a.tar d 4 l g",
        "-cvv --sort=name --mode=u+s --owner=root -f a.tar d/1 4 l g",
    ] {
        let list = |tar: &str| {
            let outcome = scene.shell(&format!("rm -f a.tar; {tar} {words} | sort; exit ${{PIPESTATUS[0]}}"));
            let members = scene.shell("tar -tvf a.tar 2>/dev/null | sort").printed();
            (outcome.status(), outcome.printed(), outcome.errors().replace("haul tar: ", "tar: "), members)
        };
        assert_eq!(list("$HAUL tar"), list("tar"), "{words}");
    }
}

#[test]
fn lines_of_a_list_that_begin_with_a_hyphen_are_options() {
    require!(needs::tool("tar"));
    let scene = Scene::on_disk("echo 1 >1");
    for (line, errors) in [
        ("-v", "list:1: unrecognized option"),
        ("--mtime=@0", "list:1: unrecognized option"),
        ("-C", "list:1: unrecognized option"),
        ("-C . 1", ""),
        ("-", ""),
        ("--exclude='1", "cannot split string '--exclude='1'"),
        ("-T list", "file list requested"),
        ("-T ./list", "file list requested"),
        ("-T missing", "missing: Cannot"),
        ("-X missing", "missing: "),
        ("-C missing", "missing: Cannot open: No such file or directory"),
    ] {
        std::fs::write(scene.path().join("list"), format!("{line}\n1\n")).unwrap();
        for tar in ["tar", "$HAUL tar"] {
            let outcome = scene.shell(&format!("{tar} -cf /dev/null -T list"));
            assert_eq!(outcome.status(), Some(2), "{tar} {line}");
            assert!(outcome.errors().contains(errors), "{tar} {line}: {}", outcome.errors());
        }
    }
    // GNU tar archives the file, since it has read the list only so far.
    std::fs::write(scene.path().join("list"), "1\n--exclude=1\n").unwrap();
    let outcome = scene.shell("$HAUL tar -cf /dev/null -T list");
    assert_eq!(outcome.status(), Some(2));
    assert!(outcome.errors().contains("list:2: exclusions must precede all names"), "{}", outcome.errors());
    // Members to extract are chosen once all lists are read.
    assert_eq!(scene.good("tar -cf a.tar 1; tar -tf a.tar -T list; $HAUL tar -tf a.tar -T list"), "");
    for tar in ["tar", "$HAUL tar"] {
        assert_eq!(scene.shell(&format!("{tar} -cf /dev/null 1 --no-recursion")).status(), Some(2));
    }
}

#[test]
fn patterns_are_those_of_the_shell_in_any_locale() {
    require!(needs::tool("tar"));
    let names = r"a ab é ß2 'a]' ']' '\' 'a\b' '[a' ':]' x-y A 日本 '*' $'\377' s/a s/é";
    let scene = Scene::on_disk(&format!("mkdir -p t/s; cd t; touch {names}"));
    let patterns = [
        "?",
        "??",
        "é",
        "[é]",
        "[!a]",
        "[^é]?",
        "[[:alpha:]]",
        "[[:alpha:][:digit:]]2",
        "[]a]",
        "a[\\]]",
        "[\\]]",
        "\\\\",
        "[a-z]",
        "[a-]",
        "[a",
        "[[=a=]]",
        "[[.a.]]b",
        "[[:none:]]",
        "[z-a]",
        "\\*",
        "s/?",
        "*/é",
        "日*",
    ];
    for locale in ["C", "C.UTF-8"] {
        for pattern in patterns {
            let list = |tar: &str| {
                let listed = "tar --quoting-style=literal -t | sort";
                scene.good(&format!("export LC_ALL={locale}; {tar} -c --exclude='{pattern}' t | {listed}"))
            };
            assert_eq!(list("$HAUL tar"), list("tar"), "{locale}: {pattern}");
        }
    }
}

#[test]
fn links_are_followed_if_that_is_asked_for() {
    require!(needs::tool("tar"));
    let scene = Scene::on_disk(
        "mkdir d e; echo 1 >e/1; ln -s ../e d/e; ln -s e/1 d/1; ln -s 1 d/2; echo x >f; ln -s f l",
    );
    scene.good("$HAUL tar --sort=name -chf a.tar d l; tar --sort=name -chf b.tar d l");
    assert_eq!(scene.good("tar -tvf a.tar"), scene.good("tar -tvf b.tar"));
    scene.good("mkdir out; tar -C out -xf a.tar; diff -r d out/d; cmp f out/l");
}

#[test]
fn attributes_that_cannot_be_listed_are_not_lost_silently() {
    let scene = Scene::on_disk("mkdir d; echo 1 >d/f");
    let list = [libc::SYS_flistxattr, libc::SYS_listxattr, libc::SYS_llistxattr];
    for error in [libc::ENOSYS, libc::EIO] {
        let words = ["--xattrs", "-cf", "a.tar", "d"];
        let outcome = scene.applet("tar", words).refusing(&list, error).finish().unwrap();
        assert_eq!(
            (outcome.status(), outcome.errors().lines().count()),
            (Some(2), 3),
            "{}",
            outcome.errors()
        );
        assert_eq!(scene.good("tar -tf a.tar"), "d/\nd/f\n");
    }
}

#[test]
fn what_a_format_has_no_room_for_is_not_lost() {
    require!(needs::tool("tar").or_else(|| needs::tool("setfattr")));
    let scene =
        Scene::on_disk("truncate -s 1M hole; echo end >>hole; setfattr -n user.k -v v hole; echo it >file");
    for format in ["gnu", "ustar"] {
        let refused = scene.shell(&format!("$HAUL tar -S --format={format} -cf a.tar hole"));
        assert_eq!((refused.status(), refused.errors().contains("--format=pax")), (Some(2), true));
        scene.good("test ! -e a.tar");
        scene.good(&format!(
            "$HAUL tar --format={format} --xattrs -cf a.tar hole; grep -q SCHILY a.tar; rm a.tar"
        ));
        let words = format!("--xattrs --format={format} -cf a.tar hole");
        let [ours, theirs] = ["$HAUL tar", "tar"].map(|tar| scene.shell(&format!("{tar} {words}")));
        assert_eq!((ours.status(), theirs.status()), (Some(2), Some(2)));
        let told = "--xattrs can be used only on POSIX archives\n";
        assert!(ours.errors().contains(told) && theirs.errors().contains(told), "{}", ours.errors());
        scene.good("test ! -e a.tar");
        scene.good(&format!("$HAUL tar --format={format} -cf a.tar hole; tar -df a.tar; rm a.tar"));
    }
    scene.good("$HAUL tar -S -cf a.tar hole; tar -df a.tar; test $(stat -c %s a.tar) -lt 100000");
}
