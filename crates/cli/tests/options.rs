//! The option system: every flag of every applet is accepted with a valid value, refused with the
//! same sentence in all applets with an invalid one, and listed in the help, the manual page and
//! the completions.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use haul_testkit::{Sandbox, needs, require};
use serde_json::Value;

/// Values that flags accept, where neither their keywords nor "1" will do.
const VALUES: [(&str, &str); 13] = [
    ("range-size", "1M"),
    ("size", "+1"),
    ("block-size", "4K"),
    ("mode", "u+x"),
    ("mtime", "@0"),
    ("binary-files", "text"),
    ("hash", "md5"),
    ("manifest-format", "bsd"),
    ("exclude-from", "/dev/null"),
    ("files-from", "/dev/null"),
    ("files0-from", "/dev/null"),
    ("newer-than", "1d"),
    ("older-than", "1d"),
];

/// Values that all flags of a name refuse, in any applet.
const INVALID: [(&str, &str); 17] = [
    ("jobs", "x"),
    ("engine", "none"),
    ("queue-depth", "0"),
    ("look-ahead", "-1"),
    ("progress", "sometimes"),
    ("stats", "xml"),
    ("events", "fd:1"),
    ("log-file", "-"),
    ("clients", "0"),
    ("account", "a b"),
    ("walltime", "1h"),
    ("queue", "-q"),
    ("launcher", " "),
    ("mpi-lib", ""),
    ("iops-limit", "-1"),
    ("max-latency", "-1"),
    ("control", "-"),
];

fn built() -> PathBuf {
    fs::canonicalize(env!("CARGO_BIN_EXE_haul")).unwrap()
}

fn run(program: &Path, words: &[&str]) -> Output {
    Command::new(program)
        .args(words)
        .env("LC_ALL", "C")
        .env_remove("POSIXLY_CORRECT")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns the applets with flags of their own: all but `bench` and `help`.
fn applets() -> Vec<Value> {
    let printed = run(&built(), &["--definitions"]).stdout;
    let commands: Vec<Value> = serde_json::from_slice(&printed).unwrap();
    commands.into_iter().filter(|command| !command["synopsis"].as_array().unwrap().is_empty()).collect()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap()
}

fn flags(applet: &Value) -> &[Value] {
    applet["flags"].as_array().unwrap()
}

/// Returns the forms of a flag: letters, then long names.
fn forms(flag: &Value) -> Vec<String> {
    let letters =
        flag["letters"].as_array().unwrap().iter().map(|letter| format!("-{}", letter.as_str().unwrap()));
    let aliases = flag["aliases"].as_array().unwrap().iter().filter_map(Value::as_str);
    let longs = std::iter::once(text(flag, "long")).chain(aliases).filter(|long| !long.is_empty());
    letters.chain(longs.map(|long| format!("--{long}"))).collect()
}

/// Returns a valid argument, if the flag requires one.
fn valid(flag: &Value) -> Option<String> {
    let argument = flag["argument"].as_object()?;
    let word = argument["words"].as_array().unwrap().first().and_then(Value::as_str);
    let own = VALUES.into_iter().find(|(name, _)| *name == text(flag, "long")).map(|(_, value)| value);
    let is_required = !argument["optional"].as_bool().unwrap();
    is_required.then(|| word.or(own).unwrap_or("1").to_owned())
}

fn generated(file: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file)).unwrap()
}

#[test]
fn the_variable_for_progress_counts_in_every_applet_that_shows_it() {
    let sandbox = Sandbox::in_memory().unwrap();
    // `ctl` only talks to one that does.
    for applet in applets().iter().filter(|applet| text(applet, "name") != "ctl") {
        let name = text(applet, "name");
        let mut haul = Command::new(env!("CARGO_BIN_EXE_haul"));
        let run = haul.arg(name).current_dir(sandbox.path()).stdin(Stdio::null());
        let output = run.env("HAUL_PROGRESS", "sometimes").output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && errors.contains("$HAUL_PROGRESS"), "{name}: {errors}");
    }
}

