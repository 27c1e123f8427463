//! `--block`: files are split into blocks whose output is joined.

use std::fs;

use haul_testkit::libc;

use super::Scene;

/// Returns lines of many lengths, some longer than a block.
fn text() -> Vec<u8> {
    let mut text = Vec::new();
    for number in 0..20_000_u32 {
        let length = if number % 5000 == 17 { 40_000 } else { number % 97 } as usize;
        text.extend(format!("{number} ").bytes());
        text.extend(std::iter::repeat_n(b'a' + (number % 26) as u8, length));
        text.push(b'\n');
    }
    text
}

#[test]
fn blocks_are_joined_in_order_and_cut_at_lines() {
    let scene = Scene::of("mkdir t");
    let text = text();
    fs::write(scene.path().join("t/f"), &text).unwrap();
    for size in ["1", "1K", "64K", "1M", "1G"] {
        if size == "1" {
            // One command per line takes long, so use a short file.
            fs::write(scene.path().join("few"), "a\n\nbc\nend").unwrap();
            let outcome = scene.outcome("--block 1 few -- sed s/$/|/");
            assert_eq!(outcome.printed(), "a|\n|\nbc|\nend|");
            continue;
        }
        if size == "1K" {
            fs::write(scene.path().join("some"), &text[..100_000]).unwrap();
            let outcome = scene.outcome("-j4 --block 1K some -- cat");
            assert!(outcome.stdout == text[..100_000], "--block {size}");
            continue;
        }
        for root in ["t/f", "t"] {
            let outcome = scene.outcome(&format!("-j4 --block {size} {root} -- cat"));
            assert_eq!((outcome.status(), outcome.errors()), (Some(0), String::new()));
            assert!(outcome.stdout == text, "--block {size} {root}");
        }
    }
    let counted = scene.outcome("-j4 --block 64K t/f -- wc -l");
    let sum: u32 = counted.printed().lines().map(|line| line.trim().parse::<u32>().unwrap()).sum();
    assert_eq!(sum, 20_000);
    assert!(counted.printed().lines().count() > 5);
}

#[test]
fn a_block_larger_than_the_memory_is_as_large_as_the_file() {
    let scene = Scene::of("seq 3 > f");
    let outcome = scene.outcome("--block 900000G f -- cat");
    assert_eq!(
        (outcome.status(), outcome.printed().as_str()),
        (Some(0), "1\n2\n3\n"),
        "{}",
        outcome.errors()
    );
}

#[test]
fn a_thread_that_cannot_be_had_is_reported() {
    let scene = Scene::of("seq 3 > f");
    // Without `clone3`, threads are created by `clone`, whose flags a filter can check.
    let run = scene.each(["-j1", "--block=1K", "f", "--", "cat"]).refusing(&[libc::SYS_clone3], libc::ENOSYS);
    let thread = u32::try_from(libc::CLONE_THREAD).unwrap();
    let outcome = run.refusing_bits(libc::SYS_clone, 0, thread, libc::EAGAIN).finish().unwrap();
    let wanted = "haul each: running commands will survive if haul is killed: Resource temporarily unavailable\n\
         haul each: cannot read the output of the command for 'f': Resource temporarily unavailable\n";
    assert_eq!((outcome.status(), outcome.errors().as_str()), (Some(2), wanted));
}

#[test]
fn outputs_of_several_files_are_not_mixed() {
    let scene = Scene::of("mkdir t; for i in 1 2 3 4 5; do seq -f \"$i.%g\" 20000 > t/$i; done");
    let outcome = scene.outcome("-j4 --block 16K --sort=path t -- cat");
    let wanted = scene.shell("cat t/?");
    assert!(outcome.stdout == wanted.stdout);
    let unsorted = scene.outcome("-j4 --block 16K t -- cat");
    let printed = unsorted.printed();
    let lines: Vec<_> = printed.lines().collect();
    assert_eq!(lines.len(), 100_000);
    assert!(lines.chunks(20_000).all(|file| file[0].split('.').next() == file[19_999].split('.').next()));
}

#[test]
fn blocks_that_fail_and_commands_that_do_not_read() {
    let scene = Scene::of("seq 100000 > f; : > empty");
    let outcome = scene.outcome("--block 100K f -- false");
    assert_eq!(outcome.status(), Some(1));
    assert!(outcome.errors().contains("haul each: 6 of 6 commands failed:\n"), "{}", outcome.errors());
    assert_eq!(scene.outcome("--block 100K f -- true").status(), Some(0));
    let outcome = scene.outcome("--block 100K empty -- wc -l");
    assert_eq!((outcome.status(), outcome.printed()), (Some(0), String::new()));
}
