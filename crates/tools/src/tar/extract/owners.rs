//! Whose the extracted files are: the numbers of users and groups by their names, each asked of the system once.

use std::collections::HashMap;
use std::ffi::CString;
use std::sync::{Mutex, PoisonError};

use haul_sys::{group_number, user_number};

use crate::tar::read::acl;
use crate::tar::read::member::Member;

/// Answers at most: a hostile archive has as many names as members.
const ANSWERS_MAX: usize = 1 << 16;

type Answers = Mutex<HashMap<Vec<u8>, Option<u32>>>;

/// What the system has said of names.
#[derive(Debug, Default)]
pub(super) struct Owners {
    numeric: bool,
    users: Answers,
    groups: Answers,
}

impl Owners {
    /// Begins with nothing asked; `numeric` says that names do not count.
    pub(super) fn new(numeric: bool) -> Self {
        Self { numeric, ..Self::default() }
    }

    /// Returns the numbers of the user and group that a member is to have here.
    pub(super) fn of(&self, member: &Member) -> (u32, u32) {
        let user = acl::Names::user(self, &member.user_name).unwrap_or(member.user);
        let group = acl::Names::group(self, &member.group_name).unwrap_or(member.group);
        (user, group)
    }
}

impl acl::Names for Owners {
    fn user(&self, name: &[u8]) -> Option<u32> {
        if self.numeric { None } else { ask(&self.users, name, user_number) }
    }

    fn group(&self, name: &[u8]) -> Option<u32> {
        if self.numeric { None } else { ask(&self.groups, name, group_number) }
    }
}

fn ask(answers: &Answers, name: &[u8], system: impl Fn(&std::ffi::CStr) -> Option<u32>) -> Option<u32> {
    if name.is_empty() {
        return None;
    }
    let known = || answers.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(answer) = known().get(name) {
        return *answer;
    }
    // Asked without the lock: the answer may come from another machine.
    let answer = CString::new(name).ok().and_then(|name| system(&name));
    let mut answers = known();
    if answers.len() < ANSWERS_MAX {
        answers.insert(name.to_vec(), answer);
    }
    answer
}