#[test]
fn every_flag_is_accepted_in_each_of_its_forms() {
    for applet in applets() {
        let name = text(&applet, "name");
        for flag in flags(&applet) {
            for form in forms(flag) {
                // Parsing ends at --help, so nothing is done.
                let mut words = vec![name.to_owned(), form.clone()];
                words.extend(valid(flag));
                words.push("--help".to_owned());
                let output = run(&built(), &words.iter().map(String::as_str).collect::<Vec<_>>());
                let shown = !output.stdout.is_empty() && output.stderr.is_empty();
                assert!(output.status.success() && shown, "{words:?}: {}", errors(&output));
            }
        }
    }
}

#[test]
fn flags_without_an_argument_refuse_one_and_others_require_it() {
    for applet in applets() {
        let name = text(&applet, "name");
        for flag in flags(&applet) {
            for long in forms(flag).iter().filter(|form| form.starts_with("--")) {
                let (word, wanted) = match flag["argument"].as_object() {
                    None => (format!("{long}=x"), format!("option '{long}' doesn't allow an argument")),
                    Some(argument) if !argument["optional"].as_bool().unwrap() => {
                        (long.clone(), format!("option '{long}' requires an argument"))
                    }
                    Some(_) => continue,
                };
                let output = run(&built(), &[name, &word]);
                let pointer = format!("Try 'haul {name} --help' for more information.");
                assert_eq!(errors(&output), format!("haul {name}: {wanted}\n{pointer}\n"));
            }
        }
    }
}

#[test]
fn an_invalid_value_is_refused_with_one_sentence_in_all_applets() {
    let mut sentences: BTreeMap<&str, Vec<(String, String)>> = BTreeMap::new();
    for applet in applets() {
        let name = text(&applet, "name");
        for (long, value) in INVALID {
            if !flags(&applet).iter().any(|flag| text(flag, "long") == long) {
                assert!(["spdcp", "ctl"].contains(&name), "--{long}");
                continue;
            }
            let output = run(&built(), &[name, &format!("--{long}={value}"), "--help"]);
            assert!(!output.status.success() && output.stdout.is_empty(), "{name} --{long}={value}");
            let sentence = errors(&output).replace(&format!("haul {name}"), "NAME");
            assert!(sentence.starts_with("NAME: invalid argument"), "{sentence}");
            sentences.entry(long).or_default().push((name.to_owned(), sentence));
        }
    }
    for (long, told) in sentences {
        assert_eq!(told.len(), 8, "{long}");
        assert!(told.iter().all(|(_, sentence)| *sentence == told[0].1), "{long}: {told:?}");
    }
}

#[test]
fn flags_that_need_clients_say_so_with_one_sentence() {
    for name in ["cp", "sync", "bzip2", "cmp", "each", "grep", "sum", "tar"] {
        let output = run(&built(), &[name, "--queue=q", "a", "b", "--", "c"]);
        let wanted = format!("haul {name}: option '--queue' has no effect without '--clients'\n");
        assert!(errors(&output).starts_with(&wanted), "{}", errors(&output));
    }
}

#[test]
fn every_flag_is_in_help_manual_page_and_completions() {
    let [bash, zsh, fish] =
        ["haul.bash", "_haul", "haul.fish"].map(|file| generated(&format!("completions/{file}")));
    for applet in applets() {
        let name = text(&applet, "name");
        let help = String::from_utf8(run(&built(), &[name, "--help"]).stdout).unwrap();
        let page = generated(&match name {
            "spdcp" => "docs/man/spdcp.1".to_owned(),
            name => format!("docs/man/haul-{name}.1"),
        });
        assert_eq!(help, generated(&format!("docs/help/{name}.txt")), "run 'cargo xtask gen'");
        assert!(help.lines().all(|line| line.len() < 80 || line.starts_with("  haul ")), "{help}");
        let words: Vec<&str> = help.split([' ', ',', '=', '[', '\n']).collect();
        for flag in flags(&applet) {
            for form in forms(flag) {
                assert!(words.contains(&form.as_str()), "{name}: help lacks {form}");
                let escaped = form.replace('-', "\\-");
                assert!(page.contains(&format!("\\fB{escaped}\\fR")), "{name}: manual page lacks {form}");
            }
            let first = forms(flag).pop().unwrap();
            let form =
                if text(flag, "long").is_empty() { first } else { format!("--{}", text(flag, "long")) };
            let line = bash.lines().rfind(|line| line.trim().starts_with(&format!("haul_{name}) words='-")));
            let words = line.unwrap().split(['\'', ' ', '=']).collect::<Vec<_>>();
            assert!(words.contains(&form.as_str()), "bash: {name} {form}");
            assert!(zsh.contains(&form), "zsh: {name} {form}");
            let dashless = form.trim_start_matches('-');
            assert!(
                [format!(" -l {dashless} "), format!(" -s {dashless} ")]
                    .iter()
                    .any(|option| fish.contains(option)),
                "fish: {name} {form}"
            );
        }
    }
}

