//! Targets without offsets, as devices, pipes and FIFOs: the options that promise something hold
//! for them, or say that they don't.

use std::path::Path;

use haul_testkit::{RunOutcome, Sandbox, TestRun, needs, program, require};

/// Runs a script in a directory; `$HAUL` is the program.
fn script(sandbox: &Sandbox, script: &str) -> RunOutcome {
    let run = TestRun::new(Path::new("/bin/bash")).args(["-c", script]).env("LC_ALL", "C");
    run.env("HAUL", program!().path()).in_folder(sandbox.path()).finish().unwrap()
}

/// A block device with less room behind it than its size: writing to it succeeds, in memory.
const SMALL_DEVICE: &str = "mkdir m; mount -t tmpfs -o size=2m none m; truncate -s 16M m/b
    L=$(losetup -f --show m/b); head -c 8M /dev/urandom >image; $HAUL cp OPTIONS image $L; status=$?
    losetup -d $L; umount m; exit $status";

#[test]
fn block_devices_are_flushed() {
    require!(program!().needs_haul(), needs::root(), needs::tool("losetup"));
    for (options, fails) in [("", false), ("--fsync", true), ("--fsync=each", true)] {
        let sandbox = Sandbox::on_disk().unwrap();
        let commands = SMALL_DEVICE.replace("OPTIONS", options);
        let run = TestRun::new(Path::new("unshare")).args(["-m", "bash", "-c", &commands]);
        let run = run.env("HAUL", program!().path()).env("LC_ALL", "C").in_folder(sandbox.path());
        let outcome = run.finish().unwrap();
        let is_told = outcome.errors().contains("haul cp: error syncing '/dev/loop");
        assert_eq!((outcome.succeeded(), is_told), (!fails, fails), "{options}: {}", outcome.errors());
    }
}

#[test]
fn sources_that_change_are_reported() {
    require!(program!().needs_haul());
    for (option, status, told) in [
        ("", 0, ""),
        ("--if-changed=warn", 1, "haul cp: 'f' changed while it was copied\n"),
        ("--if-changed=retry", 1, "haul cp: 'f' changed while it was copied\n"),
    ] {
        let sandbox = Sandbox::in_memory().unwrap();
        // The copy waits for its reader when the FIFO is full.
        let commands = format!(
            "head -c 1000000 /dev/urandom >f; mkfifo p; $HAUL cp {option} f p & exec 3<p; head -c 1 <&3 >first
            printf x | dd of=f bs=1 seek=999999 conv=notrunc status=none; cat <&3 >rest; wait $!"
        );
        let outcome = script(&sandbox, &commands);
        assert_eq!((outcome.status(), outcome.errors().as_str()), (Some(status), told), "{option}");
        let stays = script(&sandbox, "mkfifo q; cat q >/dev/null & $HAUL cp --if-changed=warn f q");
        assert!(stays.succeeded(), "{}", stays.errors());
    }
}

#[test]
fn a_part_of_a_stream_does_not_keep_its_name() {
    require!(program!().needs_haul());
    for (command, stays) in
        [("cp -r --copy-contents s t", false), ("cp -r --copy-contents --no-atomic s t", true)]
    {
        let sandbox = Sandbox::in_memory().unwrap();
        let outcome = script(
            &sandbox,
            &format!(
                "mkdir s; mkfifo s/p; (head -c 100000 /dev/urandom >s/p) 2>said &
                ulimit -f 10; trap '' XFSZ; $HAUL {command}"
            ),
        );
        let wanted = "haul cp: error writing 't/p': File too large\n";
        assert_eq!((outcome.status(), outcome.errors().as_str()), (Some(1), wanted));
        assert_eq!(sandbox.join("t/p").exists(), stays, "{command}");
    }
}

#[test]
fn what_is_not_in_the_manifest_is_said() {
    require!(program!().needs_haul());
    let sandbox = Sandbox::in_memory().unwrap();
    let outcome =
        script(&sandbox, "echo x >f; $HAUL cp --manifest=m f /dev/stdout | cat; exit ${PIPESTATUS[0]}");
    let wanted = "haul cp: warning: '/dev/stdout' is not in the manifest, as it is not a regular file\n";
    assert_eq!((outcome.status(), outcome.errors().as_str()), (Some(0), wanted));
}
