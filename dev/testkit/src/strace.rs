//! The system calls of a run, parsed from an `strace` log.
//!
//! [`record`] runs a program under `strace -f -y` and returns its calls in the order they
//! started. Calls interrupted by another thread's line are joined. Arguments stay as printed,
//! split at top-level commas. Operations submitted to io_uring don't show up, so audits run the
//! synchronous engine.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::path::Path;

use crate::needs;
use crate::run::{RunOutcome, TestRun};

/// One system call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracedCall {
    /// ID of the calling thread.
    pub thread: u32,
    /// Name of the call.
    pub name: String,
    /// Arguments as printed.
    pub arguments: Vec<String>,
    /// Text after the equals sign.
    pub result: String,
}

impl TracedCall {
    /// Returns true if the call failed.
    pub fn failed(&self) -> bool {
        self.result.starts_with('-')
    }

    /// Returns an argument, or an empty string.
    pub fn argument(&self, index: usize) -> &str {
        self.arguments.get(index).map_or("", String::as_str)
    }

    /// Returns a path argument as bytes, if the argument is a string.
    pub fn path(&self, index: usize) -> Option<Vec<u8>> {
        unquote(self.argument(index))
    }

    /// Returns the path of an argument's descriptor (`3</a/b>`), as known to strace.
    pub fn descriptor_path(&self, index: usize) -> Option<&str> {
        let argument = self.argument(index);
        let start = argument.find('<')?;
        argument[start + 1..].strip_suffix('>')
    }

    /// Returns true if the directory argument is `AT_FDCWD` instead of an open directory.
    pub fn at_working_directory(&self, index: usize) -> bool {
        self.argument(index).starts_with("AT_FDCWD")
    }

    /// Returns true if an argument of combined flags contains `flag`.
    pub fn has_flag(&self, index: usize, flag: &str) -> bool {
        self.argument(index).split('|').any(|word| word == flag)
    }

    /// Parses an octal argument.
    pub fn octal(&self, index: usize) -> Option<u32> {
        u32::from_str_radix(self.argument(index), 8).ok()
    }

    /// Formats the call as one line.
    pub fn line(&self) -> String {
        format!("{}({}) = {}", self.name, self.arguments.join(", "), self.result)
    }
}

/// Runs a program under strace, tracing the calls named by `filter` (such as
/// `file,desc`, or `all`). The others are as fast as usual.
pub fn record(run: TestRun, filter: &str, log: &Path) -> io::Result<(RunOutcome, Vec<TracedCall>)> {
    let strace = needs::find_tool("strace").ok_or_else(|| io::Error::other("no strace"))?;
    let trace = format!("trace={filter}");
    // By default strace truncates strings to 32 bytes, which is too short for paths.
    let mut arguments: Vec<OsString> =
        ["-f", "--seccomp-bpf", "-y", "-qq", "-s", "8192", "-e", &trace, "-e", "signal=none", "-o"]
            .map(OsString::from)
            .into();
    arguments.push(log.into());
    arguments.push("--".into());
    let outcome = run.behind(&strace, arguments).finish()?;
    let text = std::fs::read(log)?;
    let mut calls = parse(&String::from_utf8_lossy(&text));
    if filter != "all" {
        // Calls that strace doesn't know yet (`cachestat`) pass every filter, named by number.
        calls.retain(|call| !call.name.starts_with("syscall_"));
    }
    Ok((outcome, calls))
}

/// Parses a log of `strace -f`.
pub fn parse(log: &str) -> Vec<TracedCall> {
    let mut calls = Vec::new();
    let mut unfinished: HashMap<u32, (usize, String)> = HashMap::new();
    for line in log.lines() {
        let Some((thread, rest)) = line.split_once(' ') else { continue };
        let Ok(thread) = thread.parse::<u32>() else { continue };
        let rest = rest.trim_start();
        if let Some(begun) = rest.strip_suffix("<unfinished ...>") {
            // Reserve the position at which the call started.
            unfinished.insert(thread, (calls.len(), begun.trim_end().to_owned()));
            calls.push(TracedCall {
                thread,
                name: String::new(),
                arguments: Vec::new(),
                result: "?".to_owned(),
            });
        } else if let Some(resumed) = rest.strip_prefix("<... ") {
            let Some((index, begun)) = unfinished.remove(&thread) else { continue };
            let ending = resumed.split_once("resumed>").map_or("", |(_, ending)| ending);
            if let Some(call) = parse_call(thread, &format!("{begun}{ending}")) {
                calls[index] = call;
            }
        } else {
            calls.extend(parse_call(thread, rest));
        }
    }
    // A call that never returned has only its first half.
    for (thread, (index, begun)) in unfinished {
        if let Some(call) = parse_call(thread, &format!("{begun}) = ?")) {
            calls[index] = call;
        }
    }
    calls.retain(|call| !call.name.is_empty());
    calls
}

