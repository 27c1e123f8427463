//! The simulation is honest: it reaches the limits of the modelled hardware but never exceeds them,
//! and is deterministic.

use std::time::Duration;

use haul_cluster::schedule::Limits;
use haul_simulation::{Class, Faults, MachineModel, Scenario, SimulationOutcome, WalkModel, Workload, run};
use proptest::prelude::*;

const MB: f64 = 1e6;

/// 80 targets of 125 MB/s, links of 300 MB/s, and everything else almost free.
fn machine() -> MachineModel {
    let little = Duration::from_nanos(1);
    MachineModel {
        targets: 80,
        target_rate: 125.0 * MB,
        target_overhead: Duration::ZERO,
        target_latency: Duration::from_micros(100),
        metadata_servers: 1,
        metadata_rate: 1e9,
        metadata_latency: little,
        link_rate: 300.0 * MB,
        requests_in_flight: 32,
        streams: 8,
        request_bytes: 1 << 20,
        files_in_flight: 64,
        file_cost: little,
        message_latency: Duration::from_micros(5),
        message_cost: little,
        item_cost: little,
        list_cost: little,
        launch_item_cost: little,
        launch_workers: 8,
        outstanding_entries: 1 << 20,
    }
}

fn scene(clients: u32, classes: &[(u64, u64, u32)]) -> Scenario {
    let classes = classes.iter().map(|&(files, bytes, stripes)| Class { files, bytes, stripes });
    Scenario {
        machine: machine(),
        workload: Workload::Files(classes.collect()),
        clients,
        walk: WalkModel::Launch,
        limits: Limits::default(),
        faults: Faults::default(),
        seed: 7,
    }
}

fn check_whole(scene: &Scenario, outcome: &SimulationOutcome) {
    assert_eq!((outcome.files, outcome.bytes), (scene.workload.files(), scene.workload.bytes()));
    let lost = scene.faults.lost_ranks.min(scene.clients - 1);
    // With no bytes to copy, losses are never due.
    let attempts = if outcome.bytes == 0 && lost > 0 { outcome.attempts } else { lost + 1 };
    assert_eq!(outcome.attempts, attempts);
    assert!(outcome.bytes_written >= outcome.bytes);
    assert!(lost > 0 || outcome.bytes_written == outcome.bytes);
}

#[test]
fn one_client_copies_at_the_rate_of_its_link() {
    for classes in [
        vec![(4, 4_000_000_000, 80)],
        vec![(60, 100_000_000, 4)],
        vec![(1, 6_000_000_000, 80), (20, 30_000_000, 4)],
    ] {
        let scene = scene(1, &classes);
        let outcome = run(&scene);
        check_whole(&scene, &outcome);
        let rate = outcome.rate() / MB;
        assert!((285.0..=300.0).contains(&rate), "{rate:.1} MB/s of 300 for {classes:?}");
        assert_eq!(outcome.busy.bottleneck().0, "client links");
    }
}

#[test]
fn many_clients_copy_at_the_rate_of_the_targets() {
    let scene = scene(100, &[(8, 8_000_000_000, 80)]);
    let outcome = run(&scene);
    check_whole(&scene, &outcome);
    let rate = outcome.rate() / MB;
    assert!((9_000.0..=10_000.0).contains(&rate), "{rate:.0} MB/s of 10000");
    assert_eq!(outcome.busy.bottleneck().0, "storage targets");
}

#[test]
fn twice_the_clients_copy_twice_as_fast_while_links_are_what_is_short() {
    let rates = [2, 4, 8, 16].map(|clients| run(&scene(clients, &[(64, 500_000_000, 80)])).rate() / MB);
    for pair in rates.windows(2) {
        assert!(pair[1] / pair[0] > 1.9, "{rates:.0?}");
    }
}

#[test]
fn a_file_on_one_target_is_copied_at_the_rate_of_that_target() {
    let outcome = run(&scene(16, &[(1, 2_000_000_000, 1)]));
    let rate = outcome.rate() / MB;
    assert!((115.0..=125.0).contains(&rate), "{rate:.1} MB/s of 125");
    assert!(outcome.busy.busiest_target > 0.9 && outcome.busy.targets < 0.05);
}

