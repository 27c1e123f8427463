//! Another process that makes entries at the same time.

use std::fs;

use haul_testkit::{Sandbox, needs, require};

use crate::archive::{Archive, Header};
use crate::haul;

#[test]
fn entries_that_another_process_makes_at_the_same_time_are_no_error() {
    require!(needs::tool("strace"));
    let archive = Archive::new()
        .directory("was-file/")
        .file("d/f", b"new")
        .symlink("l", "new")
        .member(Header::new("p", b'6', 0), b"")
        .hard_link("h", "d/f")
        .end();
    // The directory was made after the look at it; the others are made again after each removal.
    let others = ["f", "l", "p", "h", "was-file"].map(|name| (name, "unlinkat:retval=0:when=1..3", 3));
    for (name, fault, count) in [("d", "openat:error=ENOENT:when=1", 1)].into_iter().chain(others) {
        let sandbox = Sandbox::in_memory().unwrap();
        sandbox
            .script("mkdir -p tree/d; cd tree; for n in d/f l p h was-file; do echo old >$n; done")
            .unwrap();
        let log = sandbox.join("log");
        let call = fault.split(':').next().unwrap();
        let (trace, inject) = (format!("trace={call}"), format!("inject={fault}"));
        let arguments =
            ["-f", "-qq", "-P", name, "-e", &trace, "-e", &inject, "-o", log.to_str().unwrap(), "--"];
        let run =
            haul().args(["tar", "--jobs=1", "-xf", "-"]).in_folder(&sandbox.join("tree")).input(&archive);
        let strace = needs::find_tool("strace").unwrap();
        let outcome = run.behind(&strace, arguments.map(Into::into).into()).finish().unwrap();
        assert_eq!(outcome.status(), Some(0), "{name}: {}", outcome.errors());
        assert_eq!(fs::read_to_string(&log).unwrap().matches("(INJECTED)").count(), count, "{name}");
        let made =
            "test -d tree/was-file -a -L tree/l -a -p tree/p -a tree/h -ef tree/d/f -a $(cat tree/h) = new";
        sandbox.script(made).unwrap();
    }
}
