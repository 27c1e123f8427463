//! `cp --manifest`: other programs check what it lists.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use haul_testkit::mount::Mount;
use haul_testkit::program::each_engine;
use haul_testkit::{CopyProgram, Sandbox, needs, program, require};

use super::build;

/// Runs haul in a directory. Returns the status and what it printed as an error.
fn run(ours: &CopyProgram, sandbox: &Sandbox, words: &[&str]) -> (Option<i32>, String) {
    let outcome = ours.run().args(words).in_folder(sandbox.path()).finish().unwrap();
    (outcome.status(), outcome.errors())
}

#[test]
fn a_manifest_lists_every_file_and_is_checked_by_b3sum() {
    let ours = program!();
    require!(ours.needs_haul());
    let sandbox = Sandbox::on_disk().unwrap();
    let source = sandbox.join("source");
    build(&source, &[0, 1, 1024, 1025, 100_000, 1 << 20, (5 << 20) + 3], 1);
    for name in [&b"odd\nname\\"[..], b"not-\xff-text"] {
        fs::write(source.join(std::ffi::OsStr::from_bytes(name)), name).unwrap();
    }
    let sparse = fs::File::create(source.join("sparse")).unwrap();
    sparse.set_len(3 << 20).unwrap();
    let mut lists = Vec::new();
    for engine in each_engine() {
        let options: Vec<_> = engine.iter().map(AsRef::as_ref).collect();
        let copy = ["-aT", "--manifest=SUMS", "source", "target"];
        let done = run(&ours, &sandbox, &[&options[..], &copy].concat());
        assert_eq!(done, (Some(0), String::new()), "{engine:?}");
        lists.push(fs::read(sandbox.join("SUMS")).unwrap());
    }
    assert!(lists.windows(2).all(|pair| pair[0] == pair[1]), "two runs list differently");
    assert_eq!(lists[0].iter().filter(|byte| **byte == b'\n').count(), 10);
    let check = |program: &str| {
        let checked =
            Command::new(program).args(["--check", "--quiet", "SUMS"]).current_dir(sandbox.path()).output();
        checked.unwrap()
    };
    if needs::tool("b3sum").is_none() {
        // b3sum knows only names that are UTF-8.
        fs::remove_file(source.join(std::ffi::OsStr::from_bytes(b"not-\xff-text"))).unwrap();
        assert_eq!(
            run(&ours, &sandbox, &["-aT", "--manifest=SUMS", "source", "target"]),
            (Some(0), String::new())
        );
        assert!(check("b3sum").status.success(), "{:?}", check("b3sum"));
        fs::write(sandbox.join("target/folder-1/file-1"), "x").unwrap();
        assert!(!check("b3sum").status.success());
    }
}

#[test]
fn other_forms_and_other_copies_are_listed_too() {
    let ours = program!();
    require!(ours.needs_haul());
    let sandbox = Sandbox::on_disk().unwrap();
    fs::write(sandbox.join("file"), "abc").unwrap();
    let hash = "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85";
    for (form, wanted) in [
        ("b3sum", format!("{hash}  copy\n")),
        ("bsd", format!("BLAKE3 (copy) = {hash}\n")),
        ("json", format!("{{\"path\":\"copy\",\"size\":3,\"algorithm\":\"blake3\",\"hash\":\"{hash}\"}}\n")),
    ] {
        for options in [["--verify"].as_slice(), &["--atomic", "--fsync"], &["--reflink=auto"], &[]] {
            let form_option = format!("--manifest-format={form}");
            let line = [options, &["--manifest=list", &form_option, "file", "copy"]].concat();
            assert_eq!(run(&ours, &sandbox, &line).0, Some(0), "{line:?}");
            let list = fs::read_to_string(sandbox.join("list")).unwrap();
            let keys = |text: &str| {
                let mut keys: Vec<_> =
                    text.trim_matches(['{', '}', '\n']).split(',').map(str::to_owned).collect();
                keys.sort();
                keys
            };
            assert_eq!(keys(&list), keys(&wanted), "{line:?}");
        }
    }
}

