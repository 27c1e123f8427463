//! Several processes report the same as one.

use haul_testkit::everything;
use haul_testkit::mpi::Mpi;
use haul_testkit::skip;

use super::Scene;

#[test]
fn ranks_report_the_same_as_one_process() {
    let Some(mpi) = Mpi::installed().into_iter().next() else { skip!("needs an MPI installation") };
    let scene = Scene::new();
    everything::spec().build(&scene.path().join("a")).unwrap();
    scene.script(
        "cp -a a b; echo more >> b/size-4096; rm b/size-511; touch b/new b/odd/new; chmod 600 b/size-4097; \
         head -c 9000000 /dev/zero > a/large; cp a/large b/large; printf x | dd of=b/large bs=1 seek=7000000 conv=notrunc status=none",
    );
    for words in
        ["a b", "--attributes a b", "--json --attributes a b", "--brief a b", "-q a b", "a/large b/large"]
    {
        let alone = scene.compare(words);
        for ranks in [1, 2, 4] {
            let own = mpi.options(ranks);
            let run = scene.cmp(own.iter().map(String::as_str).chain(words.split_whitespace()));
            let outcome = mpi.with(run).finish().unwrap();
            assert_eq!(
                (outcome.status(), outcome.printed(), outcome.errors()),
                (alone.status(), alone.printed(), alone.errors()),
                "{words} by {ranks}"
            );
        }
        assert_eq!(alone.status(), Some(1), "{words}");
    }
}
