//! Command lines in made-up environments.

use haul_testkit::program::write_script;

use super::*;

fn surroundings(variables: &[(&str, &str)]) -> Surroundings {
    let find = |wanted: &str| {
        let found = variables.iter().find(|(name, _)| *name == wanted);
        found.map(|(_, value)| OsString::from(value))
    };
    Surroundings::of(find)
}

#[test]
fn an_allocation_of_slurm_says_how_many_it_is_for() {
    let slots = |counts: &str| {
        let variables =
            [("SLURM_JOB_ID", "7"), ("SLURM_TASKS_PER_NODE", counts), ("SLURM_JOB_NUM_NODES", "3")];
        surroundings(&variables).allocation.unwrap().slots
    };
    assert_eq!([slots("2(x3),1"), slots("4"), slots("1,2,3")], [Some(7), Some(4), Some(6)]);
    assert_eq!([slots("x"), slots("2(x"), slots("4294967295(x2)")], [None; 3]);
    let few = surroundings(&[("SLURM_JOBID", "8"), ("SLURM_NTASKS", "5")]).allocation.unwrap();
    let expected = Allocation {
        system: System::Slurm,
        id: "8".to_owned(),
        slots: Some(5),
        hosts: None,
        within_step: false,
    };
    assert_eq!(few, expected);
    assert_eq!(surroundings(&[("SLURM_JOB_ID", "")]).allocation, None);
}

#[test]
fn who_holds_an_allocation_has_its_ranks_at_hand() {
    let at_hand = |more: &[(&str, &str)]| {
        let variables = [&[("SLURM_JOB_ID", "7"), ("SLURM_TASKS_PER_NODE", "2(x2)")], more].concat();
        surroundings(&variables).ranks_at_hand()
    };
    assert_eq!(at_hand(&[]), Some(4));
    // The shell of an allocation, and a batch script.
    assert_eq!(at_hand(&[("SLURM_STEP_ID", "4294967290")]), Some(4));
    assert_eq!(at_hand(&[("SLURM_STEP_ID", "4294967291")]), Some(4));
    // A task of srun, which another srun would wait for.
    assert_eq!(at_hand(&[("SLURM_STEP_ID", "0")]), None);
    assert_eq!(at_hand(&[("OMPI_COMM_WORLD_SIZE", "4")]), None);
    assert_eq!(surroundings(&[]).ranks_at_hand(), None);
}

#[test]
fn an_allocation_of_pbs_lists_its_hosts() {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("nodes");
    fs::write(&list, "a\na\nb\nb\n\n").unwrap();
    let variables = [("PBS_JOBID", "12.server"), ("PBS_NODEFILE", list.to_str().unwrap())];
    let found = surroundings(&variables).allocation.unwrap();
    assert_eq!(found.system, System::Pbs);
    assert_eq!((found.slots, found.hosts), (Some(4), Some(2)));
}

#[test]
fn a_batch_system_is_for_those_outside() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let systems = |more: &[(&str, &str)]| {
        surroundings(&[&[("PATH", path)], more].concat()).batch_systems().collect::<Vec<_>>()
    };
    assert_eq!(systems(&[]), []);
    make_program(&folder.path().join("qsub"), "");
    assert_eq!(systems(&[]), [System::Pbs]);
    // Both are listed: `batch::system` skips a Slurm that is installed but not configured.
    make_program(&folder.path().join("sbatch"), "");
    assert_eq!(systems(&[]), [System::Slurm, System::Pbs]);
    assert_eq!(systems(&[("SLURM_JOB_ID", "1")]), []);
}

#[test]
fn launchers_are_distinguished_by_their_versions() {
    let known = [
        ("mpirun (Open MPI) 4.1.4\n\nReport bugs to", LauncherFamily::OpenMpi4),
        ("mpirun.openmpi (OpenRTE) 4.1.4\n", LauncherFamily::OpenMpi4),
        ("mpirun (Open MPI) 5.0.11\n", LauncherFamily::OpenMpi5),
        ("prterun (PRRTE) 3.0.11\n", LauncherFamily::OpenMpi5),
        ("mpirun (Open MPI) 5.1.0a1\n", LauncherFamily::OpenMpi5),
        ("HYDRA build details:\n    Version:   4.0.2\n", LauncherFamily::Mpich),
        ("Intel(R) MPI Library for Linux* OS, Version 2021.5", LauncherFamily::Mpich),
        ("slurm 22.05.8\n", LauncherFamily::Srun),
        ("", LauncherFamily::Other),
    ];
    for (text, family) in known {
        assert_eq!(LauncherFamily::of_version(text), family, "{text}");
    }
}

