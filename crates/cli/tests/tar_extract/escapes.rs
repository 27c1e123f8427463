//! Archives that try to escape from the extraction directory, through names and links.

use std::os::unix::fs::symlink;
use std::path::Path;

use crate::archive::Header;
use crate::hostile::{Case, a, fine, refused};

/// Creates the link `out` to the outside, as an earlier archive may have left it.
fn link_out(inside: &Path) {
    symlink("../outside", inside.join("out")).unwrap();
}

pub(crate) fn upward_names() -> Vec<Case> {
    vec![
        refused("dot dot", a().file("../outside/planted", b"x")),
        refused("dot dot in the middle", a().directory("d/").file("d/../../outside/planted", b"x")),
        refused("dot dot at the end", a().file("d/..", b"x")),
        refused("dot dot alone", a().directory("..")),
        refused(
            "dot dot as a directory with a mode",
            a().member(Header::new("../", b'5', 0).mode(b"0000000"), b""),
        ),
        refused(
            "dot dot in a long name",
            a().file([b"x/".repeat(80), b"../".repeat(90), b"outside/planted".to_vec()].concat(), b"x"),
        ),
        refused(
            "dot dot by an extended header",
            a().extended(b'x', &[("path", b"../outside/planted")]).file("harmless", b"x"),
        ),
        refused(
            "dot dot for all members",
            a().extended(b'g', &[("path", b"../outside/planted")]).file("harmless", b"x"),
        ),
        refused(
            "dot dot by a prefix",
            a().raw(&Header::new("outside/planted", b'0', 1), b"x", |block| {
                block[345..347].copy_from_slice(b"..")
            }),
        ),
        refused(
            "dot dot in the name of a sparse file",
            a().extended(
                b'x',
                &[
                    ("GNU.sparse.major", b"1"),
                    ("GNU.sparse.minor", b"0"),
                    ("GNU.sparse.name", b"../outside/planted"),
                    ("GNU.sparse.realsize", b"0"),
                ],
            )
            .member(Header::new("harmless", b'0', 512), &{
                let mut map = b"0\n".to_vec();
                map.resize(512, 0);
                map
            }),
        ),
        refused("dot dot of a symbolic link", a().symlink("../outside/planted", "/etc/passwd")),
        refused("dot dot of a hard link", a().file("f", b"x").hard_link("../outside/planted", "f")),
        refused("dot dot of a FIFO", a().member(Header::new("../outside/planted", b'6', 0), b"")),
    ]
}

pub(crate) fn absolute_and_odd_names(outside: &str) -> Vec<Case> {
    let below = |name: &str| format!("{outside}/{name}");
    vec![
        fine("absolute", a().file(below("planted"), b"x")),
        fine("absolute with slashes", a().file(format!("///{}", below("planted")), b"x")),
        fine(
            "absolute by an extended header",
            a().extended(b'x', &[("path", below("planted").as_bytes())]).file("f", b"x"),
        ),
        fine("absolute over a file", a().file(below("secret"), b"changed")),
        refused("absolute with dot dot", a().file(format!("{outside}/../outside/planted"), b"x")),
        refused("empty name", a().file("", b"x")),
        refused("dot", a().file(".", b"x")),
        fine("slash", a().file("/", b"x")),
        refused("a component that is too long", a().file(vec![b'n'; 300], b"x")),
        refused("a name of a mebibyte", a().file(vec![b'n'; 1 << 20], b"x")),
        refused("a name without end", a().raw(&Header::new("././@LongLink", b'L', 1 << 33), b"", |_| {})),
        refused(
            "NUL in a name",
            a().extended(b'x', &[("path", b"harmless\0/../../outside/planted")]).file("f", b"x"),
        ),
        refused(
            "NUL in a link",
            a().extended(b'x', &[("linkpath", b"../outside\0")]).symlink("l", "x").file("l/planted", b"x"),
        ),
        fine("a name that is not text", a().file(b"\xff\xfe\x01\n", b"x")),
        fine("10,000 levels", a().file([b"d/".repeat(10_000), b"f".to_vec()].concat(), b"x")),
    ]
}

