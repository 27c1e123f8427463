//! Colours on a terminal, and without them.

use std::process::{Command, Stdio};

use haul_testkit::{Sandbox, needs, require};

use super::{Scene, needs_gnu, verdict};

/// Returns what a search prints on a terminal.
fn printed(option: &str, no_color: Option<&str>) -> String {
    let sandbox = Sandbox::in_memory().unwrap();
    std::fs::write(sandbox.join("a"), "text\n").unwrap();
    let line = format!("'{}' grep {option} text a", env!("CARGO_BIN_EXE_haul"));
    let mut script = Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).current_dir(sandbox.path()).stdin(Stdio::null());
    script.env("TERM", "xterm").env_remove("NO_COLOR").env_remove("GREP_COLORS");
    script.envs(no_color.map(|value| ("NO_COLOR", value)));
    String::from_utf8(script.output().unwrap().stdout).unwrap()
}

#[test]
fn no_color_turns_colors_off_unless_the_option_insists() {
    require!(needs::tool("script"));
    for (option, no_color, is_colored) in [
        ("--color=auto", None, true),
        ("--color=auto", Some(""), true),
        ("--color=auto", Some("1"), false),
        ("--color=always", Some("1"), true),
    ] {
        let printed = printed(option, no_color);
        assert!(printed.contains("text"), "{printed:?}");
        assert_eq!(printed.contains("\x1b["), is_colored, "{option} {no_color:?}: {printed:?}");
    }
}

#[test]
fn colors_are_read_as_by_gnu_grep() {
    require!(needs_gnu());
    let scene = Scene::of("printf 'foo\\nbar\\nfoo x\\n' > f");
    let values = "ne=1 rv=1:sl=3 rv:sl=3:cx=4 ms=1::mc=2 mc=2:mt ms=3:mt mt=4:mt= =1:ms=5 ms==1:ms=5 ms=a:mc=4 xx=a:ms=4 \
                  xx=1:ms=4 ms=4:= ms:sl=1 : ::ms=2: mt=1:ms=2:mt=:se= fn=1;2:ln=:bn=3";
    for value in values.split_whitespace() {
        for words in ["foo f", "-nbH x f", "-v x f", "-C1 bar f", "-vnC1 x f", "-o o f", "-lH foo f"] {
            let words: Vec<_> = words.split(' ').chain(["--color=always"]).collect();
            let run =
                |run: haul_testkit::TestRun| verdict(&run.env("GREP_COLORS", value).finish().unwrap(), false);
            let (ours, theirs) = (run(scene.haul(&words, "C")), run(scene.gnu(&words, "C")));
            assert_eq!(ours, theirs, "GREP_COLORS={value} grep {words:?}");
        }
    }
}