/// Creates a program that prints a text.
fn make_program(path: &Path, prints: &str) {
    write_script(path, &format!("#!/bin/sh\nprintf '%s\\n' '{prints}'\n")).unwrap();
}

fn wanted<'a>(ranks: u32, environment: &'a [(&'a str, OsString)]) -> Wanted<'a> {
    Wanted {
        ranks,
        program: Path::new("/bin/haul"),
        arguments: &[],
        environment,
        launcher: None,
        library: None,
        places: &[],
    }
}

fn text(line: &StartLine) -> String {
    line.words.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" ")
}

#[test]
fn each_family_gets_its_options() {
    let environment = [("HAUL_X", OsString::from("a b"))];
    let line = |family: LauncherFamily, outside: bool| {
        let variables: &[_] = if outside { &[] } else { &[("SLURM_JOB_ID", "1")] };
        text(&line_of(&surroundings(variables), &wanted(4, &environment), family, vec!["RUN".into()]))
    };
    assert_eq!(
        line(LauncherFamily::OpenMpi4, true),
        "RUN --oversubscribe --bind-to none -n 4 -x HAUL_X=a b /bin/haul"
    );
    assert_eq!(
        line(LauncherFamily::OpenMpi5, true),
        "RUN --map-by :OVERSUBSCRIBE --bind-to none -n 4 -x HAUL_X=a b /bin/haul"
    );
    assert_eq!(line(LauncherFamily::OpenMpi5, false), "RUN --bind-to none -n 4 -x HAUL_X=a b /bin/haul");
    assert_eq!(line(LauncherFamily::Mpich, true), "RUN -genv HAUL_X a b -n 4 /bin/haul");
    assert_eq!(
        line(LauncherFamily::Srun, false),
        "RUN --ntasks=4 --input=0 --unbuffered --kill-on-bad-exit=1 /bin/haul"
    );
    assert_eq!(line(LauncherFamily::Other, true), "RUN -n 4 /bin/haul");
}

#[test]
fn hosts_that_are_chosen_take_the_place_of_others() {
    let place = |host: &str, ranks| HostRanks { host: host.to_owned(), ranks };
    let places = [place("h1", 2), place("h3", 1)];
    let line = |family: LauncherFamily, words: &[&str]| {
        let words = words.iter().map(OsString::from).collect();
        text(&line_of(&surroundings(&[]), &Wanted { places: &places, ..wanted(3, &[]) }, family, words))
    };
    let own = ["RUN", "--host", "h1,h2", "-x", "A", "--hostfile=hosts", "-H", "h2"];
    assert_eq!(
        line(LauncherFamily::OpenMpi4, &own),
        "RUN -x A --host h1:2,h3:1 --bind-to none -n 3 /bin/haul"
    );
    assert_eq!(
        line(LauncherFamily::OpenMpi5, &["RUN"]),
        "RUN --host h1:2,h3:1 --bind-to none -n 3 /bin/haul"
    );
    assert_eq!(
        line(LauncherFamily::Mpich, &["RUN", "-f", "hosts", "-iface", "lo"]),
        "RUN -iface lo -hosts h1:2,h3:1 -n 3 /bin/haul"
    );
    assert_eq!(
        line(LauncherFamily::Srun, &["RUN", "--mpi=none", "-N3"]),
        "RUN --mpi=none -N3 --nodes=2 --nodelist=h1,h3 --ntasks=3 --input=0 --unbuffered --kill-on-bad-exit=1 /bin/haul"
    );
    assert_eq!(line(LauncherFamily::Other, &["RUN", "-f", "x"]), "RUN -f x -n 3 /bin/haul");
}

#[test]
fn the_launcher_of_the_librarys_family_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let [path, bin] = ["path", "own/bin"].map(|name| folder.path().join(name));
    fs::create_dir_all(&path).unwrap();
    fs::create_dir_all(&bin).unwrap();
    make_program(&path.join("mpirun"), "mpirun (Open MPI) 4.1.4");
    make_program(&path.join("mpiexec.mpich"), "HYDRA build details:");
    make_program(&bin.join("mpiexec"), "HYDRA build details:");
    let found = |library: Option<&Path>| {
        let surroundings = surroundings(&[("PATH", path.to_str().unwrap())]);
        let line = start_line(&surroundings, &Wanted { library, ..wanted(2, &[]) }).unwrap();
        PathBuf::from(&line.words[0])
    };
    assert_eq!(found(None), path.join("mpirun"));
    assert_eq!(found(Some(Path::new("/usr/lib/x/libmpich.so.12"))), path.join("mpiexec.mpich"));
    assert_eq!(found(Some(&folder.path().join("own/lib/libmpi_abi.so.1"))), bin.join("mpiexec"));
}

