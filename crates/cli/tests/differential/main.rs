//! Random trees and random options, compared with GNU cp.
//!
//! Each case is a source tree, a target, one to three operands, a handful of options, and sometimes
//! environment variables and answers on standard input. GNU cp and the program under test run on it
//! side by side; status, messages and the resulting directories must match. A failing case is
//! shrunk by dropping entries and options.
//!
//! The seed is printed. `HAUL_SEED` repeats a run or, if it is `new`, picks a random seed.
//! `HAUL_CASES` sets the number of cases. `HAUL_LIST=1` lists all differing cases as they are
//! instead of shrinking one. `HAUL_GNU_CP` names the GNU cp to compare with; options that it
//! is too old for are left out, and messages of older releases are mapped to the newest
//! wording (`haul_testkit::Release`).
//!
//! Excluded, since GNU cp gives no answer to compare with:
//! - FIFOs in the target that would be opened, and as operands without `-r`: GNU cp waits for a
//!   peer, or reads forever.
//! - Two target names that lead to one file (links), and hard links in a source copied onto an
//!   existing tree: output and result depend on the order of a directory.
//! - An operand inside another: GNU cp copies or refuses directories in the order in which it
//!   meets them.
//! - Symbolic links that lead out of the source: under `-L` they may reach the growing target.
//! - Different answers to `-i` within a tree: the order of the prompts is that of the directory.
//! - Sockets and devices that are hard links of their own copies, under `--copy-contents`: either
//!   the check of the target or the open may fail first.
//!
//! Excluded, since GNU cp is or was wrong:
//! - Devices in the target: GNU cp gives them the mode, owner and times of the file written
//!   to them.
//! - Set-ID and sticky bits in the target: GNU cp 9.1 keeps them on a file that it overwrites with
//!   `--preserve=mode`, so the new content gets the old file's privileges.
//! - Attributes of directories behind links (`-L`, `-H`): GNU cp looks for them on the link and
//!   finds none.
//! - A failing `--reflink=always`: GNU cp left an empty file until release 9.2.
//! - Backups and removal of a link onto itself (`cp -b link .`) and of a name given twice: GNU cp
//!   removes what it is about to read.
//! - `--backup=simple` into another directory: GNU cp renamed to a name in the working directory
//!   until release 9.3.
//! - ACLs in the target: since about 9.7, GNU cp keeps them on a file that `-a` overwrites with one
//!   that has none.
//! - Backups where a directory meets a file: GNU cp refused that until release 9.5.

#![allow(clippy::unwrap_used, clippy::panic)]

mod case;
mod dry_run;
mod options;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::time::Duration;

use haul_testkit::duel::{Duel, DuelVerdict};
use haul_testkit::{CopyProgram, Release, needs, note, program, random, require};
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use case::{Case, case};

/// First release that makes backups where a directory meets a file.
const BACKS_UP_ACROSS_KINDS: Release = Release(9, 5);

/// First release seen to keep a file's ACL when `-a` overwrites it with a file without one.
const LISTS_STAY: Release = Release(9, 7);

/// Default seed. It is fixed, so that a failure is due to a change and not to chance.
const SEED: u64 = 20_260_901;

