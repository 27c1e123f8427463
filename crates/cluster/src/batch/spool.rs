//! The directory through which a job and the process that follows it speak.
//!
//! It lies beside the target, as that is the one place which the job's hosts must see anyway. It holds:
//!
//! | name | written by | what |
//! |---|---|---|
//! | `script` | here | what the batch system runs |
//! | `begun` | the job | nothing: that it began |
//! | `out`, `err` | the job | what the command wrote; a job that is begun again appends |
//! | `progress` | the job | how far it is; replaced by renaming |
//! | `status` | the job | the exit status; renamed into place when all else is written |
//! | `journal` | the job | what is finished, for a job that is begun again |
//! | `unfinished` | the job | nothing: that the journal is of use to a later copy, so that all is left here |
//! | `log` | the batch system | what it has to say itself |

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::Order;

/// The variable by which a command learns that it runs in a job, and where the spool is.
pub const VARIABLE: &str = "HAUL_SPOOL";

/// A spool.
#[derive(Debug)]
pub struct Spool {
    folder: PathBuf,
}

impl Spool {
    /// Returns the spool of the job that this process runs in, if it runs in one that haul submitted.
    #[must_use]
    pub fn of_process() -> Option<Self> {
        env::var_os(VARIABLE).filter(|folder| !folder.is_empty()).map(|folder| Self { folder: folder.into() })
    }

    /// Makes a spool in the first of the order's folders that takes one, with the script in it.
    pub(super) fn create(order: &Order) -> io::Result<Self> {
        let mut refused = io::Error::new(io::ErrorKind::NotFound, "no folder for the spool of a batch job");
        for parent in &order.shared {
            // The batch system's daemons know no current directory of ours.
            let parent = std::path::absolute(parent)?;
            match make_folder(&parent) {
                Ok(folder) => {
                    let spool = Self { folder };
                    return match spool.write_script(order) {
                        Ok(()) => Ok(spool),
                        Err(error) => {
                            spool.remove()?;
                            Err(error)
                        }
                    };
                }
                Err(error) => {
                    let text = format!("cannot make a spool in {}: {error}", parent.display());
                    refused = io::Error::new(error.kind(), text);
                }
            }
        }
        Err(refused)
    }

    /// Returns its folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the path of the journal.
    #[must_use]
    pub fn journal(&self) -> PathBuf {
        self.folder.join("journal")
    }

    /// Leaves word that the command has given up what its journal would let another finish.
    ///
    /// # Errors
    /// When it cannot be left.
    pub fn keep(&self) -> io::Result<()> {
        fs::write(self.folder.join("unfinished"), "")
    }

    /// Tells whether that word was left.
    pub(super) fn is_kept(&self) -> bool {
        self.folder.join("unfinished").exists()
    }

    /// Tells how far the job is: `content` takes the place of what was told before.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write_progress(&self, content: &[u8]) -> io::Result<()> {
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

