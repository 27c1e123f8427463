//! Archives that try to escape from the extraction directory, through names and links.

use std::os::unix::fs::symlink;
use std::path::Path;

use crate::archive::Header;
use crate::hostile::Status::{Fine, Refused};
use crate::hostile::{Case, a, case};

/// Creates the link `out` to the outside, as an earlier archive may have left it.
fn link_out(inside: &Path) {
    symlink("../outside", inside.join("out")).unwrap();
}

/// Names with `..`.
pub(crate) fn upward_names() -> Vec<Case> {
    vec![
        case("dot dot", Refused, a().file("../outside/planted", b"x")),
        case("dot dot in the middle", Refused, a().directory("d/").file("d/../../outside/planted", b"x")),
        case("dot dot at the end", Refused, a().file("d/..", b"x")),
        case("dot dot alone", Refused, a().directory("..")),
        case(
            "dot dot as a directory with a mode",
            Refused,
            a().member(Header::new("../", b'5', 0).mode(b"0000000"), b""),
        ),
        case(
            "dot dot in a long name",
            Refused,
            a().file([b"x/".repeat(80), b"../".repeat(90), b"outside/planted".to_vec()].concat(), b"x"),
        ),
        case(
            "dot dot by an extended header",
            Refused,
            a().extended(b'x', &[("path", b"../outside/planted")]).file("harmless", b"x"),
        ),
        case(
            "dot dot for all members",
            Refused,
            a().extended(b'g', &[("path", b"../outside/planted")]).file("harmless", b"x"),
        ),
        case(
            "dot dot by a prefix",
            Refused,
            a().raw(&Header::new("outside/planted", b'0', 1), b"x", |block| {
                block[345..347].copy_from_slice(b"..")
            }),
        ),
        case(
            "dot dot in the name of a sparse file",
            Refused,
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
        case("dot dot of a symbolic link", Refused, a().symlink("../outside/planted", "/etc/passwd")),
        case("dot dot of a hard link", Refused, a().file("f", b"x").hard_link("../outside/planted", "f")),
        case("dot dot of a FIFO", Refused, a().member(Header::new("../outside/planted", b'6', 0), b"")),
    ]
}

/// Absolute, invalid and odd names.
pub(crate) fn absolute_and_odd_names(outside: &str) -> Vec<Case> {
    let below = |name: &str| format!("{outside}/{name}");
    vec![
        case("absolute", Fine, a().file(below("planted"), b"x")),
        case("absolute with slashes", Fine, a().file(format!("///{}", below("planted")), b"x")),
        case(
            "absolute by an extended header",
            Fine,
            a().extended(b'x', &[("path", below("planted").as_bytes())]).file("f", b"x"),
        ),
        case("absolute over a file", Fine, a().file(below("secret"), b"changed")),
        case("absolute with dot dot", Refused, a().file(format!("{outside}/../outside/planted"), b"x")),
        case("empty name", Refused, a().file("", b"x")),
        case("dot", Refused, a().file(".", b"x")),
        case("slash", Fine, a().file("/", b"x")),
        case("a component that is too long", Refused, a().file(vec![b'n'; 300], b"x")),
        case("a name of a mebibyte", Refused, a().file(vec![b'n'; 1 << 20], b"x")),
        case(
            "a name without end",
            Refused,
            a().raw(&Header::new("././@LongLink", b'L', 1 << 33), b"", |_| {}),
        ),
        case(
            "NUL in a name",
            Refused,
            a().extended(b'x', &[("path", b"harmless\0/../../outside/planted")]).file("f", b"x"),
        ),
        case(
            "NUL in a link",
            Refused,
            a().extended(b'x', &[("linkpath", b"../outside\0")]).symlink("l", "x").file("l/planted", b"x"),
        ),
        case("a name that is not text", Fine, a().file(b"\xff\xfe\x01\n", b"x")),
        case("10,000 levels", Fine, a().file([b"d/".repeat(10_000), b"f".to_vec()].concat(), b"x")),
    ]
}

/// Symbolic links that other members go through.
pub(crate) fn symbolic_links(outside: &str) -> Vec<Case> {
    let secret = format!("{outside}/secret");
    vec![
        case("link, then a file through it", Refused, a().symlink("l", "../outside").file("l/planted", b"x")),
        case(
            "absolute link, then a file through it",
            Refused,
            a().symlink("l", outside).file("l/planted", b"x"),
        ),
        case(
            "link to a link",
            Refused,
            a().symlink("l", "../outside").symlink("m", "l").file("m/planted", b"x"),
        ),
        case(
            "link in a directory",
            Refused,
            a().directory("d/").symlink("d/l", "../../outside").file("d/l/planted", b"x"),
        ),
        case(
            "link to dot, then up",
            Refused,
            a().symlink("l", ".").symlink("m", "l/..").file("m/../outside/planted", b"x"),
        ),
        case(
            "link to dot dot in steps",
            Refused,
            a().symlink("l", ".").symlink("l/m", "..").file("l/m/outside/planted", b"x"),
        ),
        case("link, then a file in its place", Fine, a().symlink("l", &secret).file("l", b"changed")),
        case(
            "link, then a large file in its place",
            Fine,
            a().symlink("l", &secret).file("l", &vec![7; 2 << 20]),
        ),
        case(
            "link, then a directory in its place",
            Fine,
            a().symlink("l", "../outside").member(Header::new("l/", b'5', 0).mode(b"0000000"), b""),
        ),
        case(
            "link, then a directory and a file",
            Fine,
            a().symlink("l", "../outside").directory("l/").file("l/planted", b"x"),
        ),
        case(
            "link, then a FIFO through it",
            Refused,
            a().symlink("l", "../outside").member(Header::new("l/planted", b'6', 0), b""),
        ),
        case(
            "link, then a directory through it",
            Refused,
            a().symlink("l", "../outside").directory("l/planted/"),
        ),
        case(
            "link, then a link through it",
            Refused,
            a().symlink("l", "../outside").symlink("l/planted", "x"),
        ),
        case(
            "link, then a hard link through it",
            Refused,
            a().file("f", b"x").symlink("l", "../outside").hard_link("l/planted", "f"),
        ),
    ]
}

/// Hard links to targets that are outside or missing.
pub(crate) fn hard_links(outside: &str) -> Vec<Case> {
    let secret = format!("{outside}/secret");
    vec![
        case(
            "hard link to what a link leads to",
            Refused,
            a().symlink("l", "../outside").hard_link("h", "l/secret").file("h", b"changed"),
        ),
        case("hard link to outside", Refused, a().hard_link("h", "../outside/secret").file("h", b"changed")),
        case("hard link to an absolute name", Refused, a().hard_link("h", &secret).file("h", b"changed")),
        case(
            "hard link to a link, then a file",
            Fine,
            a().symlink("l", &secret).hard_link("h", "l").file("h", b"changed"),
        ),
        case(
            "hard link to a link, then through it",
            Refused,
            a().symlink("l", "../outside").hard_link("h", "l").file("h/planted", b"x"),
        ),
        case("hard link to itself", Refused, a().hard_link("h", "h")),
        case("hard link to a directory", Refused, a().directory("d/").hard_link("h", "d")),
        case("hard link to what comes later", Refused, a().hard_link("h", "f").file("f", b"x")),
    ]
}

/// Links that existed before, or that come and go.
pub(crate) fn links_there_already() -> Vec<Case> {
    vec![
        case(
            "a link that takes a directory's place",
            Refused,
            a().directory("d/").symlink("d", "../outside").file("d/planted", b"x"),
        ),
        case(
            "a link that comes back",
            Refused,
            a().symlink("l", "../outside").directory("l/").symlink("l", "../outside").file("l/planted", b"x"),
        ),
        case(
            "many links and files of one name",
            Refused,
            (0..200).fold(a(), |archive, _| archive.symlink("l", "../outside").file("l/planted", b"x")),
        ),
        case("a link there already", Refused, a().file("out/planted", b"x")).before(link_out),
        case("a link there already, a directory below it", Refused, a().directory("out/d/")).before(link_out),
        case(
            "a link there already, in a directory's place",
            Fine,
            a().member(Header::new("out/", b'5', 0).mode(b"0000000"), b""),
        )
        .before(link_out),
        case(
            "a link there already, kept, leads out",
            Refused,
            a().directory("out/").file("out/planted", b"x"),
        )
        .before(link_out)
        .with(&["--keep-directory-symlink"]),
        case(
            "a link made just now, kept, leads out",
            Refused,
            a().symlink("l", "..").file("l/outside/planted", b"x"),
        )
        .with(&["--keep-directory-symlink"]),
        case("a link there already, overwritten", Fine, a().file("out", b"changed"))
            .before(|inside| symlink("../outside/secret", inside.join("out")).unwrap())
            .with(&["--overwrite"]),
        case("a FIFO there already, overwritten", Fine, a().file("fifo", b"x"))
            .before(|inside| {
                let made = std::process::Command::new("mkfifo").arg(inside.join("fifo")).status().unwrap();
                assert!(made.success());
            })
            .with(&["--overwrite"]),
        case("a link round in a circle", Refused, a().symlink("l", "m").symlink("m", "l").file("l/f", b"x"))
            .with(&["--keep-directory-symlink"]),
        case("stripped down to a link", Refused, a().symlink("x/l", "../outside").file("x/l/planted", b"x"))
            .with(&["--strip-components=1"]),
        case("stripped down to dot dot", Refused, a().file("x/../../outside/planted", b"x"))
            .with(&["--strip-components=1"]),
    ]
}
