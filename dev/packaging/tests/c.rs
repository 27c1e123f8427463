//! The C library: a C program is compiled against its header, linked, and run.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use haul_packaging::{run, workspace};
use haul_testkit::examples::in_language;
use haul_testkit::mount::Mount;
use haul_testkit::{needs, require};

/// The program: `folder` has a tree `source`. It exits with the line of the first check that fails.
const PROGRAM: &str = r#"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <libhaul.h>

#define CHECK(what) do { if (!(what)) { fprintf(stderr, "line %d: %s\n", __LINE__, #what); return 1; } } while (0)

static haul_job *signalled;

static void on_signal(int number) {
    (void)number;
    haul_cancel(signalled);
}

static int on_progress(const haul_counts *counts, void *data) {
    *(haul_counts *)data = *counts;
    return 0;
}

/* Cancels, and then ends what the job waits for. */
static int refuse(const haul_counts *counts, void *data) {
    (void)counts;
    if (++*(int *)data > 1) {
        int writer = open("fifo", O_WRONLY | O_NONBLOCK);
        if (writer >= 0) close(writer);
    }
    return 1;
}

static haul_job *job_of(haul_tool tool, const char *source, const char *target) {
    haul_job *job = haul_new(tool);
    haul_source(job, source);
    haul_target(job, target);
    return job;
}

static int copies(void) {
    haul_counts seen = { .size = 0 }, counts = { .size = sizeof counts };
    haul_job *job = job_of(HAUL_COPY, "source", "target");
    CHECK(haul_set(job, HAUL_RECURSIVE, 1) == HAUL_OK);
    CHECK(haul_set(job, HAUL_PRESERVE, 1) == HAUL_OK);
    CHECK(haul_set(job, HAUL_JOBS, 2) == HAUL_OK);
    CHECK(haul_exclude(job, "*.o") == HAUL_OK);
    CHECK(haul_on_progress(job, on_progress, &seen) == HAUL_OK);
    CHECK(haul_run(job) == HAUL_OK);
    CHECK(haul_counts_of(job, &counts) == HAUL_OK);
    CHECK(counts.size == sizeof counts && memcmp(&seen, &counts, sizeof seen) == 0);
    CHECK(counts.files == 2 && counts.bytes == 8 && counts.excluded == 1);
    CHECK(haul_problem_count(job) == 0);
    CHECK(access("target/below/file", F_OK) == 0 && access("target/a.o", F_OK) != 0);
    /* A job runs once. */
    CHECK(haul_run(job) == HAUL_INVALID && haul_set(job, HAUL_PRESERVE, 0) == HAUL_INVALID);
    /* A program made for a library with fewer counts. */
    struct { size_t size; uint64_t discovered, untouched; } few = { 2 * sizeof(uint64_t), 0, 7 };
    CHECK(haul_counts_of(job, (haul_counts *)(void *)&few) == HAUL_OK);
    CHECK(few.discovered == counts.discovered && few.untouched == 7);
    haul_free(job);
    return 0;
}

static int reports_errors(void) {
    haul_job *job = job_of(HAUL_COPY, "miss\xff", "target");
    haul_problem problem = { .size = sizeof problem };
    CHECK(haul_run(job) == HAUL_INCOMPLETE);
    CHECK(haul_problem_count(job) == 1);
    CHECK(haul_problem_at(job, 0, &problem) == HAUL_OK);
    CHECK(problem.error_number == ENOENT && !problem.is_warning);
    CHECK(strcmp(problem.kind, "cannot-stat") == 0);
    CHECK(strcmp(problem.message, "cannot stat 'miss\\xff': No such file or directory") == 0);
    CHECK(problem.path_length == 5 && memcmp(problem.path, "miss\xff", 6) == 0);
    CHECK(haul_problem_at(job, 1, &problem) == HAUL_INVALID);
    haul_free(job);
    return 0;
}

static int is_cancelled(void) {
    int calls = 0;
    signalled = job_of(HAUL_COPY, "source", "none");
    haul_set(signalled, HAUL_RECURSIVE, 1);
    signal(SIGUSR1, on_signal);
    raise(SIGUSR1);
    CHECK(haul_run(signalled) == HAUL_CANCELLED);
    CHECK(access("none", F_OK) != 0);
    haul_free(signalled);
    /* By the progress function, while the job waits for a FIFO. */
    haul_job *job = job_of(HAUL_COPY, "fifo", "none");
    CHECK(haul_on_progress(job, refuse, &calls) == HAUL_OK);
    CHECK(haul_run(job) == HAUL_CANCELLED && calls > 0);
    haul_free(job);
    return 0;
}