#[test]
fn unambiguous_abbreviations_are_accepted_in_every_applet() {
    for (name, abbreviation, meant) in [
        ("cp", "--recu", Ok(())),
        ("cp", "--job=1", Ok(())),
        // GNU's --strip-trailing-slashes, although haul has --stats.
        ("cp", "--st=x", Err("option '--strip-trailing-slashes' doesn't allow an argument")),
        ("grep", "--perl", Ok(())),
        // GNU's, although haul has --progress and --sort.
        ("grep", "--p", Ok(())),
        ("grep", "--s=x", Err("option '--silent' doesn't allow an argument")),
        ("grep", "--w", Err("option '--w' is ambiguous; possibilities: '--word-regexp' '--with-filename'")),
        ("grep", "--prog=never", Ok(())),
        (
            "tar",
            "--ex",
            Err("option '--ex' is ambiguous; possibilities: '--extract' '--exclude' '--exclude-from'"),
        ),
        ("tar", "--eng=sync", Ok(())),
        ("bzip2", "--decomp", Ok(())),
        ("cmp", "--attr", Ok(())),
        ("each", "--dry", Ok(())),
        ("sum", "--deref", Ok(())),
    ] {
        let output = run(&built(), &[name, abbreviation, "--help"]);
        match meant {
            Ok(()) => assert!(output.status.success(), "{name} {abbreviation}: {}", errors(&output)),
            Err(sentence) => {
                let told = errors(&output);
                assert_eq!(told.lines().next(), Some(format!("haul {name}: {sentence}").as_str()));
            }
        }
    }
}

/// On a terminal only: scripts that read standard error get GNU's lines and nothing else.
#[test]
fn a_mistyped_option_gets_a_suggestion_on_a_terminal() {
    require!(needs::tool("script"));
    let sandbox = Sandbox::on_disk().unwrap();
    symlink(built(), sandbox.join("cp")).unwrap();
    for (program, words, meant) in [
        (sandbox.join("cp"), "--recusrive a b", "--recursive"),
        (built(), "cp --jbos=1 a b", "--jobs"),
        (built(), "grep --ignorecase a b", "--ignore-case"),
        (built(), "tar --exclud-from=x", "--exclude-from"),
        (built(), "each --enigne=sync a -- b", "--engine"),
    ] {
        let line = format!("{} {words}", program.display());
        let output = run(Path::new("script"), &["-qec", &line, "/dev/null"]);
        let shown = String::from_utf8(output.stdout).unwrap().replace('\r', "");
        let plain = errors(&run(Path::new("/bin/sh"), &["-c", &line]));
        assert_eq!(plain.lines().count(), 2, "{plain}");
        assert!(plain.contains(": unrecognized option '--"), "{plain}");
        assert_eq!(shown, format!("{plain}Did you mean '{meant}'?\n"));
    }
}

#[test]
fn spdcp_has_help_and_version() {
    let sandbox = Sandbox::on_disk().unwrap();
    symlink(built(), sandbox.join("spdcp")).unwrap();
    let linked = sandbox.join("spdcp");
    for (program, words, called) in [(&linked, vec![], "spdcp"), (&built(), vec!["spdcp"], "haul spdcp")] {
        for option in ["--help", "-h"] {
            let output = run(program, &[&words[..], &[option]].concat());
            assert_eq!((output.status.code(), errors(&output)), (Some(0), String::new()));
            let help = String::from_utf8(output.stdout).unwrap();
            assert!(help.starts_with(&format!("Usage: {called} [options] SRC DEST\n")), "{help}");
        }
        let output = run(program, &[&words[..], &["--version"]].concat());
        assert!(output.status.success() && output.stdout.starts_with(b"spdcp (haul "));
    }
}