fn runner(seed: u64, cases: usize) -> TestRunner {
    let mut bytes = [0u8; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config {
        cases: u32::try_from(cases).unwrap(),
        failure_persistence: None,
        max_shrink_iters: 2000,
        ..Config::default()
    };
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}

#[derive(Default)]
struct Seen {
    compared: Cell<usize>,
    /// Compared, and copied without an error.
    clean: Cell<usize>,
    /// Cases without an answer from GNU cp.
    no_answer: Cell<usize>,
    /// Differing cases, with `HAUL_LIST`.
    listed: RefCell<Vec<String>>,
    /// Options of command lines that succeeded.
    options: RefCell<BTreeSet<&'static str>>,
}

impl Seen {
    fn count(&self, case: &Case, verdict: &DuelVerdict) {
        let add = |cell: &Cell<usize>, more: bool| cell.set(cell.get() + usize::from(more));
        add(&self.compared, true);
        add(&self.clean, verdict.standard.succeeded());
        if verdict.standard.succeeded() {
            self.options.borrow_mut().extend(&case.choices.options);
        }
    }
}

/// True if GNU cp gave an answer that the newest release would give too.
fn has_answer(case: &Case, verdict: &DuelVerdict, release: Release) -> bool {
    let across_kinds = case.choices.backs_up()
        && release < BACKS_UP_ACROSS_KINDS
        && verdict.standard.errors().contains("cannot overwrite ");
    !verdict.standard_hung() && !across_kinds && !case.loses_its_source()
}

fn run_case(duel: &Duel, case: &Case, release: Release, seen: &Seen) -> Result<(), TestCaseError> {
    let own: Vec<OsString> = case.way.iter().map(OsString::from).collect();
    let lists_stay = !duel.judged.is_haul() || release >= LISTS_STAY;
    let environment = case.choices.environment.iter().map(|(name, value)| (name.into(), value.into()));
    let duel = Duel {
        facts: duel.facts & case.facts(lists_stay),
        input: case.choices.input(),
        environment: environment.collect(),
        limit: Duration::from_secs(10),
        ..duel.clone()
    };
    let verdict = duel.run(&|folder| case.prepare(folder), &case.arguments(), &own);
    let verdict = verdict.map_err(|error| TestCaseError::fail(error.to_string()))?;
    if !has_answer(case, &verdict, release) {
        seen.no_answer.set(seen.no_answer.get() + 1);
        return Ok(());
    }
    seen.count(case, &verdict);
    if verdict.complaints.is_empty() {
        return Ok(());
    }
    let text = format!("{:?} cp {:?}\n{}", case.choices.environment, case.arguments(), verdict.report());
    if std::env::var_os("HAUL_LIST").is_none() {
        return Err(TestCaseError::fail(text));
    }
    seen.listed.borrow_mut().push(format!("{text}    {case:?}\n"));
    Ok(())
}

#[test]
fn random_copies_are_the_same_as_gnu_cps() {
    require!(CopyProgram::needs_gnu(), needs::root());
    let duel = Duel::with_gnu(program!()).unwrap();
    let release = duel.standard.release().unwrap();
    let cases = needs::count_from("HAUL_CASES", if needs::is_full_run() { 5000 } else { 500 });
    let seed = random::seed("differential test", Some(SEED));
    note!("differential test: HAUL_CASES={cases}, beside GNU cp {}.{}", release.0, release.1);
    let seen = Seen::default();
    let result = runner(seed, cases).run(&case(release), |case| run_case(&duel, &case, release, &seen));
    let unseen: Vec<_> = options::expected_to_succeed(release)
        .filter(|option| !seen.options.borrow().contains(option))
        .collect();
    note!(
        "differential test: {} cases compared, {} of them without an error of GNU cp; in {} GNU cp gave no answer",
        seen.compared.get(),
        seen.clean.get(),
        seen.no_answer.get()
    );
    if let Err(TestError::Fail(reason, case)) = &result {
        panic!("HAUL_SEED={seed}\n{}\nsmallest case: {case:#?}", reason.message());
    }
    result.unwrap();
    let listed = seen.listed.take();
    assert!(listed.is_empty(), "HAUL_SEED={seed}: {} cases differ\n{}", listed.len(), listed.join("\n"));
    assert!(seen.compared.get() >= cases * 9 / 10, "too few cases had an answer");
    assert!(seen.clean.get() * 5 >= cases, "too few cases copied without an error");
    let unseen_most = if cases < 3000 { 5 } else { 0 };
    assert!(cases < 500 || unseen.len() <= unseen_most, "never seen to succeed: {unseen:?}");
}
