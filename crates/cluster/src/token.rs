//! Tokens: files that the launch process leaves where something is made, so that every rank can see that it has the same
//! directory there, and not one of its own host. They are taken away when all ranks have looked.

use std::ffi::{CStr, CString};

use haul_flow::{DirCache, JobSpec, Problem, Wording, sweep};

use crate::remote_path::{RemotePath, RemotePaths};
use crate::stamp::RunId;
use crate::wire::Token;

/// The launch process cannot take its token away.
const CANNOT_REMOVE_TOKEN: Wording = Wording("cannot remove {}");

/// The tokens that were left in directories everybody has to see; taken away when it is dropped.
pub(crate) struct Tokens<'a, T> {
    spec: &'a JobSpec<'a, T>,
    left: Vec<(usize, Token)>,
}

impl<'a, T> Tokens<'a, T> {
    /// Leaves a token in each place. One where none can be made says so when copies are made. What earlier runs with the same
    /// journal left there is removed: the journal's lock says that they are over.
    pub(crate) fn leave(spec: &'a JobSpec<'a, T>, run: Option<RunId>) -> Self {
        let family = format!(".haul-token-{:016x}-", run.map_or_else(rand::random, |run| run.number));
        for place in spec.places.iter().filter(|_| run.is_some_and(|run| run.epoch > 1)) {
            let is_ours = |name: &CStr| name.to_bytes().starts_with(family.as_bytes());
            let kept = sweep(spec.cache, place, is_ours).unwrap_or_else(|cause| vec![cause]);
            kept.iter().for_each(|cause| spec.report.debug(&format!("a token stays: {cause:#}")));
        }
        // It has no NUL.
        let name = CString::new(format!("{family}{:016x}", rand::random::<u64>())).unwrap_or_default();
        let rights = haul_sys::Open::create(haul_sys::Mode::new(0o600));
        let mut left = Vec::new();
        for (index, place) in spec.places.iter().enumerate() {
            let made = spec
                .cache
                .open(place)
                .and_then(|directory| haul_sys::open(&*directory, &name, rights)?.close());
            match made {
                Ok(()) => left.push((index, Token { place: RemotePath::to(place), name: name.clone() })),
                Err(cause) => spec.report.debug(&format!("no token: {cause:#}")),
            }
        }
        Self { spec, left }
    }

    /// Lists them.
    pub(crate) fn left(&self) -> impl Iterator<Item = &Token> {
        self.left.iter().map(|(_, token)| token)
    }
}

impl<T> Drop for Tokens<'_, T> {
    fn drop(&mut self) {
        for (index, token) in &self.left {
            let place = &self.spec.places[*index];
            let directory = self.spec.cache.open(place);
            let removed = directory.and_then(|directory| haul_sys::remove(&*directory, &token.name));
            if let Err(cause) = removed {
                let path = place.path_of(&token.name);
                let problem = Problem::new(CANNOT_REMOVE_TOKEN).naming(path).because(cause);
                self.spec.report.problem(problem.as_warning());
            }
        }
    }
}

/// Checks that a directory is the one that the launch process has left a token in.
pub(crate) fn check(cache: &DirCache, ways: &RemotePaths, token: &Token) -> Result<(), String> {
    let path = String::from_utf8_lossy(&token.place.path()).into_owned();
    let path = if path.is_empty() { "." } else { path.as_str() };
    let unseen = |cause: haul_sys::Error| format!("cannot see the directory '{path}': {cause}");
    let held = ways.hold(cache, &token.place).map_err(unseen)?;
    let directory = cache.open(&held).map_err(unseen)?;
    haul_sys::stat_at(&*directory, &token.name).map(drop).map_err(|cause| {
        let name = token.name.to_string_lossy();
        format!("the directory '{path}' is another one there: the file '{name}' is not in it: {cause}")
    })
}
