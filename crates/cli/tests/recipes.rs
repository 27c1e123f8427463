//! The commands of docs/automation.md do what it says, and those of other pages succeed.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use haul_testkit::examples::examples;
use haul_testkit::run::Running;
use haul_testkit::{CopyProgram, Sandbox, needs, program, require, wait};

const SCENE: &str = "
    mkdir -p run srv/photos/2026 srv/project/.git srv/project/out srv/project/src mnt/backup
    for n in 1 2 3; do head -c 3000 /dev/urandom >srv/photos/2026/$n.jpg; done
    echo /out/ >srv/project/.gitignore; echo head >srv/project/.git/HEAD; echo x >srv/project/out/x.o
    touch -d @1000 srv/project/README; touch srv/project/src/a.c srv/project/src/b.h";

fn run(ours: &CopyProgram, sandbox: &Sandbox, text: &str) -> Output {
    let root = sandbox.path().display().to_string();
    let script = ["/srv", "/mnt", "/run"].iter().fold(text.to_owned(), |script, place| {
        let below = |before: char| format!("{before}{place}/");
        let script = script.replace(&below(' '), &format!(" {root}{place}/"));
        let script = script.replace(&below('='), &format!("={root}{place}/"));
        let script = script.replace(&below('>'), &format!(">{root}{place}/"));
        script
            .replace(&below('"'), &format!("\"{root}{place}/"))
            .replace(&format!(" {place}\n"), &format!(" {root}{place}\n"))
    });
    let programs = sandbox.join("bin");
    if !programs.exists() {
        fs::create_dir(&programs).unwrap();
        std::os::unix::fs::symlink(ours.path(), programs.join("haul")).unwrap();
    }
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let output = Command::new("sh").args(["-ec", &script]).env("PATH", path).output().unwrap();
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

fn names(root: &Path) -> Vec<String> {
    let entries = walkdir::WalkDir::new(root).min_depth(1).sort_by_file_name();
    let relative = |path: &Path| path.strip_prefix(root).unwrap().display().to_string();
    entries.into_iter().map(|entry| relative(entry.unwrap().path())).collect()
}

/// Starts a job that lasts until its limit is raised.
fn nightly_job(ours: &CopyProgram, sandbox: &Sandbox) -> Running {
    sandbox.script("head -c 3000000 /dev/zero >srv/large").unwrap();
    let run = ours.run().in_folder(sandbox.path()).args(["--bwlimit=1", "--control=run/mirror-photos.sock"]);
    let running = run.args(["-r", "srv", "mnt/backup"]).start().unwrap();
    let socket = sandbox.join("run/mirror-photos.sock");
    assert!(wait::until(Duration::from_secs(60), || socket.exists()));
    running
}

#[test]
fn the_recipes_work() {
    let ours = program!();
    require!(ours.needs_haul(), needs::tool("python3"));
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/automation.md");
    let recipes = examples(&fs::read_to_string(page).unwrap());
    let photos = ["2026", "2026/1.jpg", "2026/2.jpg", "2026/3.jpg"];
    let clone = [".gitignore", "README", "src", "src/a.c", "src/b.h"];
    let mut tried = 0;
    for recipe in &recipes {
        let sandbox = Sandbox::in_memory().unwrap();
        sandbox.script(SCENE).unwrap();
        let commands = match recipe.language.as_str() {
            "sh" => recipe.text.clone(),
            "ini" => recipe.text.lines().filter_map(|line| line.strip_prefix("ExecStart=")).collect(),
            _ => continue,
        };
        if commands.is_empty() {
            continue;
        }
        tried += 1;
        // An extra entry, which a recipe that deletes must delete.
        let deletes = commands.contains("--delete ");
        if deletes {
            sandbox
                .script("mkdir -p mnt/backup/photos srv/clone; touch mnt/backup/photos/old srv/clone/old")
                .unwrap();
        }
        let nightly = commands.contains("haul ctl ").then(|| nightly_job(&ours, &sandbox));
        let output = run(&ours, &sandbox, &commands);
        let there = |name: &str| names(&sandbox.join(name));
        match recipe.section.as_str() {
            _ if commands.contains("--dry-run") => {
                assert!(String::from_utf8_lossy(&output.stdout).contains("removed '"), "{commands}");
                assert_eq!(there("mnt/backup/photos"), ["old"]);
            }
            "A mirror every night"
            | "A backup whose bytes are proved"
            | "A copy that leaves room for others" => {
                assert_eq!(there("mnt/backup/photos"), photos, "{commands}");
            }
            "A snapshot every day" => {
                sandbox.script("cd mnt/backup; mv 2* yesterday; ln -sfn yesterday latest").unwrap();
                sandbox.script("echo new >srv/photos/2026/4.jpg").unwrap();
                run(&ours, &sandbox, &commands);
                let file = |name: &str| fs::metadata(sandbox.join("mnt/backup").join(name)).unwrap();
                assert_eq!(file("latest/2026/1.jpg").ino(), file("yesterday/2026/1.jpg").ino());
                assert_eq!(there("mnt/backup/yesterday"), photos);
                assert_eq!(file("latest/2026/4.jpg").len(), 4);
            }
            "A clone without build output" => assert_eq!(there("srv/clone"), clone, "{commands}"),
            "A list of files from another program" => {
                assert_eq!(there("mnt/backup/changed"), ["src", "src/a.c"], "{commands}");
            }
            "A copy that another program follows" => {
                assert_eq!(there("mnt/backup/photos"), photos, "{commands}");
                let told = String::from_utf8_lossy(&output.stdout);
                assert!(told.ends_with("3 files, exit status 0\n"), "{told}");
            }
            "Slow the nightly job down at 8 a.m." => match nightly {
                None => assert_eq!(there("mnt/backup/photos"), photos, "{commands}"),
                Some(nightly) => {
                    let status =
                        run(&ours, &sandbox, "haul ctl /run/mirror-photos.sock status --json").stdout;
                    assert!(String::from_utf8_lossy(&status).contains("\"bwlimit\":20971520,"));
                    assert!(nightly.finish().unwrap().succeeded());
                }
            },
            "Figures for a program" => assert_eq!(String::from_utf8_lossy(&output.stdout), "3\n"),
            other => panic!("what the recipe of {other:?} does isn't checked"),
        }
    }
    assert!(tried >= 9, "{tried}");
}

/// Pages whose commands are run, each by itself, and how many there are at least.
const PAGES: [(&str, usize); 7] = [
    ("README.md", 3),
    ("docs/guide.md", 2),
    ("docs/from-rsync.md", 2),
    ("docs/from-robocopy.md", 2),
    ("docs/selection.md", 6),
    ("docs/sync.md", 5),
    ("docs/tools.md", 6),
];

/// Creates the trees that the commands name.
const NAMED: &str = "
    git init -q .; echo x >stamp; touch -d @1 stamp; echo file >listed; git add listed
    for tree in SOURCE source project worktree library photos data tree logs A; do
        mkdir -p $tree/below; echo $tree pattern >$tree/file; echo text >$tree/below/a.pdf
    done
    cp -a A B; for n in 1 2; do echo $n >logs/$n; gzip -c logs/$n >logs/$n.log; done
    mkdir -p srv/data mnt/backup home/backup monday kept backup; echo x >srv/data/file; echo x >home/file";

/// Returns the commands of a page that run on one machine and succeed.
fn commands(page: &str) -> Vec<String> {
    let blocks = examples(page).into_iter();
    let lines = blocks.filter(|block| ["", "sh", "console"].contains(&&*block.language)).flat_map(|block| {
        let prompt = if block.language == "console" { "$ " } else { "" };
        let lines: Vec<_> =
            block.text.lines().filter_map(|line| line.strip_prefix(prompt)).map(str::to_owned).collect();
        lines
    });
    let other = ["mpirun", "--clients", "haul bench", " missing ", "cargo ", "dpkg ", "rpm ", "tar -xf "];
    lines.filter(|line| line.contains("haul ") && !other.iter().any(|word| line.contains(word))).collect()
}

#[test]
fn the_commands_of_other_pages_succeed() {
    let ours = program!();
    require!(ours.needs_haul(), needs::tool("git"), needs::tool("gzip"));
    for (name, count) in PAGES {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name);
        let commands = commands(&fs::read_to_string(page).unwrap());
        assert!(commands.len() >= count, "{name}: {commands:#?}");
        for command in commands {
            let sandbox = Sandbox::in_memory().unwrap();
            sandbox.script(NAMED).unwrap();
            // The roots of the examples are in the sandbox.
            let root = sandbox.path().display().to_string();
            let command = command.replace(" /", &format!(" {root}/"));
            run(&ours, &sandbox, &format!("cd {root}; {command}"));
        }
    }
}
