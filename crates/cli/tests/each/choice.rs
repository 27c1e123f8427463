//! The files that match are those that `find` finds.

use haul_testkit::{needs, require};

use super::{Scene, sorted};

const TREE: &str = "mkdir -p t/a/b t/c.d t/skip/in t/empty; echo 1 > t/x.txt; echo 22 > t/a/y.txt; : > t/a/b/z; \
    head -c 5000 /dev/zero > t/a/b/big.txt; echo > t/skip/in/hidden.txt; ln -s x.txt t/link.txt; ln -s a t/to-a; \
    ln -s gone t/c.d/dangling; mkfifo t/pipe; touch 't/it'\\''s a \"name\"' t/-dash t/*star; \
    touch -d 2001-01-01 t/x.txt; touch -d 2005-05-05 stamp; echo single > file";

/// Options of `haul each` with roots, and the equivalent `find` command.
const CHOICES: [(&str, &str); 15] = [
    ("t", "find t -type f"),
    ("t/", "find t/ -type f"),
    ("./t/a file", "find ./t/a file -type f"),
    ("t/a t/c.d t/skip", "find t/a t/c.d t/skip -type f"),
    ("--name *.txt t", "find t -type f -name *.txt"),
    ("--name z --name *.d* t", "find t -type f ( -name z -o -name *.d* )"),
    ("--exclude skip t", "find t -name skip -prune -o -type f -print"),
    ("--exclude *.txt --exclude b t", "find t ( -name *.txt -o -name b ) -prune -o -type f -print"),
    ("--type d t", "find t -type d"),
    ("--type l t", "find t -type l"),
    ("--type f,l,d --name *a* t", "find t ( -type f -o -type l -o -type d ) -name *a*"),
    ("--size +1K t", "find t -type f -size +1024c"),
    ("--size -3 t", "find t -type f -size -3c"),
    ("--size 3 t", "find t -type f -size 3c"),
    ("--newer stamp --type f t", "find t -newer stamp -type f"),
];

#[test]
fn the_files_that_match_are_those_that_find_finds() {
    require!(needs::tool("find"));
    let scene = Scene::of(TREE);
    for (ours, theirs) in CHOICES {
        let mut words = theirs.split_whitespace();
        let find = std::path::Path::new("/usr/bin").join(words.next().unwrap());
        let wanted = haul_testkit::TestRun::new(&find).args(words).in_folder(scene.path()).finish().unwrap();
        let outcome = scene.outcome(&format!("{ours} -- echo {{}}"));
        assert_eq!(sorted(&outcome.printed()), sorted(&wanted.printed()), "{ours}: {}", outcome.errors());
        assert_eq!(outcome.status(), Some(0), "{ours}");
        assert!(wanted.printed().lines().count() > 0, "{theirs} finds nothing");
    }
}

#[test]
fn links_are_followed_where_that_is_asked() {
    let scene = Scene::of("mkdir -p t/d; echo > t/d/f; ln -s .. t/d/up; ln -s d t/e");
    assert_eq!(sorted(&scene.outcome("-L t -- echo").printed()), ["t/d/f", "t/e/f"]);
    assert_eq!(sorted(&scene.outcome("t/e -- echo").printed()), ["t/e/f"]);
    assert_eq!(sorted(&scene.outcome("t -- echo").printed()), ["t/d/f"]);
}

#[test]
fn a_root_that_is_not_there_is_trouble_and_the_others_are_done() {
    let scene = Scene::of("mkdir t; echo > t/f");
    let outcome = scene.outcome("missing t nowhere/below -- echo");
    assert_eq!((outcome.status(), outcome.printed().as_str()), (Some(2), "t/f\n"));
    assert_eq!(
        sorted(&outcome.errors()),
        [
            "haul each: cannot access 'nowhere/below': No such file or directory",
            "haul each: cannot stat 'missing': No such file or directory"
        ]
    );
}

#[test]
fn patterns_match_characters_where_the_locale_has_them() {
    require!(needs::tool("find"));
    let scene = Scene::of("mkdir t; touch t/é t/è t/ab t/c t/aé");
    for locale in ["C", "C.UTF-8"] {
        for pattern in ["?", "??", "[é]", "a?", "[!a]"] {
            let words = ["t", "-type", "f", "-name", pattern];
            let find = haul_testkit::TestRun::new(std::path::Path::new("/usr/bin/find"));
            let find = find.args(words).in_folder(scene.path()).env("LC_ALL", locale);
            let ours = scene.each(["--name", pattern, "t", "--", "echo"]).env("LC_ALL", locale);
            let (wanted, found) = (find.finish().unwrap(), ours.finish().unwrap());
            assert_eq!(sorted(&found.printed()), sorted(&wanted.printed()), "{locale} {pattern}");
        }
    }
}
