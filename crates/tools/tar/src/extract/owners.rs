//! Owners of extracted files: user and group numbers by name, each looked up once.

use std::collections::HashMap;
use std::ffi::CString;
use std::sync::Mutex;

use haul_flow::lock;

use haul_sys::{group_number, user_number};

use crate::acl;
use crate::read::member::Member;

/// Maximum cached answers: a hostile archive can have as many names as members.
const ANSWERS_MAX: usize = 1 << 16;

type Answers = Mutex<HashMap<Vec<u8>, Option<u32>>>;

/// Cached answers of the user database.
#[derive(Debug, Default)]
pub(super) struct Owners {
    numeric: bool,
    users: Answers,
    groups: Answers,
}

impl Owners {
    /// Creates an empty cache. With `numeric`, names are ignored.
    pub(super) fn new(numeric: bool) -> Self {
        Self { numeric, ..Self::default() }
    }

    /// Returns the numbers of the user and group that a member gets here.
    pub(super) fn of(&self, member: &Member) -> (u32, u32) {
        let user = acl::NameLookup::user(self, &member.user_name).unwrap_or(member.user);
        let group = acl::NameLookup::group(self, &member.group_name).unwrap_or(member.group);
        (user, group)
    }
}

impl acl::NameLookup for Owners {
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
    let known = || lock(answers);
    if let Some(answer) = known().get(name) {
        return *answer;
    }
    // Looked up without the lock: the answer may come from another machine.
    let answer = CString::new(name).ok().and_then(|name| system(&name));
    let mut answers = known();
    if answers.len() < ANSWERS_MAX {
        answers.insert(name.to_vec(), answer);
    }
    answer
}