#[test]
fn srun_gets_the_option_for_the_library() {
    let folder = tempfile::tempdir().unwrap();
    make_program(&folder.path().join("srun"), "MPI plugin types are...\n\tpmix\n\tpmi2\n\tnone");
    let variables = [("PATH", folder.path().to_str().unwrap()), ("SLURM_JOB_ID", "1"), ("SLURM_NTASKS", "3")];
    let line = |library: &str| {
        let library = Some(Path::new(library));
        text(&start_line(&surroundings(&variables), &Wanted { library, ..wanted(3, &[]) }).unwrap())
    };
    assert!(
        line("/no/such/lib/libmpi.so.40").contains("srun --mpi=pmix --ntasks=3"),
        "{}",
        line("/no/such/lib/libmpi.so.40")
    );
    assert!(line("/no/such/lib/libmpi.so.12").contains("srun --mpi=pmi2 --ntasks=3"));
}

#[test]
fn what_cannot_be_started_is_refused_with_a_reason() {
    let nothing = surroundings(&[("PATH", "/no/such/folder")]);
    let refusal = start_line(&nothing, &wanted(2, &[])).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "no program to start MPI ranks: looked for mpirun, mpiexec, mpiexec.hydra, mpirun.openmpi, mpiexec.mpich on PATH"
    );
    let small = surroundings(&[("SLURM_JOB_ID", "31"), ("SLURM_NTASKS", "3")]);
    let refusal = start_line(&small, &wanted(4, &[])).unwrap_err();
    assert_eq!(refusal.to_string(), "4 clients are too many: job 31 has room for 3");
    let rank = surroundings(&[("OMPI_COMM_WORLD_SIZE", "4")]);
    let refusal = start_line(&rank, &wanted(4, &[])).unwrap_err();
    assert_eq!(refusal.to_string(), "this is already one of 4 ranks: it cannot start others");
    let own = [OsString::from("/no/such/launcher")];
    let refusal = start_line(&nothing, &Wanted { launcher: Some(&own), ..wanted(2, &[]) }).unwrap_err();
    assert!(refusal.to_string().starts_with("cannot run /no/such/launcher: No such file"), "{refusal}");
}

#[test]
fn a_host_is_not_filled_with_more_ranks_than_it_can_have() {
    let refusal = |ranks, variables: &[(&str, &str)]| {
        let surroundings = Surroundings { tasks_max: Some(32_768), ..surroundings(variables) };
        let wanted = Wanted {
            ranks,
            program: Path::new("/bin/true"),
            arguments: &[],
            environment: &[],
            launcher: None,
            library: None,
            places: &[],
        };
        start_line(&surroundings, &wanted).unwrap_err()
    };
    assert_eq!(refusal(2049, &[]), LaunchRefusal::TooManyForHost { clients: 2049, room: 2048 });
    // There is no launcher here, and in an allocation the hosts have the room.
    assert_eq!(refusal(2048, &[]), LaunchRefusal::NoLauncher);
    let large = [("SLURM_JOB_ID", "7"), ("SLURM_TASKS_PER_NODE", "64(x100)")];
    assert_eq!(refusal(6400, &large), LaunchRefusal::NoLauncher);
}