fn parse_call(thread: u32, text: &str) -> Option<TracedCall> {
    let open = text.find('(')?;
    let name = &text[..open];
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return None;
    }
    let (arguments, rest) = split_arguments(&text[open + 1..])?;
    let result = rest.trim_start().strip_prefix('=')?.trim().to_owned();
    Some(TracedCall { thread, name: name.to_owned(), arguments, result })
}

/// Splits at top-level commas, up to the closing parenthesis. Also returns the rest.
fn split_arguments(text: &str) -> Option<(Vec<String>, &str)> {
    let mut arguments = Vec::new();
    let mut current = String::new();
    let mut depth = 0usize;
    let mut quoted = false;
    let mut angled = false;
    let mut characters = text.char_indices();
    while let Some((index, character)) = characters.next() {
        match character {
            '\\' if quoted || angled => {
                current.push(character);
                current.extend(characters.next().map(|(_, escaped)| escaped));
                continue;
            }
            '"' if !angled => quoted = !quoted,
            _ if quoted => {}
            // A descriptor's path follows its number in angle brackets. Other angle brackets are
            // comparisons or shifts.
            '<' if current.ends_with(|c: char| c.is_ascii_digit()) || current.ends_with("AT_FDCWD") => {
                angled = true
            }
            '>' if angled => angled = false,
            _ if angled => {}
            '(' | '[' | '{' => depth += 1,
            ')' if depth == 0 => {
                if !current.trim().is_empty() {
                    arguments.push(current.trim().to_owned());
                }
                return Some((arguments, &text[index + 1..]));
            }
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                arguments.push(current.trim().to_owned());
                current.clear();
                continue;
            }
            _ => {}
        }
        current.push(character);
    }
    None
}

/// Decodes strace's quoting: octal and C escapes.
fn unquote(text: &str) -> Option<Vec<u8>> {
    let inside = text.strip_prefix('"')?.strip_suffix('"')?.as_bytes();
    let mut bytes = Vec::new();
    let mut position = 0;
    while let Some(&byte) = inside.get(position) {
        position += 1;
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        let digits = inside[position..].iter().take(3).take_while(|byte| matches!(byte, b'0'..=b'7')).count();
        if digits > 0 {
            let value =
                inside[position..position + digits].iter().fold(0u32, |sum, d| sum * 8 + u32::from(d - b'0'));
            bytes.push((value & 0xff) as u8);
            position += digits;
            continue;
        }
        bytes.push(match inside.get(position)? {
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'v' => 11,
            b'f' => 12,
            other => *other,
        });
        position += 1;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = r#"10 openat(AT_FDCWD</tmp>, "a, b\")\377\n", O_RDONLY|O_CLOEXEC) = 3</tmp/a, b>
10 statx(3</tmp/a>, "", AT_EMPTY_PATH, STATX_ALL, {stx_mask=STATX_ALL, stx_mode=S_IFREG|0644}) = 0
11 mkdirat(4</t (x)>, "d", 0700 <unfinished ...>
12 close(5</tmp/a,b>)                      = 0
11 <... mkdirat resumed>)                  = -1 EEXIST (File exists)
13 futex(0x7f, FUTEX_WAIT_PRIVATE, 2, NULL <unfinished ...>
10 +++ exited with 0 +++
"#;

    #[test]
    fn a_log_becomes_calls() {
        let calls = parse(LOG);
        let names: Vec<_> = calls.iter().map(|call| call.name.as_str()).collect();
        assert_eq!(names, ["openat", "statx", "mkdirat", "close", "futex"]);
        let open = &calls[0];
        assert!(
            open.at_working_directory(0) && open.has_flag(2, "O_CLOEXEC") && !open.has_flag(2, "O_NOFOLLOW")
        );
        assert_eq!(open.path(1).unwrap(), b"a, b\")\xff\n");
        assert_eq!(calls[1].arguments.len(), 5);
        assert_eq!(calls[1].descriptor_path(0), Some("/tmp/a"));
        assert!(calls[2].failed());
        assert_eq!((calls[2].octal(2), calls[2].descriptor_path(0)), (Some(0o700), Some("/t (x)")));
        assert_eq!(calls[3].descriptor_path(0), Some("/tmp/a,b"));
    }

    #[test]
    fn a_real_run_is_recorded() {
        crate::require!(needs::tool("strace"));
        let sandbox = crate::Sandbox::in_memory().unwrap();
        let run = TestRun::new(Path::new("/bin/cat")).arg("/dev/null");
        let (outcome, calls) = record(run, "file,desc", &sandbox.join("log")).unwrap();
        assert!(outcome.succeeded(), "{}", outcome.errors());
        assert!(
            calls.iter().any(|call| call.name == "openat" && call.path(1).as_deref() == Some(b"/dev/null"))
        );
    }
}
