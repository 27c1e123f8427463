//! Malicious archives. Each is extracted beside a directory that must not change, from a file and
//! from a pipe. Nothing may be written outside, nothing may hang, panic or exhaust memory, and the
//! exit status must show a refusal.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::Duration;

use haul_testkit::sandbox::remove_tree;
use haul_testkit::{Facts, Sandbox, Snapshot, TestRun, compare, random};

use crate::archive::{Archive, BLOCK, Header, pax, summed};
use crate::escapes::{absolute_and_odd_names, hard_links, links_there_already, symbolic_links, upward_names};
use crate::haul;

/// Maximum memory of an extraction, in bytes.
const MEMORY_MAX: u64 = 300 << 20;

#[derive(PartialEq)]
enum Status {
    /// 2: something was refused.
    Refused,
    /// 0: harmless as extracted here.
    Fine,
}
use Status::{Fine, Refused};

pub(crate) struct Case {
    label: &'static str,
    archive: Vec<u8>,
    before: fn(&Path),
    options: &'static [&'static str],
    status: Status,
}

/// A case whose extraction must exit with status 2 and say why.
pub(crate) fn refused(label: &'static str, archive: Archive) -> Case {
    raw(label, Refused, archive.end())
}

/// A case whose extraction must exit with status 0.
pub(crate) fn fine(label: &'static str, archive: Archive) -> Case {
    raw(label, Fine, archive.end())
}

impl Case {
    pub(crate) fn before(self, before: fn(&Path)) -> Self {
        Self { before, ..self }
    }

    pub(crate) fn with(self, options: &'static [&'static str]) -> Self {
        Self { options, ..self }
    }
}

fn raw(label: &'static str, status: Status, archive: Vec<u8>) -> Case {
    Case { label, archive, before: |_| {}, options: &[], status }
}

pub(crate) fn a() -> Archive {
    Archive::new()
}

/// Builds an old GNU sparse header with one extent.
fn old_sparse(offset: &[u8], length: &[u8], size: &[u8], stored: u64) -> Archive {
    let header = Header::new("s", b'S', stored).magic(b"ustar  \0");
    a().raw(&header, &vec![1; stored as usize], |block| {
        block[386..386 + offset.len()].copy_from_slice(offset);
        block[398..398 + length.len()].copy_from_slice(length);
        block[483..483 + size.len()].copy_from_slice(size);
    })
}

fn sparse() -> Vec<Case> {
    let version_1 = |map: &[u8], size: &[u8]| {
        let mut content = map.to_vec();
        content.resize(content.len().next_multiple_of(BLOCK), 0);
        a().extended(
            b'x',
            &[("GNU.sparse.major", b"1"), ("GNU.sparse.minor", b"0"), ("GNU.sparse.realsize", size)],
        )
        .member(Header::new("s", b'0', content.len() as u64), &content)
    };
    let listed = |map: &[u8], size: &[u8]| {
        a().extended(b'x', &[("GNU.sparse.size", size), ("GNU.sparse.map", map)]).file("s", b"0123456789")
    };
    vec![
        refused("sparse: beyond the end", old_sparse(b"00000001000", b"00000001000", b"00000001000", 512)),
        refused(
            "sparse: of 2^63 bytes",
            old_sparse(b"00000000000", b"00000001000", b"\x80\0\0\0\x80\0\0\0\0\0\0\0", 512),
        ),
        refused(
            "sparse: a negative offset",
            old_sparse(
                b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x00",
                b"00000001000",
                b"00000001000",
                512,
            ),
        ),
        refused("sparse: no number", old_sparse(b"junk", b"00000001000", b"00000001000", 512)),
        refused(
            "sparse: more than is stored",
            old_sparse(b"00000000000", b"00000002000", b"00000002000", 512),
        ),
        refused(
            "sparse: a map that goes on without end",
            a().raw(&Header::new("s", b'S', 512).magic(b"ustar  \0"), &[b'1'; 512 * 3], |block| {
                block[482] = 1
            }),
        ),
        refused("sparse: one over another", listed(b"0,5,3,5", b"100")),
        refused("sparse: out of order", listed(b"50,5,0,5", b"100")),
        refused("sparse: half a pair", listed(b"0,5,5", b"100")),
        refused("sparse: around all numbers", listed(b"18446744073709551615,10", b"18446744073709551615")),
        refused("sparse: of 2^64-1 bytes", listed(b"0,10", b"18446744073709551615")),
        refused("sparse: a map of a million million lines", version_1(b"1000000000000\n", b"100")),
        refused("sparse: lines without end", version_1(&[b'1'; 4096], b"100")),
        refused("sparse: a map that is cut off", version_1(b"3\n0\n", b"100")),
        refused(
            "sparse: a map longer than the content",
            version_1(&[b"100000\n".to_vec(), b"0\n0\n".repeat(300)].concat(), b"100"),
        ),
    ]
}