#[test]
fn a_manifest_lists_what_was_copied_and_nothing_else() {
    let ours = program!();
    require!(ours.needs_haul());
    let sandbox = Sandbox::on_disk().unwrap();
    for name in ["one", "two"] {
        fs::write(sandbox.join(name), name).unwrap();
    }
    fs::create_dir(sandbox.join("to")).unwrap();
    let (status, errors) = run(&ours, &sandbox, &["--manifest=list", "one", "missing", "two", "to"]);
    assert_eq!(
        (status, errors.as_str()),
        (Some(1), "haul cp: cannot stat 'missing': No such file or directory\n")
    );
    let names = |text: String| text.lines().map(|line| line[66..].to_owned()).collect::<Vec<_>>();
    assert_eq!(names(fs::read_to_string(sandbox.join("list")).unwrap()), ["to/one", "to/two"]);
    // A file that is skipped is not vouched for.
    run(&ours, &sandbox, &["-u", "--manifest=list", "one", "two", "to"]);
    assert_eq!(fs::read_to_string(sandbox.join("list")).unwrap(), "");
}

#[test]
fn a_manifest_that_cannot_be_written_is_an_error() {
    let ours = program!();
    require!(ours.needs_haul());
    let sandbox = Sandbox::in_memory().unwrap();
    fs::write(sandbox.join("file"), "abc").unwrap();
    fs::create_dir(sandbox.join("directory")).unwrap();
    for path in ["missing/list", "directory"] {
        let (status, errors) = run(&ours, &sandbox, &[&format!("--manifest={path}"), "file", "copy"]);
        assert_eq!(status, Some(1), "{path}");
        assert!(errors.starts_with(&format!("haul cp: cannot write '{path}': ")), "{errors}");
        assert!(!sandbox.join("copy").exists(), "{path}: something was copied first");
    }
    // It would replace what is copied.
    for words in ["--manifest=file file copy", "--manifest=./file directory file copy"] {
        let words: Vec<_> = words.split(' ').collect();
        let (status, errors) = run(&ours, &sandbox, &words);
        assert!(status == Some(1) && errors.contains("are the same file"), "{words:?}: {errors}");
        assert_eq!(fs::read_to_string(sandbox.join("file")).unwrap(), "abc");
    }
    for words in [["--manifest-format=json"], ["--manifest=list --link"]] {
        let words: Vec<_> = words[0].split(' ').chain(["file", "copy"]).collect();
        assert_eq!(run(&ours, &sandbox, &words).0, Some(1), "{words:?}");
        assert!(!sandbox.join("copy").exists() && !sandbox.join("list").exists(), "{words:?}");
    }
    require!(needs::root());
    let full = Mount::memory(64 << 10).unwrap();
    build(&sandbox.join("many"), &[10; 2000], 1);
    let list = full.join("list");
    let words = ["-r", &format!("--manifest={}", list.display()), "many", "target"];
    let (status, errors) = run(&ours, &sandbox, &words);
    assert_eq!(status, Some(1));
    assert!(errors.ends_with(": No space left on device\n") && errors.contains("list"), "{errors}");
    assert_eq!(fs::read_dir(full.path()).unwrap().count(), 0, "a part of the manifest is left");
}

