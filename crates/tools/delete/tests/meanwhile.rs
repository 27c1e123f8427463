//! Changes to the trees between the survey and the deletion: no entry is removed that the survey
//! hasn't seen, or that the source has by then.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;

use haul_delete::{DeleteKind, DeleteRequest, Limit, Options};
use haul_flow::{Alone, CancelToken, Config, OutputLine, Problem, Reporter, Standard, Status, Tally};
use haul_testkit::Sandbox;

#[derive(Default)]
struct Reports {
    problems: Mutex<Vec<Problem>>,
    counted: Mutex<Tally>,
}

impl Reporter for Reports {
    fn count(&self, more: Tally) {
        *self.counted.lock().unwrap() += more;
    }

    fn problem(&self, problem: Problem) {
        self.problems.lock().unwrap().push(problem);
    }

    fn line(&self, _: OutputLine) {}
    fn output(&self, _: Standard, _: &[u8]) {}
    fn debug(&self, _: &str) {}
}

fn options() -> Options {
    Options {
        excluded: false,
        limit: Limit::HalfOfMany,
        makes_way: true,
        empty_source: false,
        follows: false,
        one_file_system: false,
        keeps_times: false,
        own_files: Vec::new(),
        source_parts: Vec::new(),
        backup_place: None,
        waits_for_room: false,
        verbose: false,
        itemize: false,
        dry_run: false,
    }
}

/// Trees, and a directory that has nothing to do with them.
const SCENE: &str = "
    mkdir -p s/both/deep t/both/deep t/extra/sub/deep outside/sub/deep outside/deep
    for d in t/both t/both/deep t/extra t/extra/sub t/extra/sub/deep; do echo 1 >$d/one; echo 2 >$d/two; done
    for d in outside outside/sub outside/sub/deep outside/deep; do for f in one two precious; do echo $f >$d/$f; done; done
    for n in 1 2 3 4 5 6; do echo $n >s/$n; done
    find . -type d -exec touch -d 2020-01-01 {} +";

/// Deletes, with a script in the place of the copy. Returns the status and what was reported.
fn delete(folder: &Path, script: &str) -> (Status, Reports) {
    let path = |name: &str| CString::new(folder.join(name).as_os_str().as_bytes()).unwrap();
    let (source, target) = (path("s"), path("t"));
    let (options, config, reports) = (options(), Config::default(), Reports::default());
    let (config, cancel) = (&config, &CancelToken::default());
    let request = DeleteRequest { source: &source, target: &target, options: &options, config, cancel };
    let status = haul_delete::run(&Alone, request, &reports, |delete| {
        let mut shell = Command::new("sh");
        assert!(shell.args(["-ec", script]).current_dir(folder).status().unwrap().success(), "{script}");
        delete(Status::Success)
    });
    let status = status.unwrap();
    (status, reports)
}

fn exists(folder: &Path, names: &[&str]) -> Vec<bool> {
    names.iter().map(|name| std::fs::symlink_metadata(folder.join(name)).is_ok()).collect()
}

fn kinds(reports: &Reports) -> Vec<DeleteKind> {
    reports.problems.lock().unwrap().iter().filter_map(|problem| DeleteKind::of(problem.kind)).collect()
}

#[test]
fn whatever_happens_meanwhile_nothing_outside_is_touched() {
    // The change, the remaining entries of the target, and the reports.
    let swap = |one: &str, other: &str| format!("mv {one} saved; mv {other} {one}; mv saved {other}");
    let link = |at: &str| format!("mv {at} moved; ln -s $PWD/outside {at}");
    // Only a directory's mtime shows that its entries have changed.
    let hide = |change: String, at: &str| format!("{change}; touch -d 2020-01-01 {at}");
    let cases: &[(String, &[&str], &[DeleteKind])] = &[
        (String::new(), &[], &[]),
        // A directory that only the target has becomes another one, or a link.
        (swap("t/extra", "outside"), &["t/extra"], &[DeleteKind::Replaced]),
        (swap("t/extra/sub", "outside"), &["t/extra/sub", "t/extra/one"], &[DeleteKind::Changed]),
        (swap("t/extra/sub/deep", "outside"), &["t/extra/sub/deep"], &[DeleteKind::Changed]),
        (hide(swap("t/extra/sub", "outside"), "t/extra"), &["t/extra/sub"], &[DeleteKind::Replaced]),
        (
            hide(swap("t/extra/sub/deep", "outside"), "t/extra/sub"),
            &["t/extra/sub/deep"],
            &[DeleteKind::Replaced],
        ),
        (link("t/extra"), &["t/extra"], &[DeleteKind::Replaced]),
        // Links below it are removed, as any entry is.
        (hide(link("t/extra/sub"), "t/extra"), &[], &[]),
        (link("t/extra/sub"), &["t/extra/sub"], &[DeleteKind::Changed]),
        // A directory that both have does.
        (swap("t/both", "outside"), &["t/both/one"], &[DeleteKind::CannotRemove]),
        (swap("t/both/deep", "outside"), &["t/both/deep/one"], &[DeleteKind::CannotRemove]),
        (link("t/both"), &["t/both"], &[DeleteKind::CannotRemove]),
        // A file becomes another one, or a directory.
        (
            "echo new >t/new; mv t/new t/both/one".to_owned(),
            &["t/both/one", "t/both"],
            &[DeleteKind::Replaced],
        ),
        (
            "rm t/both/one; mkdir t/both/one; touch t/both/one/x".to_owned(),
            &["t/both/one/x"],
            &[DeleteKind::Replaced],
        ),
        // The source gets what it hadn't.
        (
            "mkdir s/extra; touch s/both/one s/both/deep/two".to_owned(),
            &["t/extra/sub/one", "t/both/one", "t/both/deep/two"],
            &[],
        ),
        // Somebody else removes it, or makes something new.
        ("rm -r t/extra t/both/one".to_owned(), &[], &[]),
        (
            "mkdir t/extra/new; touch t/extra/new/x t/both/new".to_owned(),
            &["t/extra/new/x", "t/extra/one", "t/both/new"],
            &[DeleteKind::Changed],
        ),
    ];
    for (script, stay, reported) in cases {
        let sandbox = Sandbox::in_memory().unwrap();
        sandbox.script(SCENE).unwrap();
        let outside = std::fs::File::open(sandbox.join("outside")).unwrap();
        let (status, reports) = delete(sandbox.path(), script);
        let mut kinds = kinds(&reports);
        kinds.dedup();
        assert_eq!(kinds, *reported, "{script}: {:?}", reports.problems.lock().unwrap());
        assert_eq!(status == Status::Success, reported.is_empty(), "{script}");
        assert_eq!(exists(sandbox.path(), stay), vec![true; stay.len()], "{script}");
        let find = format!("/proc/self/fd/{}/", std::os::fd::AsRawFd::as_raw_fd(&outside));
        let count = walkdir::WalkDir::new(find).into_iter().filter(|entry| entry.is_ok()).count();
        assert_eq!(count, 16, "{script}");
    }
}
