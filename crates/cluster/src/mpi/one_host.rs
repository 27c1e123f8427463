//! Environment for an MPI library whose ranks are all on one host.
//!
//! Open MPI looks for fast networks before it knows whether it needs them: 0.2 s with release 4,
//! more than a second with release 5. On one host none of them is used, because shared memory is
//! faster. Open MPI is configured by environment variables; MPICH's family needs no configuration.
//!
//! Settings by the user or by the launcher's command line are kept. Every rank finds the same ones
//! in its environment, so all decide alike, as they must.

#![allow(unsafe_code)]

use super::launched::Launched;

/// Settings for Open MPI: its own message layer, without UCX or libfabric below.
const SHARED_MEMORY: [(&str, &str); 2] = [("OMPI_MCA_pml", "ob1"), ("OMPI_MCA_btl", "^ofi,openib,uct")];

/// Returns the variables to set.
fn settings(launched: Option<&Launched>, is_set: impl Fn(&str) -> bool) -> Vec<(&'static str, &'static str)> {
    let on_one_host = launched.is_some_and(|launched| launched.on_one_host);
    // Selecting an MTL means a different message layer altogether.
    if !on_one_host || is_set("OMPI_MCA_mtl") {
        return Vec::new();
    }
    SHARED_MEMORY.into_iter().filter(|(name, _)| !is_set(name)).collect()
}

/// Configures the library that is opened next, if all ranks are on this host.
pub(super) fn set(launched: Option<&Launched>) {
    let settings = settings(launched, |name| std::env::var_os(name).is_some());
    if settings.is_empty() || !has_one_thread() {
        return;
    }
    for (name, value) in settings {
        // SAFETY: this process has one thread, so nobody else reads or writes the environment.
        unsafe { std::env::set_var(name, value) };
    }
}

/// True if the calling thread is the only one of this process.
fn has_one_thread() -> bool {
    std::fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() == 1)
}

#[cfg(test)]
mod tests {
    use super::super::launched::launched_in;
    use super::*;

    fn names(variables: &[(&str, &str)]) -> Vec<&'static str> {
        let find = |name: &str| variables.iter().find(|(variable, _)| *variable == name);
        let launched = launched_in(&|name| find(name).map(|(_, value)| value.into()));
        settings(launched.as_ref(), |name| find(name).is_some()).into_iter().map(|(name, _)| name).collect()
    }

    const SIZE: (&str, &str) = ("OMPI_COMM_WORLD_SIZE", "4");
    const RANK: (&str, &str) = ("OMPI_COMM_WORLD_RANK", "1");

    #[test]
    fn only_ranks_of_one_host_do_without_networks() {
        let here = |count| [SIZE, RANK, ("OMPI_COMM_WORLD_LOCAL_SIZE", count)];
        assert_eq!(names(&here("4")), ["OMPI_MCA_pml", "OMPI_MCA_btl"]);
        assert_eq!(names(&here("2")), [""; 0]);
        assert_eq!(names(&[SIZE, RANK]), [""; 0]);
        let step =
            |nodes| [("SLURM_STEP_NUM_TASKS", "2"), ("SLURM_PROCID", "1"), ("SLURM_STEP_NUM_NODES", nodes)];
        assert_eq!(names(&step("1")).len(), 2);
        assert_eq!(names(&step("2")), [""; 0]);
        assert_eq!(names(&[]), [""; 0]);
    }

    #[test]
    fn what_the_user_says_stays() {
        let said = |name| [SIZE, RANK, ("OMPI_COMM_WORLD_LOCAL_SIZE", "4"), (name, "ucx")];
        assert_eq!(names(&said("OMPI_MCA_pml")), ["OMPI_MCA_btl"]);
        assert_eq!(names(&said("OMPI_MCA_btl")), ["OMPI_MCA_pml"]);
        assert_eq!(names(&said("OMPI_MCA_mtl")), [""; 0]);
    }
}