static int synchronizes(void) {
    haul_counts counts = { .size = sizeof counts };
    haul_problem problem = { .size = sizeof problem };
    haul_job *job = job_of(HAUL_SYNC, "source", "target");
    CHECK(haul_set(job, HAUL_DELETE, 1) == HAUL_OK && haul_set(job, HAUL_MAX_DELETE, 1) == HAUL_OK);
    CHECK(haul_run(job) == HAUL_OK && haul_counts_of(job, &counts) == HAUL_OK);
    CHECK(counts.deleted == 1 && access("target/extra", F_OK) != 0);
    haul_free(job);
    job = job_of(HAUL_SYNC, "source", "source/below");
    CHECK(haul_set(job, HAUL_DELETE, 1) == HAUL_OK);
    CHECK(haul_run(job) == HAUL_NOT_STARTED && haul_problem_at(job, 0, &problem) == HAUL_OK);
    CHECK(strcmp(problem.kind, "nested") == 0);
    CHECK(strstr(problem.message, "are one directory, or one is inside the other"));
    haul_free(job);
    return 0;
}

/* Files that share blocks, or that the kernel copies, are as right as others. */
static int verifies(void) {
    haul_tool tools[] = { HAUL_COPY, HAUL_SYNC };
    for (size_t tool = 0; tool < 2; tool++) {
        haul_job *job = job_of(tools[tool], "large", tool ? "large-sync" : "large-copy");
        CHECK(tool || haul_set(job, HAUL_RECURSIVE, 1) == HAUL_OK);
        CHECK(haul_set(job, HAUL_VERIFY, 1) == HAUL_OK);
        CHECK(haul_run(job) == HAUL_OK && haul_problem_count(job) == 0);
        haul_free(job);
    }
    return 0;
}

static int refuses_nonsense(void) {
    CHECK(haul_new((haul_tool)9) == NULL);
    CHECK(haul_run(NULL) == HAUL_INVALID && haul_problem_count(NULL) == 0);
    haul_free(NULL);
    haul_job *job = haul_new(HAUL_SYNC);
    haul_problem first = { .size = sizeof first }, second = { .size = sizeof second };
    CHECK(haul_run(job) == HAUL_INVALID);
    CHECK(haul_problem_count(job) == 1 && haul_problem_at(job, 0, &first) == HAUL_OK);
    CHECK(haul_exclude(job, "") == HAUL_INVALID && haul_exclude(job, "\43x") == HAUL_INVALID);
    CHECK(haul_exclude(job, "[") == HAUL_INVALID && haul_exclude(job, "\xff") == HAUL_INVALID);
    CHECK(haul_source(job, NULL) == HAUL_INVALID && haul_set(job, (haul_option)99, 1) == HAUL_INVALID);
    CHECK(haul_set(job, HAUL_DELETE, 2) == HAUL_INVALID && haul_set(job, HAUL_JOBS, 0) == HAUL_INVALID);
    haul_source(job, "source");
    haul_target(job, "target");
    haul_set(job, HAUL_REALLY, 1);
    CHECK(haul_run(job) == HAUL_INVALID);
    CHECK(haul_problem_count(job) == 1 && haul_problem_at(job, 0, &second) == HAUL_OK);
    CHECK(strcmp(first.kind, "no-source") == 0 && strcmp(first.message, "no source was set") == 0);
    CHECK(strcmp(second.message, "HAUL_REALLY has no effect without HAUL_DELETE") == 0 && !second.path);
    /* A refused job can be corrected. */
    haul_set(job, HAUL_REALLY, 0);
    CHECK(haul_run(job) == HAUL_OK && haul_problem_count(job) == 0);
    haul_free(job);
    return 0;
}

int main(void) {
    if (copies() || reports_errors() || is_cancelled()) return 1;
    FILE *extra = fopen("target/extra", "w");
    if (!extra || fclose(extra)) return 1;
    if (synchronizes() || refuses_nonsense() || verifies()) return 1;
    puts(haul_version());
    return 0;
}
"#;

/// The same, about threads. It runs first, because the C library keeps the stacks of ended threads.
const THREADS: &str = r#"
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <libhaul.h>

#define CHECK(what) do { if (!(what)) { fprintf(stderr, "line %d: %s\n", __LINE__, #what); return 1; } } while (0)

enum { USR1_BIT = 1 << 9, USR2_BIT = 1 << 11 };

static haul_job *job_of(const char *source, const char *target) {
    haul_job *job = haul_new(HAUL_COPY);
    haul_source(job, source);
    haul_target(job, target);
    return job;
}

