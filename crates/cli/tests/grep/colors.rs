//! Colours on a terminal, and without them.

use std::process::{Command, Stdio};

use haul_testkit::{Sandbox, needs, require};

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
