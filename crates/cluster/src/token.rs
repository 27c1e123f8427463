//! Tokens: files that the launch process creates in target directories, so that every rank can
//! verify that it sees the same directory and not one of its own host. They are removed when all
//! ranks have looked, or before a signal ends the launch process ([`LiveTokens::remove`]).

use std::ffi::{CStr, CString};
use std::mem;
use std::sync::{Arc, Mutex};

use haul_flow::{DirCache, JobSpec, Problem, lock, sweep};
use haul_journal::RunId;
use haul_sys::{Error, Fd, Pinned, Stat, Times, Timestamp, stat};

use crate::distributed::Distributed;
use crate::error::RankMismatch;
use crate::kind::ClusterKind;
use crate::remote_path::{RemotePath, RemotePaths};
use crate::wire::DirectoryToken;

/// The tokens that exist now.
#[derive(Debug, Default)]
pub struct LiveTokens(Mutex<TokenList>);

#[derive(Debug, Default)]
struct TokenList {
    tokens: Vec<LiveToken>,
    /// True once the process is about to end: no more are created.
    is_closed: bool,
}

#[derive(Debug)]
struct LiveToken {
    directory: Arc<Fd>,
    name: CString,
    /// Its path in messages.
    path: Vec<u8>,
    /// The directory before and after the token was created; `None` once there are copies in it.
    before_and_after: Option<(Stat, Stat)>,
    /// When it was created, by the clock of its file system, if that is known.
    created: Option<Timestamp>,
}

impl LiveToken {
    fn create(directory: Arc<Fd>, name: &CStr, path: Vec<u8>, attempt: u32) -> Result<Self, Error> {
        let before = stat(&*directory)?;
        let rights = haul_sys::Open::create(haul_sys::Mode::new(0o600));
        let file = haul_sys::open(&*directory, name, rights)?;
        let created = stat(&file).ok().map(|made| made.changed);
        file.close()?;
        let after = stat(&*directory).ok().filter(|_| attempt == 1);
        let before_and_after = after.map(|after| (before, after));
        Ok(Self { directory, name: name.to_owned(), path, before_and_after, created })
    }

    /// Removes the token. Gives the directory its times again if nothing else has changed it, so
    /// that a copy that has nothing to do there changes nothing, like one by a single process.
    fn remove(&self) -> Result<(), Error> {
        let now = stat(&*self.directory);
        haul_sys::remove(&*self.directory, &self.name)?;
        if let (Some((before, after)), Ok(now)) = (&self.before_and_after, now)
            && now.modified == after.modified
        {
            let times = Times { accessed: before.accessed, modified: before.modified };
            // Only the owner and root may set them.
            Pinned::of(&self.directory).and_then(|place| place.change_times(times)).unwrap_or_default();
        }
        Ok(())
    }
}

impl LiveTokens {
    /// Removes them. Returns those that can't be removed, and why.
    pub(crate) fn remove_all(&self) -> Vec<(Vec<u8>, Error)> {
        // Held throughout: a thread that is about to end the program waits for the removals.
        let mut live = lock(&self.0);
        let remove = |token: LiveToken| token.remove().err().map(|cause| (token.path, cause));
        mem::take(&mut live.tokens).into_iter().filter_map(remove).collect()
    }

    /// Removes them as far as possible, for a process that is about to end.
    pub fn remove(&self) {
        lock(&self.0).is_closed = true;
        drop(self.remove_all());
    }
}

/// Tokens in directories that all ranks must see. Dropping this removes them.
pub(crate) struct Tokens<'a, T> {
    spec: &'a JobSpec<'a, T>,
    live: &'a LiveTokens,
    created: Vec<DirectoryToken>,
}

impl<'a, T: Distributed> Tokens<'a, T> {
    /// Creates a token in each directory. A failure is not reported here: creating the copies will
    /// fail too. In the first attempt, passes the tool the time in each directory. Removes tokens
    /// left by earlier runs with the same journal, which are finished because this run holds the
    /// journal's lock.
    pub(crate) fn create(
        spec: &'a JobSpec<'a, T>,
        live: &'a LiveTokens,
        run: Option<RunId>,
        attempt: u32,
    ) -> Self {
        let family = format!(".haul-token-{:016x}-", run.map_or_else(rand::random, |run| run.number));
        for directory in spec.target_directories.iter().filter(|_| run.is_some_and(|run| run.epoch > 1)) {
            let is_ours = |name: &CStr| name.to_bytes().starts_with(family.as_bytes());
            let swept = spec.run.cache.open(directory).and_then(|fd| sweep(&fd, is_ours));
            let kept = swept.unwrap_or_else(|cause| vec![cause]);
            kept.iter().for_each(|cause| {
                spec.run.report.debug(&format!("cannot remove the token of an earlier run: {cause:#}"))
            });
        }
        // The name has no NUL.
        let name = CString::new(format!("{family}{:016x}", rand::random::<u64>())).unwrap_or_default();
        let mut tokens = Vec::new();
        for directory in &spec.target_directories {
            let made = spec.run.cache.open(directory).and_then(|fd| {
                // Held until it is in the list: a signal removes only what it finds there.
                let mut live = lock(&live.0);
                if live.is_closed {
                    return Ok(None);
                }
                let token = LiveToken::create(fd, &name, directory.path_of(&name), attempt)?;
                let created = token.created.filter(|_| attempt == 1);
                created.iter().for_each(|now| spec.run.tool.note_start_time(directory, *now));
                live.tokens.push(token);
                Ok(Some(DirectoryToken { directory: RemotePath::to(directory), name: name.clone() }))
            });
            match made {
                Ok(token) => tokens.extend(token),
                Err(cause) => spec.run.report.debug(&format!("cannot create a token: {cause:#}")),
            }
        }
        Self { spec, live, created: tokens }
    }

    pub(crate) fn created(&self) -> impl Iterator<Item = &DirectoryToken> {
        self.created.iter()
    }
}

impl<T> Drop for Tokens<'_, T> {
    fn drop(&mut self) {
        for (path, cause) in self.live.remove_all() {
            let problem = Problem::new(ClusterKind::CannotRemoveToken).naming(path).because(cause);
            self.spec.run.report.problem(problem.as_warning());
        }
    }
}

/// Checks that a directory contains the launch process's token.
pub(crate) fn check(
    cache: &DirCache,
    remote_paths: &RemotePaths,
    token: &DirectoryToken,
) -> Result<(), RankMismatch> {
    let path = String::from_utf8_lossy(&token.directory.path()).into_owned();
    let path = if path.is_empty() { ".".to_owned() } else { path };
    let unseen = |cause| RankMismatch::Unseen { path: path.clone(), cause };
    let held = remote_paths.hold(cache, &token.directory).map_err(unseen)?;
    let directory = cache.open(&held).map_err(unseen)?;
    haul_sys::stat_at(&*directory, &token.name).map(drop).map_err(|cause| {
        let token = token.name.to_string_lossy().into_owned();
        RankMismatch::OtherDirectory { path: path.clone(), token, cause }
    })
}