#[test]
fn small_files_are_copied_at_the_rate_of_the_metadata_server() {
    for (servers, walk) in [(1, WalkModel::Launch), (4, WalkModel::Launch), (4, WalkModel::Ranks)] {
        let machine = MachineModel {
            metadata_servers: servers,
            metadata_rate: 10_000.0,
            metadata_latency: Duration::from_millis(1),
            ..machine()
        };
        let workload = Workload::Small { files: 400_000, bytes: 4096, directory_entries: 1000 };
        let scene = Scenario { machine, workload, walk, ..scene(16, &[]) };
        let outcome = run(&scene);
        check_whole(&scene, &outcome);
        let ceiling = f64::from(servers) * 10_000.0 / 5.0;
        let rate = outcome.files_rate();
        assert!(rate <= ceiling && rate > 0.85 * ceiling, "{rate:.0} files a second of {ceiling:.0}");
        assert_eq!(outcome.busy.bottleneck().0, "metadata servers");
        let thousands = outcome.files as f64 / 1000.0;
        assert!(outcome.messages as f64 / thousands < 10.0, "{} messages", outcome.messages);
        assert!(outcome.queued_entries_max <= scene.machine.outstanding_entries + 1000);
    }
}

/// Simulates the scene with these faults.
fn with_faults(scene: &Scenario, faults: Faults) -> SimulationOutcome {
    let scene = Scenario { faults, ..scene.clone() };
    let outcome = run(&scene);
    check_whole(&scene, &outcome);
    outcome
}

#[test]
fn a_lost_rank_costs_its_work_and_the_restart() {
    let restart_time = Duration::from_secs(20);
    for classes in [vec![(9000, 10_000_000, 4)], vec![(8, 24_000_000_000, 80)]] {
        let scene = scene(32, &classes);
        let whole = run(&scene);
        for lost_ranks in [1, 2] {
            let outcome = with_faults(&scene, Faults { lost_ranks, restart_time, ..Faults::default() });
            let waited = f64::from(lost_ranks) * restart_time.as_secs_f64();
            let longer = outcome.seconds - whole.seconds;
            assert!((waited..1.5 * waited).contains(&longer), "{longer:.1} s longer for {classes:?}");
            // Work reported as done is not repeated.
            let again = (outcome.bytes_written - outcome.bytes) as f64 / outcome.bytes as f64;
            assert!(again > 0.0 && again < 0.25, "{again} of the bytes again for {classes:?}");
        }
    }
}

#[test]
fn small_files_survive_the_loss_of_ranks() {
    let workload = Workload::Small { files: 300_000, bytes: 4096, directory_entries: 1000 };
    for walk in [WalkModel::Launch, WalkModel::Ranks] {
        let scene = Scenario { workload: workload.clone(), walk, ..scene(16, &[]) };
        with_faults(&scene, Faults { lost_ranks: 2, ..Faults::default() });
    }
}

#[test]
fn the_last_rank_is_not_lost() {
    let outcome =
        with_faults(&scene(2, &[(50, 1_000_000, 1)]), Faults { lost_ranks: 2, ..Faults::default() });
    assert_eq!(outcome.attempts, 2);
}

#[test]
fn stragglers_take_the_rate_that_they_lack() {
    let scene = scene(20, &[(40, 4_000_000_000, 80)]);
    let whole = run(&scene).rate();
    let slow = Faults { stragglers: 0.2, straggler_speed: 0.5, ..Faults::default() };
    // A fifth of the ranks at half speed costs a tenth; nobody waits for them.
    let left = with_faults(&scene, slow).rate() / whole;
    assert!((0.85..=0.92).contains(&left), "{left}");
    let usual = Faults { stragglers: 0.2, straggler_speed: 1.0, ..Faults::default() };
    assert_eq!(with_faults(&scene, usual), run(&scene));
}

#[test]
fn small_files_go_to_ranks_that_are_not_slow() {
    let machine = MachineModel { metadata_latency: Duration::from_millis(1), ..machine() };
    let workload = Workload::Small { files: 400_000, bytes: 4096, directory_entries: 1000 };
    let scene = Scenario { machine, workload, ..scene(20, &[]) };
    let whole = run(&scene).files_rate();
    let slow = Faults { stragglers: 0.05, straggler_speed: 0.2, ..Faults::default() };
    let left = with_faults(&scene, slow).files_rate() / whole;
    assert!(left > 0.75 && left < 1.0, "{left}");
}

