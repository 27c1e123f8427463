//! Command lines run with bzip2 and with haul: messages, exit status and the resulting files
//! must match.

use std::fs;

use haul_testkit::{Sandbox, needs, require};

use crate::scene::{Whose, furnish, run, stand_ins};

const LINES: &[&str] = &[
    "bzip2 text",
    "bzip2 text other tree/one",
    "bzip2 -k text",
    "bzip2 -9 text && bzip2 -d text.bz2",
    "bzip2 -1 text && bunzip2 text.bz2",
    "bzip2 --best text; bzip2 --fast 'odd name'; bzip2 -s tree/one; bzip2 -345 empty",
    "bzip2 -- -dash; bunzip2 -- -dash.bz2",
    "cp -p text ./-; bzip2 -- -",
    "cp -p text ./-; bzip2 - < other | bzcat",
    "cp -p text ./-; bzip2 -k -- - other -- -dash",
    "cp -p text ./--; bzip2 -- -- < other | bzcat",
    "cp -p other.bz2 ./-; bunzip2 -k -- -",
    "cp -p other.bz2 ./-; bzcat -- - < twice.bz2",
    "cp -p other.bz2 ./-; bzcat - -- a.bz",
    "cp -p bad.bz2 ./-; bzip2 -t -- -",
    "bzip2 -- -",
    "bzip2 empty && bunzip2 empty.bz2",
    "bzip2 missing",
    "bzip2 missing/text text",
    "bzip2 tree",
    "bzip2 tree/ text",
    "bzip2 other.bz2; bzip2 a.bz b.tbz c.tbz2",
    "bzip2 -q other.bz2",
    "bzip2 other",
    "bzip2 -f other",
    "bzip2 soft",
    "bzip2 -q soft",
    "bzip2 -f soft",
    "bzip2 dangling",
    "bzip2 -f dangling",
    "bzip2 linked",
    "bzip2 -f linked",
    "ln text t2; ln text t3; bzip2 text",
    "bunzip2 a.bz b.tbz c.tbz2",
    "bunzip2 strange",
    "bunzip2 -q strange",
    "bunzip2 both",
    "bunzip2 -f both",
    "bunzip2 other.bz2",
    "bunzip2 -f other.bz2",
    "bunzip2 -k twice.bz2 none.bz2",
    "bunzip2 text",
    "bunzip2 plain.bz2",
    "bunzip2 -v plain.bz2",
    "bunzip2 garbage.bz2; chmod 644 garbage",
    "bunzip2 -q garbage.bz2; chmod 644 garbage",
    "bunzip2 short.bz2",
    "bunzip2 -q short.bz2",
    "bunzip2 -q bad.bz2",
    "bzip2 -tq short.bz2",
    "bunzip2 nothing.bz2",
    "bunzip2 bad.bz2",
    "bunzip2 tree; bunzip2 missing.bz2",
    "bzip2 -dk a.bz; bzip2 -z text; bunzip2 -z other",
    "bzip2 -t other.bz2 twice.bz2 none.bz2",
    "bzip2 -tv other.bz2 a.bz",
    "bzip2 -t short.bz2",
    "bzip2 -t bad.bz2",
    "bzip2 -t plain.bz2",
    "bzip2 -t nothing.bz2",
    "bzip2 -t garbage.bz2",
    "bzip2 -tv bad.bz2",
    "bzip2 -tv short.bz2 plain.bz2",
    "bzip2 -tq bad.bz2",
    "bzip2 -t < other.bz2",
    "bzip2 -t < bad.bz2",
    "bzip2 -tv < other.bz2",
    "bzcat a.bz other.bz2 twice.bz2",
    "bzcat < twice.bz2",
    "bzip2 -dc a.bz other.bz2",
    "bzcat missing a.bz",
    "bzcat -t a.bz",
    "bzcat --test < twice.bz2",
    "bzip2 -ct a.bz",
    "bzip2 -ct < twice.bz2",
    "bzcat plain.bz2",
    "bzip2 -dcf plain.bz2",
    "bzcat -f text",
    "bzcat garbage.bz2",
    "bzip2 -c text other | bzcat",
    "bzip2 -c soft | bunzip2 | cmp - text",
    "bzip2 < text | bzip2 -d | cmp - text",
    "bzip2 -c < text | bzcat - | cmp - text",
    "cat text | bzip2 | bunzip2 -c | cmp - text",
    "BZIP2=-k bzip2 text; BZIP='-d -k' bzip2 a.bz",
    "BZIP2='-k text' bzip2 empty",
    "bzip2 -d -z text; bzip2 -z -d a.bz",
    "bzip2 -kk -zz text; bzip2 -ddkcc a.bz other.bz2; bzip2 -tt -t b.tbz",
    "BZIP2=-c bzip2 -c --stdout text | bzcat -c",
    "bzip2 --repetitive-fast text; bzip2 -q --repetitive-best other",
    "bzip2 -v text",
    "bzip2 -v empty",
    "bunzip2 -v a.bz b.tbz",
    "bzip2 --keep --force text; bzip2 --decompress --stdout a.bz; bzip2 --test --verbose b.tbz",
    "bzip2 --decompress -z other.bz2",
    "bzip2 -k --fast -9 text; head -c 4 text.bz2; bzip2 -kc --best -1 text | head -c 4",
    "bzcat text -k --test other.bz2 -d",
    "bunzip2 --test -k other.bz2 -d",
    "bunzip2 -k --compress -t --decompress other.bz2",
    "chmod 0 other; bzip2 other; echo $?",
    "mkdir text.bz2; bzip2 text",
    "bzip2 -kf text; bzip2 -kf text; bunzip2 -f text",
];

#[test]
fn lines_do_what_they_do_with_bzip2() {
    require!(needs::tool("bzip2"));
    let sandbox = Sandbox::in_memory().unwrap();
    let programs = stand_ins(&sandbox);
    let furnished = sandbox.join("furnished");
    furnish(&furnished);
    let mut wrong = Vec::new();
    for line in LINES {
        let outcome = |whose| {
            let folder = sandbox.join("folder");
            let copied = std::process::Command::new("cp").arg("-a").arg(&furnished).arg(&folder).status();
            assert!(copied.unwrap().success());
            let outcome = run(line, &folder, whose, &programs);
            fs::remove_dir_all(&folder).unwrap();
            outcome
        };
        let (theirs, ours) = (outcome(Whose::Theirs), outcome(Whose::Ours));
        // Compression ratios depend on the encoder, so -v output may differ.
        let figures = line.contains("-v text");
        let same = theirs.status == ours.status
            && (figures || theirs.messages == ours.messages)
            && (theirs.output == ours.output || line.ends_with("bzip2 text"))
            && theirs.tree == ours.tree;
        if !same {
            let paths = |outcome: &crate::scene::Outcome| {
                outcome
                    .tree
                    .iter()
                    .map(|(path, facts)| format!("{}: {facts:.40}", path.display()))
                    .collect::<Vec<_>>()
            };
            let (there, here) = (paths(&theirs), paths(&ours));
            let only = |one: &[String], other: &[String]| {
                one.iter().filter(|line| !other.contains(line)).cloned().collect::<Vec<_>>()
            };
            wrong.push(format!(
                "{line}\n  theirs: {:?} {:?} {} bytes {:?}\n  ours:   {:?} {:?} {} bytes {:?}",
                theirs.status,
                theirs.messages,
                theirs.output.len(),
                only(&there, &here),
                ours.status,
                ours.messages,
                ours.output.len(),
                only(&here, &there),
            ));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), LINES.len(), wrong.join("\n"));
}
