//! Where the tests run: on file system images, mounted in a private namespace.
//!
//! As root, the task restarts itself in a new mount namespace. Its mounts, and those that tests
//! leave behind, disappear with the last process in it, however that ends. The suites are
//! bind-mounted there at a path that every user can access. Image files are unlinked as soon as
//! they are mounted. So there is nothing to clean up except one empty directory.
//!
//! Without root, or if the kernel refuses the namespace, the tests run in the target directory, on
//! its file system.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fs_err as fs;

use super::options::{OracleOptions, User};
use crate::environment::is_root;
use crate::steps::{StepFailure, is_installed, run, say};

/// Environment variable with the directory in which the process in the namespace mounts things.
const APART: &str = "HAUL_ORACLE_APART";

/// The file systems. Every test runs on the first.
const FILE_SYSTEMS: [&str; 3] = ["ext4", "btrfs", "xfs"];

/// Size of an image; it is sparse.
const IMAGE_BYTES: u64 = 4 << 30;

/// IDs of an unprivileged user. A test that changes groups needs two more groups.
const NOBODY: [&str; 6] = ["--reuid", "65534", "--regid", "65534", "--groups", EXTRA_GROUPS];

/// Groups to which the tests may assign files.
pub(crate) const EXTRA_GROUPS: &str = "100,60";

pub(crate) const NOBODY_NUMBER: u32 = 65534;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TestGround {
    pub(crate) file_system: String,
    /// An empty directory on it.
    pub(crate) folder: PathBuf,
    /// True to run all tests, instead of only those that depend on the file system.
    pub(crate) all_tests: bool,
}

/// Everything prepared to run on.
#[derive(Debug)]
pub(crate) struct Grounds {
    pub(crate) list: Vec<TestGround>,
    /// Where every user can access the suites.
    pub(crate) suites: PathBuf,
    pub(crate) users: Vec<User>,
}

/// Restarts this program in a mount namespace, with the same arguments. Returns `None` if it is
/// there already or can't go there.
pub(crate) fn start_apart(words: &[String]) -> Result<Option<bool>, StepFailure> {
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "--"]);
        command
    };
    if !is_root() || std::env::var_os(APART).is_some() || !is_installed("unshare") {
        return Ok(None);
    }
    if !unshare().arg("true").stderr(Stdio::null()).status().is_ok_and(|status| status.success()) {
        return Ok(None);
    }
    let folder = std::env::temp_dir().join(format!("haul-oracle-{}", std::process::id()));
    fs::create_dir(&folder)?;
    let program = std::env::current_exe()?;
    let status = unshare().arg(program).arg("oracle").args(words).env(APART, &folder).status();
    fs::remove_dir(&folder)?;
    Ok(Some(status?.success()))
}

/// Returns the command prefix that runs a program as this user.
pub(crate) fn become_user(user: User) -> Vec<&'static str> {
    if user == User::Root || !is_root() { Vec::new() } else { [&["setpriv"], NOBODY.as_slice()].concat() }
}

/// Prepares the selected file systems, and prints which this machine can't provide.
pub(crate) fn prepare(folder: &Path, options: &OracleOptions) -> Result<Grounds, StepFailure> {
    let grounds = match std::env::var_os(APART) {
        Some(place) => mounted(Path::new(&place), folder, options)?,
        None => in_place(folder)?,
    };
    Ok(Grounds { users: users(&grounds.suites, options), ..grounds })
}

fn mounted(place: &Path, folder: &Path, options: &OracleOptions) -> Result<Grounds, StepFailure> {
    let suites = place.join("suites");
    run(Command::new("mount").args(["-t", "tmpfs", "-o", "mode=755", "tmpfs"]).arg(place))?;
    fs::create_dir(&suites)?;
    run(Command::new("mount").arg("--bind").arg(folder).arg(&suites))?;
    let mut list = Vec::new();
    for name in FILE_SYSTEMS.into_iter().filter(|name| options.wants_file_system(name)) {
        match image(name, place, folder) {
            Ok(folder) => {
                let all_tests = name == FILE_SYSTEMS[0];
                list.push(TestGround { file_system: name.to_owned(), folder, all_tests });
            }
            Err(StepFailure(reason)) => say(&format!("SKIPPED {name}: {reason}")),
        }
    }
    if options.wants_file_system(FILE_SYSTEMS[0]) && !list.iter().any(|ground| ground.all_tests) {
        in_place(folder)?;
        list.push(here(&suites));
    }
    Ok(Grounds { list, suites, users: Vec::new() })
}

fn image(name: &str, place: &Path, folder: &Path) -> Result<PathBuf, StepFailure> {
    let maker = format!("mkfs.{name}");
    if !is_installed(&maker) {
        return Err(StepFailure(format!("needs the command {maker}")));
    }
    let image = folder.join(format!("{name}.image"));
    let point = place.join(name);
    fs::create_dir(&point)?;
    fs::File::create(&image).and_then(|file| file.set_len(IMAGE_BYTES))?;
    let force: &[&str] = if name == "ext4" { &["-F"] } else { &[] };
    let made = run(Command::new(maker).arg("-q").args(force).arg(&image))
        .and_then(|()| run(Command::new("mount").args(["-t", name, "-o", "loop"]).arg(&image).arg(&point)));
    // A mounted image persists after its name is removed.
    fs::remove_file(&image)?;
    made.map(|()| point)
}

/// Creates the directory to run in if no images can be mounted.
fn in_place(folder: &Path) -> Result<Grounds, StepFailure> {
    let ground = here(folder);
    if ground.folder.exists() {
        fs::remove_dir_all(&ground.folder)?;
    }
    fs::create_dir_all(&ground.folder)?;
    say("no images are mounted: what they are for is skipped, the rest runs on what the target folder is on");
    Ok(Grounds { list: vec![ground], suites: folder.to_owned(), users: Vec::new() })
}

fn here(folder: &Path) -> TestGround {
    TestGround { file_system: "here".to_owned(), folder: folder.join("ground"), all_tests: true }
}

fn users(suites: &Path, options: &OracleOptions) -> Vec<User> {
    let mut users = Vec::new();
    for user in [User::Root, User::Plain].into_iter().filter(|user| options.wants_user(*user)) {
        match cannot_run(user, suites) {
            None => users.push(user),
            Some(reason) => say(&format!("SKIPPED {}: {reason}", user.name())),
        }
    }
    users
}

fn cannot_run(user: User, suites: &Path) -> Option<String> {
    match (user, is_root()) {
        (User::Root, true) | (User::Plain, false) => None,
        (User::Root, false) => Some("needs root".to_owned()),
        (User::Plain, true) if !is_installed("setpriv") => Some("needs the command setpriv".to_owned()),
        (User::Plain, true) => {
            let mut command = Command::new("setpriv");
            command.args(NOBODY).args(["test", "-r"]).arg(suites);
            let reaches = command.stderr(Stdio::null()).status().is_ok_and(|status| status.success());
            (!reaches).then(|| format!("an ordinary user cannot reach {}", suites.display()))
        }
    }
}
