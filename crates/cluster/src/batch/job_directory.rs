//! The directory through which a job and the process that follows it communicate.
//!
//! It is next to the target, the one place that the job's hosts must see anyway. It contains:
//!
//! | name | written by | content |
//! |---|---|---|
//! | `script` | here | the script that the batch system runs |
//! | `begun` | the job | empty: the job has started |
//! | `out`, `err` | the job | the command's output; a restarted job appends |
//! | `progress` | the job | progress; replaced by renaming |
//! | `status` | the job | the exit status; renamed into place after everything else is written |
//! | `journal` | the job | completed work, for a restarted job |
//! | `unfinished` | the job | empty: a later copy can use the journal, so keep the job directory |
//! | `log` | the batch system | its own messages |

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::{BatchError, BatchOrder};

/// Variable with the path of the job directory; set for commands that run in a job.
pub const VARIABLE: &str = "HAUL_SPOOL";

/// A job directory.
#[derive(Debug)]
pub struct JobDirectory {
    folder: PathBuf,
}

/// Every file that a job, its script or the submitting process makes in a job directory.
const FILES: [&str; 11] = [
    "script",
    "begun",
    "out",
    "err",
    "progress",
    "progress.new",
    "status",
    "status.new",
    "journal",
    "unfinished",
    "log",
];

impl JobDirectory {
    /// Returns the job directory of the job this process runs in, if haul submitted it.
    #[must_use]
    pub fn of_process() -> Option<Self> {
        env::var_os(VARIABLE).filter(|folder| !folder.is_empty()).map(|folder| Self { folder: folder.into() })
    }

    /// Creates a job directory, with its script, in the first of the order's directories that
    /// accepts one.
    pub(super) fn create(order: &BatchOrder) -> Result<Self, BatchError> {
        let mut refused = BatchError::NothingShared;
        for parent in &order.shared {
            // The batch system's daemons don't have our current directory.
            let parent = std::path::absolute(parent)?;
            match make_folder(&parent) {
                Ok(folder) => {
                    let job_directory = Self { folder };
                    return match job_directory.write_script(order) {
                        Ok(()) => Ok(job_directory),
                        Err(error) => {
                            job_directory.remove()?;
                            Err(error.into())
                        }
                    };
                }
                Err(cause) => refused = BatchError::NoJobDirectory { parent, cause },
            }
        }
        Err(refused)
    }

    /// Returns the path of the job directory.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the path of the journal.
    #[must_use]
    pub fn journal(&self) -> PathBuf {
        self.folder.join("journal")
    }

    /// Marks the job directory to be kept: the command has given up, but its journal lets another
    /// one finish.
    ///
    /// # Errors
    /// If the mark can't be written.
    pub fn keep(&self) -> io::Result<()> {
        fs::write(self.folder.join("unfinished"), "")
    }

    /// True if the job directory is marked to be kept.
    pub(super) fn is_kept(&self) -> bool {
        self.folder.join("unfinished").exists()
    }