/// The user's own options, in each spelling, are merged with haul's and never given twice.
#[test]
fn a_launchers_own_words_are_merged() {
    let line = |family: LauncherFamily, variables: &[(&str, &str)], words: &str| {
        let words = words.split(' ').map(OsString::from).collect();
        let line = text(&line_of(&surroundings(variables), &wanted(3, &[]), family, words));
        line.strip_suffix(" -n 3 /bin/haul").unwrap().to_owned()
    };
    let none = " --bind-to none";
    for (words, merged) in [
        ("RUN --map-by slot", "RUN --map-by slot:OVERSUBSCRIBE"),
        ("RUN --map-by=node:PE=2", "RUN --map-by=node:PE=2:OVERSUBSCRIBE"),
        ("RUN -map-by core -x A", "RUN -map-by core:OVERSUBSCRIBE -x A"),
        ("RUN --map-by slot:oversubscribe", "RUN --map-by slot:oversubscribe"),
        ("RUN --map-by slot:NOOVERSUBSCRIBE", "RUN --map-by slot:NOOVERSUBSCRIBE"),
        ("RUN --oversubscribe", "RUN --oversubscribe"),
        ("RUN -oversubscribe", "RUN -oversubscribe"),
        ("RUN --npernode 2", "RUN --npernode 2"),
        (
            "RUN --prtemca rmaps_default_mapping_policy slot",
            "RUN --prtemca rmaps_default_mapping_policy slot:OVERSUBSCRIBE",
        ),
        ("RUN -np 3 --host a:2", "RUN --host a:2 --map-by :OVERSUBSCRIBE"),
        ("RUN --n=3", "RUN --map-by :OVERSUBSCRIBE"),
    ] {
        assert_eq!(line(LauncherFamily::OpenMpi5, &[], words), format!("{merged}{none}"), "{words}");
    }
    for (words, merged) in [
        ("RUN --map-by slot", "RUN --map-by slot --oversubscribe"),
        ("RUN --oversubscribe", "RUN --oversubscribe"),
        ("RUN --nooversubscribe", "RUN --nooversubscribe"),
        ("RUN --mca rmaps_base_oversubscribe 1", "RUN --mca rmaps_base_oversubscribe 1"),
    ] {
        assert_eq!(line(LauncherFamily::OpenMpi4, &[], words), format!("{merged}{none}"), "{words}");
    }
    let oversubscribed = "--map-by :OVERSUBSCRIBE";
    for words in [
        "RUN --bind-to core",
        "RUN -bind-to core",
        "RUN --bind-to=socket",
        "RUN --mca hwloc_base_binding_policy core",
        "RUN --prtemca hwloc_default_binding_policy none",
        "RUN --cpu-set 0,1",
    ] {
        assert_eq!(
            line(LauncherFamily::OpenMpi5, &[], words),
            format!("{words} {oversubscribed}"),
            "{words}"
        );
    }
    let bound = [("PRTE_MCA_hwloc_default_binding_policy", "core")];
    assert_eq!(line(LauncherFamily::OpenMpi5, &bound, "RUN"), format!("RUN {oversubscribed}"));
    let mapped = [("PRTE_MCA_rmaps_default_mapping_policy", "node")];
    assert_eq!(
        line(LauncherFamily::OpenMpi5, &mapped, "RUN"),
        format!("RUN --map-by node:OVERSUBSCRIBE{none}")
    );
    let mapped = [("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe")];
    assert_eq!(line(LauncherFamily::OpenMpi5, &mapped, "RUN"), format!("RUN{none}"));
    let oversubscribes = [("OMPI_MCA_rmaps_base_oversubscribe", "1")];
    assert_eq!(line(LauncherFamily::OpenMpi4, &oversubscribes, "RUN"), format!("RUN{none}"));
    assert_eq!(line(LauncherFamily::Mpich, &[], "RUN -np 3 -bind-to core"), "RUN -bind-to core");
}

/// A number of ranks in the launcher's options must equal the number of clients.
#[test]
fn another_number_of_ranks_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("srun");
    make_program(&program, "");
    let refusal = |words: &[&str]| {
        let words: Vec<_> = [program.as_os_str()]
            .into_iter()
            .chain(words.iter().map(OsStr::new))
            .map(OsStr::to_owned)
            .collect();
        start_line(&surroundings(&[]), &Wanted { launcher: Some(&words), ..wanted(3, &[]) }).err()
    };
    for words in [&["-n", "4"][..], &["-n4"], &["--ntasks=4"], &["--ntasks", "4"]] {
        let given = "4".to_owned();
        assert_eq!(refusal(words), Some(LaunchRefusal::OtherCount { clients: 3, given }), "{words:?}");
    }
    // srun's `-c` is not a number of ranks.
    for words in [&["-n", "3"][..], &["-n3"], &["--ntasks=3"], &["-c", "4"], &["--nodes=4"]] {
        assert_eq!(refusal(words), None, "{words:?}");
    }
}
