//! Standard input that others read too, and standard output that nobody reads.

use std::fs;
use std::process::Command;

use haul_testkit::{Sandbox, needs, require};

use crate::archive::{Archive, Header};

#[test]
fn standard_input_is_read_from_where_it_is() {
    require!(needs::tool("tar"), needs::tool("bash"));
    let sandbox = Sandbox::in_memory().unwrap();
    let script = "
        for n in f g; do echo $n >$n; tar -b 1 -cf $n.tar $n; done; cat f.tar g.tar >both
        (head -c 0; echo line; cat g.tar) >self";
    sandbox.script(script).unwrap();
    let program = haul_testkit::CopyProgram::find(env!("CARGO_BIN_EXE_haul"));
    for (line, expected) in [
        ("(dd bs=$(stat -c %s f.tar) count=1 of=/dev/null status=none; \"$TAR\" tar -tf -) <both", "g\n"),
        ("(read -r line; \"$TAR\" tar -tf -) <self", "g\n"),
        ("(\"$TAR\" tar -tf -; wc -c) <f.tar", "f\n0\n"),
    ] {
        let mut shell = Command::new("bash");
        shell.args(["-c", line]).env("TAR", program.path()).current_dir(sandbox.path());
        let output = shell.output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{line}: {output:?}");
    }
}

/// What follows the last record of an archive on standard input is left for the next reader.
#[test]
fn standard_input_is_left_behind_the_archive() {
    require!(needs::tool("tar"), needs::tool("bash"));
    let sandbox = Sandbox::in_memory().unwrap();
    let script = "
        echo f >f; head -c 300000 /dev/zero >large; tar -cf a.tar f; tar -cf b.tar large f; tar -b1 -cf short.tar f
        (cat a.tar; echo rest) >one; (cat a.tar b.tar; echo rest) >two; (echo line; cat b.tar; echo rest) >after
        (cat short.tar; head -c 9000 /dev/zero | tr '\\0' x; echo rest) >short; cp short.tar only
        (head -c 1536 a.tar; head -c 9000 /dev/zero | tr '\\0' x; echo rest) >lone; head -c 20000 b.tar >cut";
    sandbox.script(script).unwrap();
    let program = haul_testkit::CopyProgram::find(env!("CARGO_BIN_EXE_haul"));
    let ours = format!("{} tar", program.path().display());
    for line in [
        "(TAR -tf -; echo $?; cat) <one",
        "(TAR -xf - -C out; echo $?; cat) <one",
        "(TAR -xOf -; echo $?; cat) <one",
        "(TAR -t; TAR -xC out; cat) <two",
        "(TAR -xOf - f; TAR -tf - nothing; cat) <two",
        "(read -r line; TAR -tf -; cat) <after",
        "(read -r line; TAR -xf - -C out f; cat) <after",
        "(TAR -tf -; cat) <short",
        "(TAR -tf -; wc -c) <only",
        "(TAR -tf -; wc -c) <lone",
        "(TAR -tf - ; wc -c) <cut",
        "(TAR -itf - ; wc -c) <two",
    ] {
        let run = |tar: &str| {
            let line = line.replace("TAR", tar);
            let script = format!("rm -rf out; mkdir out; {line}; find out -type f | sort");
            let mut shell = Command::new("bash");
            let output = shell.args(["-c", &script]).current_dir(sandbox.path()).output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        assert_eq!(run(&ours), run("tar"), "{line}");
    }
}

/// There is nothing else to do than to read, so whoever writes the archive sees that it isn't read.
#[test]
fn nothing_is_read_for_output_that_is_lost() {
    require!(needs::tool("bash"));
    let sandbox = Sandbox::in_memory().unwrap();
    let large = Archive::new().raw(&Header::new("large", b'0', 400_000_000), b"", |_| {}).0;
    fs::write(sandbox.join("large"), large).unwrap();
    let names = (0..1000).fold(Archive::new(), |archive, number| archive.file(format!("{number:0>99}"), b""));
    fs::write(sandbox.join("names"), names.0).unwrap();
    let haul = crate::built();
    for (archive, words) in [
        ("cat large && head -c 400000000 /dev/zero", "-xOf -"),
        ("for i in $(seq 300); do cat names || exit; done", "-tf -"),
    ] {
        let script = format!(
            "({archive} && : >marker) | (trap '' PIPE; LC_ALL=C exec {} tar {words} 2>errors) | head -c1 >first
            echo ${{PIPESTATUS[1]}}; ls marker; cat errors",
            haul.display()
        );
        let mut shell = Command::new("bash");
        let output = shell.args(["-c", &script]).current_dir(sandbox.path()).output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(printed, "2\nhaul tar: write error: Broken pipe\n", "{words}");
    }
}