/// Symbolic links that other members go through.
pub(crate) fn symbolic_links(outside: &str) -> Vec<Case> {
    let secret = format!("{outside}/secret");
    vec![
        refused("link, then a file through it", a().symlink("l", "../outside").file("l/planted", b"x")),
        refused("absolute link, then a file through it", a().symlink("l", outside).file("l/planted", b"x")),
        refused("link to a link", a().symlink("l", "../outside").symlink("m", "l").file("m/planted", b"x")),
        refused(
            "link in a directory",
            a().directory("d/").symlink("d/l", "../../outside").file("d/l/planted", b"x"),
        ),
        refused(
            "link to dot, then up",
            a().symlink("l", ".").symlink("m", "l/..").file("m/../outside/planted", b"x"),
        ),
        refused(
            "link to dot dot in steps",
            a().symlink("l", ".").symlink("l/m", "..").file("l/m/outside/planted", b"x"),
        ),
        fine("link, then a file in its place", a().symlink("l", &secret).file("l", b"changed")),
        fine("link, then a large file in its place", a().symlink("l", &secret).file("l", &vec![7; 2 << 20])),
        fine(
            "link, then a directory in its place",
            a().symlink("l", "../outside").member(Header::new("l/", b'5', 0).mode(b"0000000"), b""),
        ),
        fine(
            "link, then a directory and a file",
            a().symlink("l", "../outside").directory("l/").file("l/planted", b"x"),
        ),
        refused(
            "link, then a FIFO through it",
            a().symlink("l", "../outside").member(Header::new("l/planted", b'6', 0), b""),
        ),
        refused("link, then a directory through it", a().symlink("l", "../outside").directory("l/planted/")),
        refused("link, then a link through it", a().symlink("l", "../outside").symlink("l/planted", "x")),
        refused(
            "link, then a hard link through it",
            a().file("f", b"x").symlink("l", "../outside").hard_link("l/planted", "f"),
        ),
    ]
}

/// Hard links to targets that are outside or missing.
pub(crate) fn hard_links(outside: &str) -> Vec<Case> {
    let secret = format!("{outside}/secret");
    vec![
        refused(
            "hard link to what a link leads to",
            a().symlink("l", "../outside").hard_link("h", "l/secret").file("h", b"changed"),
        ),
        refused("hard link to outside", a().hard_link("h", "../outside/secret").file("h", b"changed")),
        refused("hard link to an absolute name", a().hard_link("h", &secret).file("h", b"changed")),
        fine(
            "hard link to a link, then a file",
            a().symlink("l", &secret).hard_link("h", "l").file("h", b"changed"),
        ),
        refused(
            "hard link to a link, then through it",
            a().symlink("l", "../outside").hard_link("h", "l").file("h/planted", b"x"),
        ),
        refused("hard link to itself", a().hard_link("h", "h")),
        refused("hard link to a directory", a().directory("d/").hard_link("h", "d")),
        refused("hard link to what comes later", a().hard_link("h", "f").file("f", b"x")),
    ]
}

/// Links that existed before, or that come and go.
pub(crate) fn links_there_already() -> Vec<Case> {
    vec![
        refused(
            "a link that takes a directory's place",
            a().directory("d/").symlink("d", "../outside").file("d/planted", b"x"),
        ),
        refused(
            "a link that comes back",
            a().symlink("l", "../outside").directory("l/").symlink("l", "../outside").file("l/planted", b"x"),
        ),
        refused(
            "many links and files of one name",
            (0..200).fold(a(), |archive, _| archive.symlink("l", "../outside").file("l/planted", b"x")),
        ),
        refused("a link there already", a().file("out/planted", b"x")).before(link_out),
        refused("a link there already, a directory below it", a().directory("out/d/")).before(link_out),
        fine(
            "a link there already, in a directory's place",
            a().member(Header::new("out/", b'5', 0).mode(b"0000000"), b""),
        )
        .before(link_out),
        refused("a link there already, kept, leads out", a().directory("out/").file("out/planted", b"x"))
            .before(link_out)
            .with(&["--keep-directory-symlink"]),
        refused(
            "a link made just now, kept, leads out",
            a().symlink("l", "..").file("l/outside/planted", b"x"),
        )
        .with(&["--keep-directory-symlink"]),
        fine("a link there already, overwritten", a().file("out", b"changed"))
            .before(|inside| symlink("../outside/secret", inside.join("out")).unwrap())
            .with(&["--overwrite"]),
        fine("a FIFO there already, overwritten", a().file("fifo", b"x"))
            .before(|inside| {
                let made = std::process::Command::new("mkfifo").arg(inside.join("fifo")).status().unwrap();
                assert!(made.success());
            })
            .with(&["--overwrite"]),
        refused("a link round in a circle", a().symlink("l", "m").symlink("m", "l").file("l/f", b"x"))
            .with(&["--keep-directory-symlink"]),
        refused("stripped down to a link", a().symlink("x/l", "../outside").file("x/l/planted", b"x"))
            .with(&["--strip-components=1"]),
        refused("stripped down to dot dot", a().file("x/../../outside/planted", b"x"))
            .with(&["--strip-components=1"]),
    ]
}