#[test]
fn uneven_targets_hold_up_files_that_lie_on_all_of_them() {
    let uneven = Faults { target_spread: 0.5, ..Faults::default() };
    let on_all = scene(100, &[(8, 8_000_000_000, 80)]);
    let left = with_faults(&on_all, uneven).rate() / run(&on_all).rate();
    // Every stripe row waits for the slowest target, which has half the rate.
    assert!((0.48..=0.6).contains(&left), "{left}");
    // A single client is limited by its link anyway.
    let alone = scene(1, &[(4, 4_000_000_000, 80)]);
    let left = with_faults(&alone, uneven).rate() / run(&alone).rate();
    assert!(left > 0.9, "{left}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn nothing_is_faster_than_the_hardware_and_the_same_is_the_same(
        clients in 1u32..130, targets in 1u32..90, files in 1u64..200, bytes in 0u64..40_000_000,
        large in 0u64..3, stripes in 1u32..100, seed in any::<u64>(), flight in (1u32..40, 1u32..40, 1u32..9),
        faults in (0u32..3, 0.0..0.5f64, 0.05..1.0f64, 0.0..0.9f64),
    ) {
        let mut scene = scene(clients, &[(files, bytes, stripes), (large, 700_000_000, 2 * stripes)]);
        scene.seed = seed;
        let (lost_ranks, stragglers, straggler_speed, target_spread) = faults;
        let restart_time = Duration::from_secs(1);
        scene.faults = Faults { lost_ranks, restart_time, stragglers, straggler_speed, target_spread };
        scene.machine.targets = targets;
        (scene.machine.requests_in_flight, scene.machine.files_in_flight, scene.machine.streams) = flight;
        let outcome = run(&scene);
        check_whole(&scene, &outcome);
        let ceiling = (f64::from(clients) * scene.machine.link_rate).min(f64::from(targets) * scene.machine.target_rate);
        prop_assert!(outcome.rate() <= ceiling);
        let busy = outcome.busy;
        for item in [busy.targets, busy.busiest_target, busy.links, busy.metadata, busy.rank_0, busy.launch] {
            prop_assert!((0.0..=1.0).contains(&item), "{busy:?}");
        }
        prop_assert_eq!(&run(&scene), &outcome);
    }
}

/// Returns the seconds that each file took, and those that were predicted.
fn predictions(outcome: &SimulationOutcome) -> Vec<(f64, f64)> {
    let of = |remark: &String| {
        let (took, predicted) = remark.split_once(" took ")?.1.split_once(" s, ")?;
        let predicted = predicted.strip_suffix(" s were predicted")?;
        Some((took.parse().ok()?, predicted.parse().ok()?))
    };
    outcome.remarks.iter().filter_map(of).collect()
}

#[test]
fn files_take_as_long_as_predicted() {
    let slow = MachineModel { targets: 8, target_rate: 20.0 * MB, link_rate: 25.0 * MB, ..machine() };
    let exact = |bytes| Limits { range_bytes_min: bytes, range_bytes_max: bytes, ..Limits::default() };
    let mut ratios = Vec::new();
    for (clients, classes, machine, limits) in [
        (4, (6, 50_000_000, 8), slow, exact(8 << 20)),
        (4, (12, 200_000_000, 8), slow, Limits::default()),
        (8, (3, 400_000_000, 2), slow, Limits::default()),
        (16, (20, 4_000_000_000, 8), machine(), Limits::default()),
        (100, (30, 8_000_000_000, 80), machine(), Limits::default()),
        (16, (3, 2_000_000_000, 1), machine(), Limits::default()),
    ] {
        for seed in 0..4 {
            let limits = Limits { remarks: true, ..limits };
            let outcome = run(&Scenario { machine, limits, seed, ..scene(clients, &[classes]) });
            let seen = predictions(&outcome);
            assert_eq!(seen.len() as u64, classes.0, "{:?}", outcome.remarks);
            ratios.extend(seen.iter().map(|(took, predicted)| predicted / took));
        }
    }
    let within = ratios.iter().filter(|ratio| (0.75..=1.25).contains(*ratio)).count();
    assert!(within * 20 >= ratios.len() * 19, "{within} of {} within a quarter: {ratios:.2?}", ratios.len());
}
