//! `-c` prints what `sha256sum -c` prints, and doesn't take a wrong guess for corruption.

use std::path::Path;
use std::process::Command;

use haul_testkit::require;

use super::{Scene, haul, sorted_lines};

/// Files, manifests with everything that can be wrong with one, and none of it.
const FILES: &str = "printf a > a; printf b > b; printf c > 'c d'; printf n > $'new\\nline'; printf s > $'new\\n\\\\slash'; mkdir dir; : > empty; \
    sha256sum a b 'c d' > good; sha256sum --tag a b > tagged; sha256sum $'new\\nline' $'new\\n\\\\slash' > escaped; \
    sed s/^./f/ good > wrong; (sha256sum a; echo rubbish; echo; echo '# comment'; sha256sum b; echo more) > mixed; \
    echo rubbish > rubbish; : > none; sed 's/  a$/  gone/' good > missing; sed 's/  .*/  gone/' good > all-missing; \
    sed 's/  a$/  dir/' good > directory; sed 's/  a$/  no\\/where/' good > nowhere; sed 's/  a$/  b\\/x/' good > below; \
    sed 's/  / */' good > binary; sed 's/  / /' good > reversed; sed 's/$/\\r/' good > crlf; tr a-f A-F < good > upper; \
    sed 's/^/  /' good > indented; md5sum a > md5; sha256sum a a a > thrice; printf '%s  a' $(printf a | sha256sum | cut -c-64) > no-end; \
    (sed 's/ .*/  -/' good | head -1) > input; cat good input > mixed-input; cat wrong missing > wrong-and-missing; sed 's/  .*/  gone/;s/^./f/' good >> all-missing";

/// Returns the reason to skip a comparison with coreutils, if any: 9.0 is the first that escapes
/// carriage returns.
fn needs_coreutils() -> Option<String> {
    let version = Command::new("/usr/bin/sha256sum").arg("--version").output();
    let is_known = version.is_ok_and(|output| output.stdout.starts_with(b"sha256sum (GNU coreutils) 9."));
    (!is_known).then(|| "needs sha256sum of coreutils 9".to_owned())
}

/// Runs both programs; status, output and messages must match. Returns the status.
fn alike(scene: &Scene, words: &str) -> Option<i32> {
    let [theirs, ours] =
        ["sha256sum".to_owned(), format!("{} sum --hash=sha256", haul().display())].map(|program| {
            let script = format!("printf a | {program} -c {words}");
            let run = scene.run(Path::new("/bin/bash"), ["-c", &script]).env("LC_ALL", "C").finish().unwrap();
            // Messages about different files have no order.
            let errors = run.errors().replace("haul sum: ", "sha256sum: ");
            (run.status(), run.printed(), sorted_lines(errors.as_bytes(), b'\n'))
        });
    assert_eq!(ours, theirs, "-c {words}");
    ours.0
}

#[test]
fn every_manifest_is_judged_as_by_coreutils() {
    require!(needs_coreutils());
    let scene = Scene::of(FILES);
    let mut seen = [0, 0];
    for manifest in [
        "good",
        "tagged",
        "escaped",
        "wrong",
        "mixed",
        "rubbish",
        "none",
        "missing",
        "all-missing",
        "directory",
        "nowhere",
        "below",
        "binary",
        "reversed",
        "crlf",
        "upper",
        "indented",
        "md5",
        "thrice",
        "no-end",
        "input",
        "wrong-and-missing",
        "absent",
        "good wrong good",
        "rubbish good",
        "mixed missing",
        "none good absent",
    ] {
        for flags in [
            "",
            "--quiet",
            "--status",
            "--warn",
            "--strict",
            "--strict --warn",
            "--ignore-missing",
            "--ignore-missing --quiet",
            "--ignore-missing --status",
            "--status --warn",
            "--quiet --strict -w",
        ] {
            let status = alike(&scene, &format!("{flags} {manifest}"));
            seen[usize::try_from(status.unwrap()).unwrap()] += 1;
        }
    }
    assert!(seen[0] > 50 && seen[1] > 50, "{seen:?}");
    alike(&scene, "< good");
    alike(&scene, "- < mixed");
    alike(&scene, "-w - < mixed");
    // Standard input can't be the manifest and a file.
    alike(&scene, "- < input");
    alike(&scene, "-w < input");
    alike(&scene, "--strict - < mixed-input");
    alike(&scene, "< /dev/null");
}

#[test]
fn with_64_digits_a_file_has_one_of_two_hashes() {
    let scene = Scene::of("for n in 1 2 3 4 5 6 7 8 9; do seq $n 1000 > $n; done; seq 1 999999 > large");
    scene.script("for n in [1-9] large; do $HAUL sum $n; $HAUL sum --hash=sha256 $n; done > SUMS");
    for jobs in ["-j1", "-j4"] {
        let outcome = scene.summed(&format!("-c {jobs} SUMS"));
        assert!(outcome.succeeded(), "{}", outcome.errors());
        assert_eq!(outcome.printed().matches(": OK\n").count(), 20);
    }
    // With a name for the hash, the lines of the other one are wrong.
    let outcome = scene.summed("-c --hash=sha256 SUMS");
    assert_eq!(outcome.printed().matches(": FAILED\n").count(), 10);
    assert_eq!(outcome.errors(), "haul sum: WARNING: 10 computed checksums did NOT match\n");
    scene.script(
        "$HAUL sum -c < SUMS > out; cat 5 | $HAUL sum - | sed 's/5$/-/' > one; cat 5 | $HAUL sum -c one; \
                  cat 5 | sha256sum - > one; cat 5 | $HAUL sum -c one",
    );
}

#[test]
fn a_corrupted_byte_is_found_wherever_it_is() {
    let scene = Scene::of("mkdir t; for n in 1 2 3; do seq $n 1000 > t/$n; done; seq 1 3000000 > t/large");
    for hash in ["blake3", "xxh128", "xxh64", "sha256", "md5"] {
        scene.script(&format!("$HAUL sum --hash={hash} --tag -o SUMS t; $HAUL sum -c --quiet SUMS"));
        for (file, at) in
            [("t/2", 0), ("t/2", 3890), ("t/large", 0), ("t/large", 9_000_001), ("t/large", 22_888_895)]
        {
            scene.script(&format!(
                "cp -p {file} kept; printf '\\377' | dd of={file} bs=1 seek={at} conv=notrunc status=none"
            ));
            let outcome = scene.summed("-c --quiet SUMS");
            assert_eq!(outcome.printed(), format!("{file}: FAILED\n"), "{hash}, byte {at}");
            assert_eq!(outcome.errors(), "haul sum: WARNING: 1 computed checksum did NOT match\n");
            assert_eq!(outcome.status(), Some(1));
            scene.script(&format!("mv kept {file}"));
        }
        scene.script("$HAUL sum -c --quiet SUMS");
    }
}

#[test]
fn verdicts_come_in_the_order_of_the_lines() {
    let scene = Scene::of(
        "mkdir d e; for n in $(seq 1 300); do echo $n > d/$n; echo $n > e/$n; done; seq 1 2000000 > d/1; \
         for n in $(seq 300 -1 1); do echo d/$n; echo e/$n; done > names; xargs sha256sum < names > SUMS; sed 's/$/: OK/' names > wanted",
    );
    for jobs in ["-j1", "-j3", "-j8"] {
        scene.script(&format!("$HAUL sum -c {jobs} SUMS > got; cmp got wanted"));
    }
}