fn numbers() -> Vec<Case> {
    let sized =
        |size: &[u8]| a().raw(&Header::new("f", b'0', 0).size(size), b"x", |_| {}).file("after", b"y");
    vec![
        refused("a negative size", sized(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff")),
        refused("a size of 2^63-1", sized(b"\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff")),
        refused("a size beyond all numbers", sized(b"\x80\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff")),
        refused("a size that is no number", sized(b"12junk90123")),
        refused("a size of 8 GiB that is not there", sized(b"77777777777")),
        refused(
            "a size by an extended header of 2^64-1",
            a().extended(b'x', &[("size", b"18446744073709551615")]).file("f", b"x"),
        ),
        refused(
            "a size by an extended header that is no number",
            a().extended(b'x', &[("size", b"-1")]).file("f", b"x"),
        ),
        // The size in the extended header counts, so a header hidden in the content stays content,
        // even where an old reader would see a member.
        fine("a size that hides a member", {
            let hidden = a().symlink("l", "../outside").file("l/planted", b"x").0;
            a().extended(b'x', &[("size", hidden.len().to_string().as_bytes())]).raw(
                &Header::new("f", b'0', 1),
                &hidden,
                |_| {},
            )
        }),
        fine(
            "a size for a directory",
            a().extended(b'x', &[("size", b"512")]).member(Header::new("d/", b'5', 0).mode(b"0000755"), b""),
        ),
        refused(
            "a directory with content",
            a().extended(b'x', &[("size", b"512")])
                .member(Header::new("d/", b'5', 0).mode(b"0000755"), &[b'x'; 512]),
        ),
        refused(
            "numbers of nobody",
            a().extended(b'x', &[("uid", b"4294967296"), ("gid", b"18446744073709551615")]).file("f", b"x"),
        ),
        refused("a mode that is no number", a().member(Header::new("f", b'0', 1).mode(b"rwxr-x"), b"x")),
        fine(
            "a time beyond all clocks",
            a().extended(b'x', &[("mtime", b"9223372036854775807.999999999999")]).file("f", b"x"),
        ),
        refused("a time that is none", a().extended(b'x', &[("mtime", b"yesterday")]).file("f", b"x")),
    ]
}

fn extended() -> Vec<Case> {
    vec![
        refused("records that are none", a().extended_raw(b'x', b"hello").file("f", b"x")),
        refused(
            "a record longer than the header",
            a().extended_raw(b'x', b"999999 path=../x\n").file("f", b"x"),
        ),
        refused("a record of no length", a().extended_raw(b'x', b"0 path=x\n").file("f", b"x")),
        refused(
            "a record of a length beyond all numbers",
            a().extended_raw(b'x', b"99999999999999999999999 path=x\n").file("f", b"x"),
        ),
        refused(
            "an extended header of 8 GiB",
            a().raw(&Header::new("x", b'x', 0).size(b"77777777777"), b"", |_| {}),
        ),
        refused(
            "an extended header of 64 MiB",
            a().extended_raw(b'x', &vec![b'9'; 64 << 20]).file("f", b"x"),
        ),
        refused(
            "one for all members of a mebibyte",
            a().extended(b'g', &[("comment", &vec![b'c'; 1 << 20])]).file("f", b"x"),
        ),
        fine(
            "a thousand extended headers",
            (0..1000).fold(a(), |archive, _| archive.extended(b'x', &[("path", b"f")])).file("f", b"x"),
        ),
        fine(
            "an access list that is none",
            a().extended(b'x', &[("SCHILY.acl.access", b"user::rwx,nonsense")]).file("f", b"x"),
        )
        .with(&["--acls"]),
        fine("an attribute without a name", a().extended(b'x', &[("SCHILY.xattr.", b"x")]).file("f", b"x"))
            .with(&["--xattrs"]),
        fine(
            "an attribute nobody can set",
            a().extended(b'x', &[("SCHILY.xattr.nonsense.x", b"x")]).file("f", b"x"),
        )
        .with(&["--xattrs"]),
    ]
}

fn damage() -> Vec<Case> {
    let good = a().file("one", &[1; 3000]).file("two", &[2; 3000]).end();
    let cut = |length: usize| good[..length].to_vec();
    let mut wrong_sum = good.clone();
    wrong_sum[3584] ^= 0xff;
    let bomb = |level: usize| {
        let mut packer = std::process::Command::new("gzip");
        packer.args(["-9", "-c"]);
        let mut content = a().file("zeros", &vec![0; level]).end();
        content.truncate(level + BLOCK);
        piped(packer, &content)
    };
    vec![
        raw("nothing", Refused, Vec::new()),
        raw("a byte", Refused, vec![b'x']),
        raw("noise", Refused, random::bytes(1, 100_000)),
        raw("zeros only", Fine, vec![0; 100 * BLOCK]),
        raw("cut in a header", Refused, cut(300)),
        raw("cut in the content", Refused, cut(1000)),
        raw("cut in the second header", Refused, cut(3584 + 100)),
        raw("a wrong sum", Refused, wrong_sum),
        raw(
            "an end and then more",
            Fine,
            [good.clone(), a().file("../outside/planted", b"x").end()].concat(),
        ),
        raw(
            "an end and then more, read on",
            Refused,
            [good.clone(), a().file("../outside/planted", b"x").end()].concat(),
        )
        .with(&["-i"]),
        raw("compressed and cut", Refused, {
            let mut packed = bomb(1 << 20);
            packed.truncate(500);
            packed
        }),
        raw("compressed and damaged", Refused, {
            let mut packed = bomb(1 << 20);
            packed[200] ^= 0x55;
            packed[300] ^= 0x55;
            packed
        }),
        raw("compressed noise", Refused, [&[0x28, 0xb5, 0x2f, 0xfd][..], &[0x99; 1000]].concat()),
        raw("compressed noise of another kind", Refused, [&b"BZh9"[..], &[0x99; 1000]].concat()),
        raw("16 MiB in 16 KiB, without an end", Fine, bomb(16 << 20)),
    ]
}

fn special() -> Vec<Case> {
    let unreadable = summed({
        let mut block = [0xff; BLOCK];
        block[156] = b'0';
        block
    });
    vec![
        fine("an unknown kind", a().member(Header::new("f", b'Q', 1), b"x")),
        refused("the rest of a file", a().member(Header::new("f", b'M', 1), b"x")),
        refused("the name of a volume", a().member(Header::new("../outside/planted", b'V', 0), b"")),
        refused("a file below a file", a().file("f", b"x").file("f/planted", b"x")),
        fine(
            "a directory with content in a file's place",
            a().file("f", b"x").directory("f/").file("f/g", b"x"),
        ),
        refused(
            "a file in the place of a directory that is not empty",
            a().directory("d/").file("d/f", b"x").file("d", b"x"),
        ),
        fine(
            "a directory without rights",
            a().member(Header::new("d/", b'5', 0).mode(b"0000000"), b"").file("d/f", b"x"),
        ),
        fine(
            "a thousand files of one name",
            (0..1000_u32).fold(a(), |archive, number| archive.file("f", &number.to_le_bytes())),
        ),
        fine("set-id bits", a().member(Header::new("f", b'0', 1).mode(b"0006755"), b"x")),
        raw("a header of ones", Refused, [&unreadable[..], &[0; 2 * BLOCK]].concat()),
        fine(
            "ten thousand empty directories",
            (0..10_000).fold(a(), |archive, number| archive.directory(format!("d{number}/"))),
        ),
        fine(
            "records within records",
            a().extended(b'x', &[("comment", &pax(&[("path", b"../outside/planted")]))]).file("f", b"x"),
        ),
    ]
}

fn piped(mut program: std::process::Command, input: &[u8]) -> Vec<u8> {
    use std::process::Stdio;
    let mut child = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut pipe = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writer = std::thread::spawn(move || pipe.write_all(&input));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    output.stdout
}

/// Extracts one archive, and checks everything around the directory.
fn extract(case: &Case, from_pipe: bool, sandbox: &Sandbox, before: &Snapshot) -> Result<(), String> {
    let (outside, inside) = (sandbox.join("outside"), sandbox.join("inside"));
    remove_tree(&inside);
    fs::create_dir(&inside).unwrap();
    (case.before)(&inside);
    let archive = sandbox.join("archive.tar");
    fs::write(&archive, &case.archive).unwrap();
    let run = haul().args(["tar", "-x"]).args(case.options).arg("-C").arg(&inside);
    let run = match from_pipe {
        true => run.arg("-f").arg("-").input(&case.archive),
        false => run.arg("-f").arg(&archive),
    };
    let outcome = run.within(Duration::from_secs(30)).finish().unwrap();
    let fail = |what: String| {
        Err(format!("{} (pipe: {from_pipe}): {what}\n{:?}\n{}", case.label, outcome.ending, outcome.errors()))
    };
    if outcome.crashed() {
        return fail("crashed or hung".to_owned());
    }
    let wanted = if case.status == Fine { 0 } else { 2 };
    if outcome.status() != Some(wanted) {
        return fail(format!("status is not {wanted}"));
    }
    if case.status == Refused && outcome.stderr.is_empty() {
        return fail("nothing was said".to_owned());
    }
    if outcome.peak_bytes > MEMORY_MAX {
        return fail(format!("took {} bytes of memory", outcome.peak_bytes));
    }
    let after = Snapshot::take(&outside, Facts::PRESERVED).unwrap();
    let differences = compare(before, &after, Facts::PRESERVED).unwrap();
    if !differences.is_empty() {
        return fail(format!("the outside has changed: {differences}"));
    }
    let mut around: Vec<_> =
        fs::read_dir(sandbox.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    around.sort();
    if around != ["archive.tar", "inside", "outside"] {
        return fail(format!("beside the folder: {around:?}"));
    }
    Ok(())
}

/// Builds the directory that must not change.
fn prepare(outside: &Path) {
    fs::create_dir(outside).unwrap();
    fs::set_permissions(outside, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(outside.join("secret"), b"as it was").unwrap();
    fs::create_dir(outside.join("folder")).unwrap();
}

#[test]
fn no_archive_writes_outside_hangs_or_takes_much_memory() {
    let sandbox = Sandbox::in_memory().unwrap();
    let outside = sandbox.join("outside");
    prepare(&outside);
    let before = Snapshot::take(&outside, Facts::PRESERVED).unwrap();
    let path = outside.to_str().unwrap();
    let cases: Vec<_> = [
        upward_names(),
        absolute_and_odd_names(path),
        symbolic_links(path),
        hard_links(path),
        links_there_already(),
        sparse(),
        numbers(),
        extended(),
        damage(),
        special(),
    ]
    .into_iter()
    .flatten()
    .collect();
    assert!(cases.len() >= 100, "{} archives", cases.len());
    let failures: Vec<_> = cases
        .iter()
        .flat_map(|case| [false, true].map(|from_pipe| extract(case, from_pipe, &sandbox, &before)))
        .filter_map(Result::err)
        .collect();
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn a_link_that_stays_below_is_followed_if_asked() {
    let sandbox = Sandbox::in_memory().unwrap();
    let inside = sandbox.join("inside");
    fs::create_dir_all(inside.join("real/deep")).unwrap();
    symlink("real/deep/..", inside.join("l")).unwrap();
    let archive = a().directory("l/").file("l/f", b"x").end();
    let run = |options: &[&str]| {
        haul()
            .args(["tar", "-x", "-f", "-"])
            .args(options)
            .arg("-C")
            .arg(&inside)
            .input(&archive)
            .finish()
            .unwrap()
    };
    let outcome = run(&["--keep-directory-symlink"]);
    assert!(outcome.succeeded(), "{}", outcome.errors());
    assert_eq!(fs::read(inside.join("real/f")).unwrap(), b"x");
    assert!(fs::symlink_metadata(inside.join("l")).unwrap().is_symlink());
    assert!(run(&[]).succeeded());
    assert!(fs::symlink_metadata(inside.join("l")).unwrap().is_dir());
}

#[test]
fn devices_are_an_error_for_ordinary_users_and_the_rest_is_extracted() {
    let sandbox = Sandbox::in_memory().unwrap();
    let inside = sandbox.join("inside");
    fs::create_dir(&inside).unwrap();
    fs::set_permissions(&inside, fs::Permissions::from_mode(0o777)).unwrap();
    let device = Header::new("zero", b'3', 0);
    let archive = a()
        .file("before", b"x")
        .raw(&device, b"", |block| {
            block[329..336].copy_from_slice(b"0000001");
            block[337..344].copy_from_slice(b"0000005");
        })
        .member(Header::new("setuid", b'0', 1).mode(b"0006755"), b"x")
        .end();
    let program = sandbox.join("haul");
    // Another process writes it: a concurrent fork in this one could inherit the descriptor and
    // cause ETXTBSY.
    assert!(std::process::Command::new("cp").arg(crate::built()).arg(&program).status().unwrap().success());
    let run =
        TestRun::new(&program).args(["tar", "-x", "-f", "-", "-C"]).arg(&inside).input(&archive).umask(0o027);
    let run = if haul_testkit::needs::root().is_none() { run.as_nobody() } else { run };
    let outcome = run.finish().unwrap();
    assert_eq!(outcome.status(), Some(2), "{}", outcome.errors());
    assert!(outcome.errors().contains("zero: Cannot mknod: Operation not permitted"), "{}", outcome.errors());
    assert!(!inside.join("zero").exists());
    assert_eq!(fs::read(inside.join("before")).unwrap(), b"x");
    let mode = fs::metadata(inside.join("setuid")).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode, 0o750, "{mode:o}");
}