/* There is no address space for another stack. */
static int lacks_a_thread(void) {
    struct rlimit before, now;
    unsigned long pages = 0;
    haul_problem problem = { .size = sizeof problem };
    haul_job *job = job_of("source/file", "none");
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file && fscanf(file, "%lu", &pages) == 1 && fclose(file) == 0);
    CHECK(getrlimit(RLIMIT_AS, &before) == 0);
    now = before;
    now.rlim_cur = pages * (unsigned long)sysconf(_SC_PAGESIZE) + (1 << 20);
    CHECK(setrlimit(RLIMIT_AS, &now) == 0);
    haul_status status = haul_run(job);
    CHECK(setrlimit(RLIMIT_AS, &before) == 0);
    CHECK(status == HAUL_NOT_STARTED && access("none", F_OK) != 0);
    CHECK(haul_problem_count(job) == 1 && haul_problem_at(job, 0, &problem) == HAUL_OK);
    CHECK(strcmp(problem.kind, "no-thread") == 0 && !problem.path);
    CHECK(strstr(problem.message, "cannot start a thread: "));
    haul_free(job);
    return 0;
}

/* Counts the threads, and those that block SIGUSR1 and SIGUSR2. Then ends what the job waits for. */
static int count(const haul_counts *counts, void *data) {
    int *found = data;
    DIR *tasks = opendir("/proc/self/task");
    (void)counts;
    for (struct dirent *task; tasks && (task = readdir(tasks)); ) {
        char path[512], line[256];
        snprintf(path, sizeof path, "/proc/self/task/%s/status", task->d_name);
        FILE *status = fopen(path, "r");
        while (status && fgets(line, sizeof line, status)) {
            if (strncmp(line, "SigBlk:", 7)) continue;
            unsigned long blocked = strtoul(line + 7, NULL, 16);
            found[0]++;
            found[1] += (blocked & USR1_BIT) && (blocked & USR2_BIT);
        }
        if (status) fclose(status);
    }
    if (tasks) closedir(tasks);
    int writer = open("fifo", O_WRONLY | O_NONBLOCK);
    if (writer >= 0) close(writer);
    return found[0] < 2;
}

static int runs_no_handler(void) {
    int found[2] = { 0, 0 };
    haul_job *job = job_of("fifo", "none");
    CHECK(haul_on_progress(job, count, found) == HAUL_OK);
    CHECK(haul_run(job) == HAUL_OK && found[0] >= 2 && found[1] >= 1);
    haul_free(job);
    return 0;
}

int main(void) {
    return lacks_a_thread() || runs_no_handler();
}
"#;

/// Builds and installs the library below a folder by the commands of docs/library.md. Unless it is
/// a full run, it is built as the tests are, whose dependencies are there already. Returns the last
/// command, which compiles a program.
fn install(prefix: &Path) -> String {
    let page = fs::read_to_string(workspace().join("docs/library.md")).unwrap();
    let [commands] = &in_language(&page, "sh")[..] else { panic!("where does the page install?") };
    let (install, compile) = commands.trim_end().rsplit_once('\n').unwrap();
    let (profile, folder) = if needs::is_full_run() { ("library", "library") } else { ("test", "debug") };
    let built = target_directory().join(folder).display().to_string();
    let script = install.replace("--profile library", &format!("--quiet --profile={profile}"));
    let script = script.replace("target/library/", &format!("{built}/"));
    assert!(script.contains("--profile=") && script.contains(&built), "{script}");
    let mut shell = Command::new("sh");
    shell.args(["-ec", &script]).current_dir(workspace()).env("PREFIX", prefix);
    run(&mut shell).unwrap();
    compile.to_owned()
}

fn target_directory() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace().join("target"), PathBuf::from)
}

/// Compiles the program, with all warnings as errors.
fn compile(folder: &Path, program: &str, arguments: &[String]) {
    let mut compiler = Command::new("gcc");
    compiler.current_dir(folder).args(["-std=c11", "-D_POSIX_C_SOURCE=200809L", "-Wall", "-Wextra"]);
    compiler.args(["-Wpedantic", "-Werror", "-g", "-o", program, "program.c"]).args(arguments);
    run(&mut compiler).unwrap();
}

