//! Tokens: files that the launch process creates in target directories, so that every rank can
//! verify that it sees the same directory and not one of its own host. They are removed when all
//! ranks have looked.

use std::ffi::{CStr, CString};

use haul_flow::{DirCache, JobSpec, Problem, sweep};
use haul_journal::RunId;

use crate::error::RankMismatch;
use crate::kind::ClusterKind;
use crate::remote_path::{RemotePath, RemotePaths};
use crate::wire::DirectoryToken;

/// Tokens in directories that all ranks must see. Dropping this removes them.
pub(crate) struct Tokens<'a, T> {
    spec: &'a JobSpec<'a, T>,
    left: Vec<(usize, DirectoryToken)>,
}

impl<'a, T> Tokens<'a, T> {
    /// Creates a token in each place. A failure is not reported here: creating the copies will fail
    /// too. Removes tokens left by earlier runs with the same journal, which are finished because
    /// this run holds the journal's lock.
    pub(crate) fn leave(spec: &'a JobSpec<'a, T>, run: Option<RunId>) -> Self {
        let family = format!(".haul-token-{:016x}-", run.map_or_else(rand::random, |run| run.number));
        for place in spec.places.iter().filter(|_| run.is_some_and(|run| run.epoch > 1)) {
            let is_ours = |name: &CStr| name.to_bytes().starts_with(family.as_bytes());
            let swept = spec.run.cache.open(place).and_then(|directory| sweep(&directory, is_ours));
            let kept = swept.unwrap_or_else(|cause| vec![cause]);
            kept.iter().for_each(|cause| {
                spec.run.report.debug(&format!("cannot remove the token of an earlier run: {cause:#}"))
            });
        }
        // The name has no NUL.
        let name = CString::new(format!("{family}{:016x}", rand::random::<u64>())).unwrap_or_default();
        let rights = haul_sys::Open::create(haul_sys::Mode::new(0o600));
        let mut left = Vec::new();
        for (index, place) in spec.places.iter().enumerate() {
            let made = spec
                .run
                .cache
                .open(place)
                .and_then(|directory| haul_sys::open(&*directory, &name, rights)?.close());
            match made {
                Ok(()) => {
                    left.push((index, DirectoryToken { place: RemotePath::to(place), name: name.clone() }))
                }
                Err(cause) => spec.run.report.debug(&format!("cannot create a token: {cause:#}")),
            }
        }
        Self { spec, left }
    }

    pub(crate) fn left(&self) -> impl Iterator<Item = &DirectoryToken> {
        self.left.iter().map(|(_, token)| token)
    }
}

impl<T> Drop for Tokens<'_, T> {
    fn drop(&mut self) {
        for (index, token) in &self.left {
            let place = &self.spec.places[*index];
            let directory = self.spec.run.cache.open(place);
            let removed = directory.and_then(|directory| haul_sys::remove(&*directory, &token.name));
            if let Err(cause) = removed {
                let path = place.path_of(&token.name);
                let problem = Problem::new(ClusterKind::CannotRemoveToken).naming(path).because(cause);
                self.spec.run.report.problem(problem.as_warning());
            }
        }
    }
}

/// Checks that a directory contains the launch process's token.
pub(crate) fn check(
    cache: &DirCache,
    ways: &RemotePaths,
    token: &DirectoryToken,
) -> Result<(), RankMismatch> {
    let path = String::from_utf8_lossy(&token.place.path()).into_owned();
    let path = if path.is_empty() { ".".to_owned() } else { path };
    let unseen = |cause| RankMismatch::Unseen { path: path.clone(), cause };
    let held = ways.hold(cache, &token.place).map_err(unseen)?;
    let directory = cache.open(&held).map_err(unseen)?;
    haul_sys::stat_at(&*directory, &token.name).map(drop).map_err(|cause| {
        let token = token.name.to_string_lossy().into_owned();
        RankMismatch::OtherDirectory { path: path.clone(), token, cause }
    })
}
