//! Standard input that others read too.

use std::fs;
use std::process::Command;

use haul_testkit::{Sandbox, needs, require};

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