    /// Replaces the progress file with `content`.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn write_progress(&self, content: &[u8]) -> io::Result<()> {
        // Renamed into place, so that a reader on another host never sees half of it.
        let new = self.folder.join("progress.new");
        fs::write(&new, content)?;
        fs::rename(new, self.folder.join("progress"))
    }

    pub(super) fn script(&self) -> PathBuf {
        self.folder.join("script")
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Returns the exit status of the command, if it has ended.
    pub(super) fn status(&self) -> Result<Option<i32>, BatchError> {
        match fs::read_to_string(self.folder.join("status")) {
            Ok(text) => text.trim().parse().map(Some).map_err(|_| BatchError::NoStatus(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes the job directory with its content.
    pub(super) fn remove(&self) -> io::Result<()> {
        match fs::remove_dir_all(&self.folder) {
            // On NFS, a file that an ending job still has open is briefly renamed instead
            // of removed.
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                fs::remove_dir_all(&self.folder)
            }
            done => done,
        }
    }

    /// Removes the job directory of an earlier job after a later run has used its journal. It must
    /// be a directory with a job directory's name, owned by this user, with nothing in it but a job
    /// directory's files; otherwise it is left.
    ///
    /// # Errors
    /// If it can't be removed.
    pub fn remove_used(journal: &Path) -> io::Result<()> {
        let journal = std::path::absolute(journal)?;
        let Some(folder) = journal.parent().filter(|_| journal.ends_with("journal")) else { return Ok(()) };
        if !has_job_directory_name(folder) {
            return Ok(());
        }
        let facts = fs::symlink_metadata(folder)?;
        if !facts.is_dir() || facts.uid() != rustix::process::geteuid().as_raw() {
            return Ok(());
        }
        let names = fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.file_name()));
        let names = names.collect::<io::Result<Vec<_>>>()?;
        match names.iter().all(|name| FILES.iter().any(|file| name == file)) {
            true => Self { folder: folder.to_owned() }.remove(),
            false => Ok(()),
        }
    }

    fn write_script(&self, order: &BatchOrder) -> io::Result<()> {
        let script = self.script();
        fs::write(&script, script_of(order, &self.folder))?;
        fs::set_permissions(script, fs::Permissions::from_mode(0o700))
    }
}

/// True if a directory is named like a job directory.
pub(super) fn has_job_directory_name(folder: &Path) -> bool {
    let is_hex = |text: &str| text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let name = folder.file_name().and_then(OsStr::to_str).unwrap_or_default();
    name.strip_prefix(".haul-job-").is_some_and(is_hex)
}

/// Creates a directory that only this user can read, because the output contains file names.
fn make_folder(parent: &Path) -> io::Result<PathBuf> {
    const ATTEMPTS: usize = 16;
    let mut taken = io::Error::from(io::ErrorKind::AlreadyExists);
    for _ in 0..ATTEMPTS {
        let folder = parent.join(format!(".haul-job-{:016x}", rand::random::<u64>()));
        match DirBuilder::new().mode(0o700).create(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => taken = error,
            Err(error) => return Err(error),
        }
    }
    Err(taken)
}

/// Returns the script. It may run again after a host failed, but a command that ended by itself is
/// not repeated.
fn script_of(order: &BatchOrder, folder: &Path) -> Vec<u8> {
    let command = order.words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(OsStr::new(" "));
    let directives = order.queue().directives(order);
    let umask = format!("\numask {:04o}\nexport HAUL_SPOOL\n", order.umask);
    let exports = order.exports.iter().map(|(name, value)| {
        let (name, value) = (name.as_bytes(), quoted(value).into_vec());
        [name, b"=", value.as_slice(), b"\nexport ", name, b"\n"].concat()
    });
    let exports = exports.collect::<Vec<_>>().concat();
    let items: [&[u8]; 11] = [
        b"#!/bin/sh\n",
        directives.as_bytes(),
        b"# Written by haul for one job; removed at its end.\nHAUL_SPOOL=",
        &quoted(folder.as_os_str()).into_vec(),
        umask.as_bytes(),
        &exports,
        b"if [ -f \"$HAUL_SPOOL/status\" ]; then\n\
          read -r status <\"$HAUL_SPOOL/status\"\n\
          [ \"$status\" -gt 128 ] || exit \"$status\"\n\
          rm -f \"$HAUL_SPOOL/status\"\n\
          fi\n\
          : >\"$HAUL_SPOOL/begun\"\ncd ",
        &quoted(order.directory.as_os_str()).into_vec(),
        b" 2>>\"$HAUL_SPOOL/err\" &&\n",
        &command.into_vec(),
        b" </dev/null >>\"$HAUL_SPOOL/out\" 2>>\"$HAUL_SPOOL/err\"\nstatus=$?\n\
          printf '%s\\n' \"$status\" >\"$HAUL_SPOOL/status.new\" && mv -f \"$HAUL_SPOOL/status.new\" \"$HAUL_SPOOL/status\"\n\
          exit \"$status\"\n",
    ];
    items.concat()
}

/// Quotes a word for the shell.
fn quoted(word: &OsStr) -> OsString {
    let mut text = vec![b'\''];
    for byte in word.as_bytes() {
        match byte {
            b'\'' => text.extend_from_slice(b"'\\''"),
            byte => text.push(*byte),
        }
    }
    text.push(b'\'');
    OsString::from_vec(text)
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::process::{Command, ExitStatus};

    use super::*;
    use crate::launch::command::System;

    /// Runs the script as a batch system does.
    ///
    /// A process forked by a concurrent test shares our files open for writing until its `exec`,
    /// and a script open for writing can't be run (ETXTBSY). That passes.
    fn begin(job_directory: &JobDirectory) -> ExitStatus {
        loop {
            match Command::new(job_directory.script()).status() {
                Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => std::thread::yield_now(),
                other => return other.unwrap(),
            }
        }
    }

    fn order(folder: &Path, words: &[&OsStr]) -> BatchOrder {
        BatchOrder {
            system: System::Slurm,
            words: words.iter().map(|word| (*word).to_owned()).collect(),
            directory: folder.to_owned(),
            shared: vec![PathBuf::from("/proc/no/such/folder"), folder.to_owned()],
            clients: 2,
            account: None,
            walltime: None,
            queue: None,
            umask: 0o027,
            environment: Vec::new(),
            exports: vec![("SET".into(), "it's".into())],
        }
    }

    #[test]
    fn the_script_runs_any_words_and_leaves_the_status() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("it's a $folder %j");
        fs::create_dir(&folder).unwrap();
        let odd = OsStr::from_bytes(b"a'b \"c\" $d\n\xff*");
        let print = "printf '%s|' \"$@\" \"$SET\"; pwd >&2; exit 3";
        let words = [
            OsStr::new("/bin/sh"),
            OsStr::new("-c"),
            OsStr::new(print),
            OsStr::new("sh"),
            odd,
            OsStr::new(""),
        ];
        let job_directory = JobDirectory::create(&order(&folder, &words)).unwrap();
        assert_eq!(job_directory.folder().parent(), Some(folder.as_path()));
        assert_eq!(job_directory.status().unwrap(), None);
        let run = || begin(&job_directory).code();
        assert_eq!(run(), Some(3));
        assert_eq!(fs::read(job_directory.file("out")).unwrap(), [odd.as_bytes(), b"||it's|"].concat());
        assert_eq!(fs::read_to_string(job_directory.file("err")).unwrap(), format!("{}\n", folder.display()));
        assert_eq!(job_directory.status().unwrap(), Some(3));
        // Run again after the command has ended, the script does nothing.
        assert_eq!(run(), Some(3));
        assert_eq!(fs::read(job_directory.file("out")).unwrap().len(), odd.len() + 7);
        job_directory.remove().unwrap();
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    }

    #[test]
    fn a_command_that_a_signal_ended_begins_again() {
        let parent = tempfile::tempdir().unwrap();
        let script = "umask; [ -e again ] && exit 4; : >again; kill -TERM $$";
        let words = ["/bin/sh", "-c", script].map(OsStr::new);
        let job_directory = JobDirectory::create(&order(parent.path(), &words)).unwrap();
        let run = || begin(&job_directory).code();
        assert_eq!((run(), job_directory.status().unwrap()), (Some(143), Some(143)));
        assert_eq!((run(), job_directory.status().unwrap()), (Some(4), Some(4)));
        assert_eq!(run(), Some(4));
        assert_eq!(fs::read_to_string(job_directory.file("out")).unwrap(), "0027\n0027\n");
    }

    #[test]
    fn a_directory_that_is_not_there_is_a_failure() {
        let parent = tempfile::tempdir().unwrap();
        let wanted = BatchOrder {
            directory: parent.path().join("missing"),
            ..order(parent.path(), &[OsStr::new("true")])
        };
        let job_directory = JobDirectory::create(&wanted).unwrap();
        assert!(!begin(&job_directory).success());
        assert_ne!(job_directory.status().unwrap(), Some(0));
        assert!(fs::read_to_string(job_directory.file("err")).unwrap().contains("missing"));
    }

    #[test]
    fn without_a_folder_nothing_is_submitted() {
        let wanted =
            BatchOrder { shared: vec!["/proc".into()], ..order(Path::new("/"), &[OsStr::new("true")]) };
        let error = JobDirectory::create(&wanted).unwrap_err();
        assert!(
            matches!(&error, BatchError::NoJobDirectory { parent, .. } if parent == Path::new("/proc")),
            "{error}"
        );
    }

    #[test]
    fn progress_is_replaced_as_a_whole() {
        let parent = tempfile::tempdir().unwrap();
        let job_directory = JobDirectory::create(&order(parent.path(), &[OsStr::new("true")])).unwrap();
        for content in [&b"one"[..], b"two and more", b"3"] {
            job_directory.write_progress(content).unwrap();
            assert_eq!(fs::read(job_directory.file("progress")).unwrap(), content);
        }
        assert!(!job_directory.file("progress.new").exists());
    }

    #[test]
    fn every_file_the_script_makes_is_known() {
        let folder = Path::new("/spool");
        let script = script_of(&order(folder, &[OsStr::new("true")]), folder);
        let script = String::from_utf8(script).unwrap();
        let made: Vec<&str> =
            script.split("\"$HAUL_SPOOL/").skip(1).map(|rest| rest.split_once('"').unwrap().0).collect();
        assert!(made.contains(&"status.new"), "{script}");
        let unknown: Vec<_> = made.iter().filter(|name| !FILES.contains(name)).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }

    #[test]
    fn the_job_directory_of_an_earlier_job_goes_only_if_it_is_one() {
        let folder = tempfile::tempdir().unwrap();
        let make = |name: &str, files: &[&str]| {
            let job_directory = folder.path().join(name);
            fs::create_dir(&job_directory).unwrap();
            files.iter().for_each(|file| fs::write(job_directory.join(file), "").unwrap());
            job_directory
        };
        let used = |job_directory: &Path, journal: &str| {
            JobDirectory::remove_used(&job_directory.join(journal)).unwrap();
            !job_directory.exists()
        };
        assert!(used(
            &make(".haul-job-0123456789abcdef", &["journal", "script", "log", "unfinished"]),
            "journal"
        ));
        assert!(used(&make(".haul-job-3123456789abcdef", &FILES), "journal"));
        assert!(!used(&make(".haul-job-1123456789abcdef", &["journal", "thesis"]), "journal"));
        assert!(!used(&make(".haul-job-012345", &["journal"]), "journal"));
        assert!(!used(&make("jobs", &["journal"]), "journal"));
        assert!(!used(&make(".haul-job-2123456789abcdef", &["journal", "log"]), "log"));
    }
}
