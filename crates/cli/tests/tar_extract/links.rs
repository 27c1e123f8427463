//! Existing symbolic links where members are extracted to.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use haul_testkit::{Sandbox, needs, require};

use crate::archive::{Archive, Header};
use crate::semantics::{alike, extract};

/// With `-h`, links that are there already are followed: to directories, and to files that are
/// overwritten.
#[test]
fn existing_links_are_followed_as_by_gnu_tar() {
    require!(needs::tool("tar"));
    let archive = Archive::new()
        .file("f", b"new")
        .file("chain", b"newer")
        .file("dangling", b"newest")
        .member(Header::new("d/", b'5', 0).mode(b"0000700"), b"")
        .file("d/x", b"x")
        .file("d/deep/y", b"y")
        .symlink("l", "f")
        .file("large", &[b'x'; 5_000_000])
        .hard_link("h", "f")
        .end();
    let before = |folder: &Path| {
        for name in ["real", "real/d", "real/d/deep"] {
            fs::create_dir(folder.join(name)).unwrap();
        }
        for name in ["real/f", "real/g", "real/large", "real/l", "h"] {
            fs::write(folder.join(name), b"old and longer").unwrap();
        }
        for (name, leads_to) in [
            ("f", "real/f"),
            ("chain", "again"),
            ("again", "./real/../real//g"),
            ("dangling", "real/new"),
            ("d", "real/d"),
            ("l", "real/l"),
            ("large", "real/large"),
        ] {
            symlink(leads_to, folder.join(name)).unwrap();
        }
    };
    for options in [
        &["--overwrite", "-h"][..],
        &["-h"],
        &["--overwrite"],
        &["-h", "--skip-old-files"],
        &["-h", "-k"],
        &["-h", "--keep-directory-symlink"],
        &["-P", "-h", "--overwrite"],
        &["-P", "-h"],
    ] {
        alike(&archive, options, before);
    }
}

/// Except with `-P`, a link that leads out is an error, and nothing behind it is changed.
#[test]
fn links_that_lead_out_are_followed_only_with_absolute_names() {
    let archive = Archive::new().file("f", b"new").directory("d/").file("d/x", b"x").end();
    let absolute = Sandbox::in_memory().unwrap();
    for (to_file, to_directory) in [
        ("../f".to_owned(), "../d".to_owned()),
        (absolute.join("f").display().to_string(), absolute.join("d").display().to_string()),
    ] {
        let sandbox = Sandbox::in_memory().unwrap();
        for place in [sandbox.path(), absolute.path()] {
            fs::write(place.join("f"), b"old").unwrap();
            fs::remove_dir_all(place.join("d")).unwrap_or_default();
            fs::create_dir(place.join("d")).unwrap();
        }
        let out = sandbox.join("out");
        fs::create_dir(&out).unwrap();
        symlink(&to_file, out.join("f")).unwrap();
        symlink(&to_directory, out.join("d")).unwrap();
        let outcome = extract(&archive, &["-h", "--overwrite"], &out);
        assert_eq!(outcome.status(), Some(2));
        assert_eq!(outcome.errors().matches("leads outside").count(), 3, "{}", outcome.errors());
        for place in [sandbox.path(), absolute.path()] {
            assert_eq!(fs::read(place.join("f")).unwrap(), b"old");
            assert!(!place.join("d/x").exists());
        }
        let outcome = extract(&archive, &["-P", "-h", "--overwrite"], &out);
        assert!(outcome.succeeded(), "{}", outcome.errors());
        assert_eq!(fs::read(out.join("f")).unwrap(), b"new");
        assert_eq!(fs::read(out.join("d/x")).unwrap(), b"x");
        assert!(out.join("f").is_symlink() && out.join("d").is_symlink());
    }
}