    /// Returns the exit status of the command, once it is there.
    pub(super) fn status(&self) -> io::Result<Option<i32>> {
        match fs::read_to_string(self.folder.join("status")) {
            Ok(text) => text.trim().parse().map(Some).map_err(|_| {
                io::Error::new(io::ErrorKind::InvalidData, format!("no exit status: {}", text.escape_debug()))
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes it with all that is in it.
    pub(super) fn remove(&self) -> io::Result<()> {
        match fs::remove_dir_all(&self.folder) {
            // A file that an ending job still has open has another name for a moment on NFS.
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                fs::remove_dir_all(&self.folder)
            }
            done => done,
        }
    }

    /// Removes the spool of an earlier job, whose journal a later run has used to its end: a folder with a spool's name, of this
    /// user, with nothing in it but what a spool holds. Any other is left.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub fn remove_used(journal: &Path) -> io::Result<()> {
        const FILES: [&str; 10] = [
            "script",
            "begun",
            "out",
            "err",
            "progress",
            "progress.new",
            "status",
            "journal",
            "unfinished",
            "log",
        ];
        let journal = std::path::absolute(journal)?;
        let Some(folder) = journal.parent().filter(|_| journal.ends_with("journal")) else { return Ok(()) };
        if !has_spool_name(folder) {
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

    fn write_script(&self, order: &Order) -> io::Result<()> {
        let script = self.script();
        fs::write(&script, script_of(order, &self.folder))?;
        fs::set_permissions(script, fs::Permissions::from_mode(0o700))
    }
}

/// True if a folder is called what spools are.
pub(super) fn has_spool_name(folder: &Path) -> bool {
    let is_hex = |text: &str| text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let name = folder.file_name().and_then(OsStr::to_str).unwrap_or_default();
    name.strip_prefix(".haul-job-").is_some_and(is_hex)
}

/// Makes a folder that nobody else can look into: the output names files.
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

/// Writes the script. It may be run again after a host failed: a command that had ended by itself does not begin again.
fn script_of(order: &Order, folder: &Path) -> Vec<u8> {
    let command = order.words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(OsStr::new(" "));
    let directives = order.queue().directives(order);
    let umask = format!("\numask {:04o}\nexport HAUL_SPOOL\n", order.umask);
    let parts: [&[u8]; 10] = [
        b"#!/bin/sh\n",
        directives.as_bytes(),
        b"# Written by haul for one job; removed at its end.\nHAUL_SPOOL=",
        &quoted(folder.as_os_str()).into_vec(),
        umask.as_bytes(),
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
    parts.concat()
}

/// Quotes a word for a shell.
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
    /// What another test starts holds what this process had open for writing until it becomes its program, and a script
    /// that is open for writing cannot be run: that passes.
    fn begin(spool: &Spool) -> ExitStatus {
        loop {
            match Command::new(spool.script()).status() {
                Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => std::thread::yield_now(),
                other => return other.unwrap(),
            }
        }
    }

    fn order(folder: &Path, words: &[&OsStr]) -> Order {
        Order {
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
        }
    }

    #[test]
    fn the_script_runs_any_words_and_leaves_the_status() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("it's a $folder %j");
        fs::create_dir(&folder).unwrap();
        let odd = OsStr::from_bytes(b"a'b \"c\" $d\n\xff*");
        let print = "printf '%s|' \"$@\"; pwd >&2; exit 3";
        let words = [
            OsStr::new("/bin/sh"),
            OsStr::new("-c"),
            OsStr::new(print),
            OsStr::new("sh"),
            odd,
            OsStr::new(""),
        ];
        let spool = Spool::create(&order(&folder, &words)).unwrap();
        assert_eq!(spool.folder().parent(), Some(folder.as_path()));
        assert_eq!(spool.status().unwrap(), None);
        let run = || begin(&spool).code();
        assert_eq!(run(), Some(3));
        assert_eq!(fs::read(spool.file("out")).unwrap(), [odd.as_bytes(), b"||"].concat());
        assert_eq!(fs::read_to_string(spool.file("err")).unwrap(), format!("{}\n", folder.display()));
        assert_eq!(spool.status().unwrap(), Some(3));
        // partial-file again after its end, it does nothing more.
        assert_eq!(run(), Some(3));
        assert_eq!(fs::read(spool.file("out")).unwrap().len(), odd.len() + 2);
        spool.remove().unwrap();
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    }

    #[test]
    fn a_command_that_a_signal_ended_begins_again() {
        let parent = tempfile::tempdir().unwrap();
        let script = "umask; [ -e again ] && exit 4; : >again; kill -TERM $$";
        let words = ["/bin/sh", "-c", script].map(OsStr::new);
        let spool = Spool::create(&order(parent.path(), &words)).unwrap();
        let run = || begin(&spool).code();
        assert_eq!((run(), spool.status().unwrap()), (Some(143), Some(143)));
        assert_eq!((run(), spool.status().unwrap()), (Some(4), Some(4)));
        assert_eq!(run(), Some(4));
        assert_eq!(fs::read_to_string(spool.file("out")).unwrap(), "0027\n0027\n");
    }

    #[test]
    fn a_directory_that_is_not_there_is_a_failure() {
        let parent = tempfile::tempdir().unwrap();
        let wanted =
            Order { directory: parent.path().join("missing"), ..order(parent.path(), &[OsStr::new("true")]) };
        let spool = Spool::create(&wanted).unwrap();
        assert!(!begin(&spool).success());
        assert_ne!(spool.status().unwrap(), Some(0));
        assert!(fs::read_to_string(spool.file("err")).unwrap().contains("missing"));
    }

    #[test]
    fn without_a_folder_nothing_is_submitted() {
        let wanted = Order { shared: vec!["/proc".into()], ..order(Path::new("/"), &[OsStr::new("true")]) };
        let error = Spool::create(&wanted).unwrap_err().to_string();
        assert!(error.starts_with("cannot make a spool in /proc: "), "{error}");
    }

    #[test]
    fn progress_is_replaced_as_a_whole() {
        let parent = tempfile::tempdir().unwrap();
        let spool = Spool::create(&order(parent.path(), &[OsStr::new("true")])).unwrap();
        for content in [&b"one"[..], b"two and more", b"3"] {
            spool.write_progress(content).unwrap();
            assert_eq!(fs::read(spool.file("progress")).unwrap(), content);
        }
        assert!(!spool.file("progress.new").exists());
    }

    #[test]
    fn the_spool_of_an_earlier_job_goes_only_if_it_is_one() {
        let folder = tempfile::tempdir().unwrap();
        let make = |name: &str, files: &[&str]| {
            let spool = folder.path().join(name);
            fs::create_dir(&spool).unwrap();
            files.iter().for_each(|file| fs::write(spool.join(file), "").unwrap());
            spool
        };
        let used = |spool: &Path, journal: &str| {
            Spool::remove_used(&spool.join(journal)).unwrap();
            !spool.exists()
        };
        assert!(used(
            &make(".haul-job-0123456789abcdef", &["journal", "script", "log", "unfinished"]),
            "journal"
        ));
        assert!(!used(&make(".haul-job-1123456789abcdef", &["journal", "thesis"]), "journal"));
        assert!(!used(&make(".haul-job-012345", &["journal"]), "journal"));
        assert!(!used(&make("jobs", &["journal"]), "journal"));
        assert!(!used(&make(".haul-job-2123456789abcdef", &["journal", "log"]), "log"));
    }
}