/// Hashes that need the bytes in order: with every engine, holes, unknown lengths, direct I/O, and
/// while blocks are also compared.
#[test]
fn other_hashes_are_checked_by_their_own_programs() {
    let ours = program!();
    require!(ours.needs_haul());
    let sandbox = Sandbox::on_disk().unwrap();
    let source = sandbox.join("source");
    build(&source, &[0, 1, 1024, 100_000, 1 << 20, (5 << 20) + 3], 1);
    let sparse = fs::File::create(source.join("sparse")).unwrap();
    sparse.set_len(5 << 20).unwrap();
    sparse.write_all_at(&[7; 70_000], 3 << 20).unwrap();
    let programs =
        [("md5", "md5sum"), ("sha256", "sha256sum"), ("xxh64", "xxh64sum"), ("xxh128", "xxh128sum")];
    let ways = [[].as_slice(), &["--direct"], &["--verify"], &["--sparse=always"], &["--if-changed=retry"]];
    for (hash, checker) in programs {
        let mut lists = Vec::new();
        for (engine, way) in each_engine().into_iter().zip(ways) {
            let hash = format!("--hash={hash}");
            let copy = [hash.as_str(), "--block-size=64K", "-aT", "--manifest=SUMS", "source", "target"];
            let words = [&engine[..], way, &copy].concat();
            let done = run(&ours, &sandbox, &words);
            assert_eq!(done, (Some(0), String::new()), "{words:?}");
            lists.push(fs::read(sandbox.join("SUMS")).unwrap());
        }
        assert!(lists.windows(2).all(|pair| pair[0] == pair[1]), "{hash}: two runs list differently");
        assert_eq!(lists[0].iter().filter(|byte| **byte == b'\n').count(), 7);
        let check = |program: &Path, options: &[&str]| {
            let mut command = Command::new(program);
            command.args(options).current_dir(sandbox.path()).output().unwrap().status.success()
        };
        assert!(check(ours.path(), &["sum", "--check", &format!("--hash={hash}"), "SUMS"]), "{hash}");
        if needs::tool(checker).is_none() {
            assert!(check(Path::new(checker), &["--check", "SUMS"]), "{hash}");
        }
        fs::write(sandbox.join("target/folder-1/file-1"), "x").unwrap();
        assert!(!check(ours.path(), &["sum", "--check", &format!("--hash={hash}"), "SUMS"]), "{hash}");
    }
}

#[test]
fn a_media_hash_list_is_written_and_checked() {
    let ours = program!();
    require!(ours.needs_haul());
    let sandbox = Sandbox::on_disk().unwrap();
    build(&sandbox.join("source"), &[0, 1, 70_000], 1);
    let copy = |options: &[&str]| {
        let words = [options, &["-rT", "--manifest=list.mhl", "source", "target"]].concat();
        run(&ours, &sandbox, &words)
    };
    for hash in ["xxh64", "xxh128", "md5"] {
        let option = format!("--hash={hash}");
        assert_eq!(copy(&["--manifest-format=mhl", &option]), (Some(0), String::new()));
        let list = fs::read_to_string(sandbox.join("list.mhl")).unwrap();
        assert!(list.contains("<hashlist") && list.matches(&format!("<{hash} ")).count() == 3, "{list}");
        let checked = Command::new(ours.path())
            .args(["sum", "-c", "--quiet", "list.mhl"])
            .current_dir(sandbox.path())
            .output()
            .unwrap();
        assert!(checked.status.success(), "{checked:?}");
        fs::remove_file(sandbox.join("list.mhl")).unwrap();
    }
    // Refused before anything is touched.
    fs::remove_dir_all(sandbox.join("target")).unwrap();
    for (options, wanted) in [
        (
            ["--manifest-format=mhl"].as_slice(),
            "an MHL file cannot have blake3 hashes: use --hash=xxh128, xxh64 or md5",
        ),
        (
            &["--manifest-format=mhl", "--hash=sha256"],
            "an MHL file cannot have sha256 hashes: use --hash=xxh128, xxh64 or md5",
        ),
        (&["--hash=md5", "--ops=multi"], "--hash=md5 needs a file's blocks in order: use --ops=single"),
        (&["--hash=xxh64", "--ops=batch"], "--hash=xxh64 needs a file's blocks in order: use --ops=single"),
    ] {
        let (status, errors) = copy(options);
        assert_eq!(
            (status, errors.as_str()),
            (Some(1), format!("haul cp: {wanted}\n").as_str()),
            "{options:?}"
        );
        assert!(!sandbox.join("target").exists() && !sandbox.join("list.mhl").exists(), "{options:?}");
    }
    let (status, errors) = run(&ours, &sandbox, &["--hash=md5", "-r", "source", "target"]);
    assert!(status == Some(1) && errors.contains("--manifest"), "{errors}");
    assert_eq!(copy(&["--hash=blake3", "--ops=multi", "--engine=io-uring"]).0, Some(0));
}