#[test]
fn a_c_program_copies_synchronizes_cancels_and_reads_errors() {
    require!(needs::tool("gcc"));
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("prefix");
    install(&prefix);
    fs::write(folder.path().join("program.c"), PROGRAM).unwrap();
    let [include, library] = ["include", "lib"].map(|name| prefix.join(name).display().to_string());
    let shared = [format!("-I{include}"), format!("-L{library}"), "-lhaul".to_owned()];
    compile(folder.path(), "shared", &shared);
    let needed = run(Command::new("readelf").args(["-d", "shared"]).current_dir(&folder)).unwrap();
    assert!(needed.contains("[libhaul.so.0]"), "{needed}");
    let version = format!("{}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(run_in_tree(folder.path(), &["../shared"], &library), version);

    // The static library, with what pkg-config says it needs.
    let described = fs::read_to_string(prefix.join("lib/pkgconfig/libhaul.pc")).unwrap();
    let private = described.lines().find_map(|line| line.strip_prefix("Libs.private: ")).unwrap();
    let mut with_all = vec![format!("-I{include}"), format!("{library}/libhaul.a")];
    with_all.extend(private.split(' ').map(str::to_owned));
    compile(folder.path(), "static", &with_all);
    assert_eq!(run_in_tree(folder.path(), &["../static"], "/nonexistent"), version);

    // File systems that share blocks.
    for file_system in ["btrfs", "xfs"] {
        require!(needs::loop_mount(file_system));
        let mount = Mount::image(file_system, 400 << 20).unwrap();
        let program = folder.path().join("shared").display().to_string();
        assert_eq!(run_in_tree(mount.path(), &[&program], &library), version);
    }
}

#[test]
fn a_job_runs_in_a_thread_without_signals_or_is_refused() {
    require!(needs::tool("gcc"));
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("prefix");
    install(&prefix);
    fs::write(folder.path().join("program.c"), THREADS).unwrap();
    let [include, library] = ["include", "lib"].map(|name| prefix.join(name).display().to_string());
    compile(folder.path(), "threads", &[format!("-I{include}"), format!("-L{library}"), "-lhaul".to_owned()]);
    run_in_tree(folder.path(), &["../threads"], &library);
}

#[test]
fn a_c_program_uses_no_memory_wrongly() {
    require!(needs::tool("gcc"), needs::tool("valgrind"));
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("prefix");
    install(&prefix);
    fs::write(folder.path().join("program.c"), PROGRAM).unwrap();
    let [include, library] = ["include", "lib"].map(|name| prefix.join(name).display().to_string());
    compile(folder.path(), "shared", &[format!("-I{include}"), format!("-L{library}"), "-lhaul".to_owned()]);
    // The standard library and crossbeam keep memory that belongs to no job.
    let leaks = ["--leak-check=full", "--show-leak-kinds=definite", "--errors-for-leak-kinds=definite"];
    let valgrind = [&["valgrind", "--quiet", "--error-exitcode=9"][..], &leaks, &["../shared"]].concat();
    run_in_tree(folder.path(), &valgrind, &library);
}

#[test]
fn the_example_of_the_page_makes_a_backup_equal() {
    require!(needs::tool("gcc"), needs::tool("pkg-config"));
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("prefix");
    let command = install(&prefix);
    let page = fs::read_to_string(workspace().join("docs/library.md")).unwrap();
    let [program] = &in_language(&page, "c")[..] else { panic!("which program is it?") };
    fs::write(folder.path().join("program.c"), program).unwrap();
    let script = format!(
        "mkdir -p project backup; echo new >project/file; echo old >backup/old
         CFLAGS='-std=c11 -Wall -Wextra -Wpedantic -Werror'
         {}
         ./a.out; diff -r project backup",
        command.replace("cc ", "cc $CFLAGS ")
    );
    let library = prefix.join("lib");
    let mut shell = Command::new("sh");
    shell.args(["-ec", &script]).current_dir(&folder).env("LD_LIBRARY_PATH", &library);
    run(shell.env("PKG_CONFIG_PATH", library.join("pkgconfig"))).unwrap();
}

/// Runs a command in a new tree, with the shared library of a folder. Returns its output.
fn run_in_tree(folder: &Path, command: &[&str], library: &str) -> String {
    let tree = folder.join("tree");
    if tree.exists() {
        fs::remove_dir_all(&tree).unwrap();
    }
    fs::create_dir_all(tree.join("source/below")).unwrap();
    fs::write(tree.join("source/file"), "one").unwrap();
    fs::write(tree.join("source/below/file"), "three").unwrap();
    fs::write(tree.join("source/a.o"), "object").unwrap();
    fs::create_dir(tree.join("large")).unwrap();
    let content: Vec<u8> = (0..2_u64 << 20).flat_map(u64::to_le_bytes).collect();
    fs::write(tree.join("large/file"), content).unwrap();
    run(Command::new("mkfifo").arg(tree.join("fifo"))).unwrap();
    let mut program = Command::new(command[0]);
    program.args(&command[1..]).current_dir(&tree).env("LD_LIBRARY_PATH", library);
    run(&mut program).unwrap()
}
