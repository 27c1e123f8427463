//! Predictions of `--dry-run` for the same random cases, compared with the copies made afterwards.
//!
//! Excluded: several operands, since each is judged by itself; `-i`, which is refused; and options
//! whose effect shows only when tried: `--reflink=always` and devices that are read.

use haul_testkit::{CopyProgram, Facts, Release, RunOutcome, Sandbox, Snapshot, compare, needs};
use haul_testkit::{note, program, random, require};
use proptest::test_runner::{TestCaseError, TestError};

use super::case::{Case, case};

/// The lines of some output, sorted. Workers copy in any order.
fn lines(bytes: &[u8]) -> Vec<String> {
    let mut lines: Vec<_> = String::from_utf8_lossy(bytes).lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

fn said(outcome: &RunOutcome) -> (Option<i32>, Vec<String>, Vec<String>) {
    (outcome.status(), lines(&outcome.stdout), lines(&outcome.stderr))
}

/// Makes a dry run of a case and then the copy. Returns how they differ, if they do.
fn difference(program: &CopyProgram, case: &Case) -> std::io::Result<Option<String>> {
    let sandbox = Sandbox::in_memory()?;
    let folder = sandbox.join("work");
    std::fs::create_dir(&folder)?;
    case.prepare(&folder)?;
    let run = |own: &[&str]| {
        let begun = program.run().args(own).args(&case.way).args(case.arguments()).in_folder(&folder);
        let environment = case.choices.environment.iter();
        let begun = environment.fold(begun, |run, (name, value)| run.env(name, value));
        begun.input(&case.choices.input()).finish()
    };
    let before = Snapshot::take(&folder, Facts::PRESERVED)?;
    let dry = run(&["--dry-run", "-v"])?;
    let changes = compare(&before, &Snapshot::take(&folder, Facts::PRESERVED)?, Facts::PRESERVED)?;
    if !changes.is_empty() {
        return Ok(Some(format!("it changed {changes}")));
    }
    let real = run(&["-v"])?;
    let (dry, real) = (said(&dry), said(&real));
    Ok((dry != real).then(|| format!("  dry {dry:#?}\n  real {real:#?}")))
}

#[test]
fn random_dry_runs_say_what_the_copy_then_does() {
    let ours = program!();
    require!(ours.needs_haul(), needs::root());
    let cases = needs::count_from("HAUL_CASES", if needs::is_full_run() { 3000 } else { 300 });
    let seed = random::seed("dry runs", Some(super::SEED));
    let (newest, mut listed) = (Release(9, 9), Vec::new());
    let is_listing = std::env::var_os("HAUL_LIST").is_some();
    let compared = std::cell::Cell::new(0);
    let listing = std::cell::RefCell::new(&mut listed);
    let result = super::runner(seed, cases).run(&case(newest), |case| {
        if !case.can_be_foreseen() {
            return Ok(());
        }
        compared.set(compared.get() + 1);
        let difference = difference(&ours, &case).map_err(|error| TestCaseError::fail(error.to_string()))?;
        let Some(difference) = difference else { return Ok(()) };
        let text = format!("cp {:?}\n{difference}", case.arguments());
        if !is_listing {
            return Err(TestCaseError::fail(text));
        }
        listing.borrow_mut().push(text);
        Ok(())
    });
    note!("dry runs: {} cases compared", compared.get());
    if let Err(TestError::Fail(reason, case)) = &result {
        panic!("HAUL_SEED={seed}\n{}\nsmallest case: {case:#?}", reason.message());
    }
    result.unwrap();
    assert!(listed.is_empty(), "HAUL_SEED={seed}: {} cases differ\n{}", listed.len(), listed.join("\n"));
    assert!(compared.get() * 3 >= cases, "too few cases were compared");
}
