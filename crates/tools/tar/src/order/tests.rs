//! A tree written by many workers, each in another place, and the invariants of the archive.

use haul_testkit::random::{IndexedRandom, Random, Rng, seeded};

use super::*;
use crate::format::BLOCK;

/// A tree: the parent of each directory, and its number of files. The first directory is an
/// operand's parent.
struct TestTree {
    above: Vec<usize>,
    files: Vec<usize>,
}

fn header(directory: usize, file: Option<usize>) -> Vec<u8> {
    let mut bytes =
        format!("{directory} {}", file.map_or_else(|| "/".to_owned(), |file| file.to_string())).into_bytes();
    bytes.resize(BLOCK, b' ');
    bytes
}

struct Writing {
    order: ArchiveOrder<(usize, usize)>,
    archive: Vec<u8>,
    /// Open reservations, each with the length of its content.
    reservations: Vec<(Reservation, usize)>,
}

impl Writing {
    fn put(&mut self, offset: u64, bytes: &[u8]) {
        let (begin, end) = (offset as usize, offset as usize + bytes.len());
        self.archive.resize(self.archive.len().max(end), b'-');
        let there = &mut self.archive[begin..end];
        assert!(there.iter().all(|byte| *byte == b'-'), "something is written twice");
        there.copy_from_slice(bytes);
    }

    fn drop_ref(&mut self, segment: &Segment) {
        if let Some((offset, bytes)) = segment.drop_ref() {
            self.put(offset, &bytes);
        }
    }

    /// Writes the segments that have an offset.
    fn write_placed(&mut self) {
        for segment in self.order.take_allocated() {
            self.drop_ref(&segment);
        }
    }

    fn fill(&mut self, index: usize) {
        let (reservation, bytes) = self.reservations.swap_remove(index);
        match reservation {
            Reservation::Between(offset) => self.put(offset, &vec![b'x'; bytes]),
            Reservation::Within(segment, begins) => {
                segment.bytes()[begins..begins + bytes].fill(b'x');
                self.drop_ref(&segment);
            }
        }
    }

    fn finish(mut self) -> Vec<u8> {
        while !self.reservations.is_empty() {
            self.fill(0);
        }
        let end = self.order.finish();
        self.write_placed();
        assert_eq!(self.archive.len() as u64, end);
        self.archive
    }
}

#[derive(Clone, Default)]
struct TestWork {
    number: Option<usize>,
    files: Vec<usize>,
    deferred_count: usize,
    below: usize,
}

/// Adds the tree as several workers would, each in another place. Returns the archive, in which
/// content is `x`, and the files that must not be buffered, in the order in which they were added.
fn written(
    tree: &TestTree,
    random: &mut Random,
    buffered_bytes_max: usize,
) -> (Vec<u8>, Vec<(usize, Option<usize>)>) {
    let order = ArchiveOrder::new(Arc::default(), buffered_bytes_max);
    let mut writing = Writing { order, archive: Vec::new(), reservations: Vec::new() };
    let work = |files: &usize| TestWork { files: (0..*files).collect(), ..TestWork::default() };
    let mut works: Vec<TestWork> = tree.files.iter().map(work).collect();
    tree.above.iter().skip(1).for_each(|above| works[*above].below += 1);
    works[0].number = Some(writing.order.begin(ROOT, 0, Vec::new()));
    let (mut next, mut busy, mut in_order) = (1, vec![0_usize], Vec::new());
    while !busy.is_empty() {
        let directory = *busy.choose(random).unwrap();
        if random.random()
            && let Some(above) = tree.above.get(next)
            && let Some(number) = works[*above].number
        {
            works[next].number =
                Some(writing.order.begin(number, random.random_range(0..9), header(next, None)));
            busy.push(next);
            next += 1;
        } else if let Some(file) = works[directory].files.pop() {
            // The same when the file is retried.
            let may_buffer = !(directory + file).is_multiple_of(3);
            if add(&mut writing, &mut works[directory], (directory, file), random, may_buffer) && !may_buffer
            {
                in_order.push((directory, Some(file)));
            }
        }
        for (directory, file) in writing.order.take_due() {
            works[directory].deferred_count -= 1;
            works[directory].files.push(file);
        }
        let work = &works[directory];
        if work.files.is_empty()
            && work.deferred_count + work.below == 0
            && !(directory == 0 && next < tree.above.len())
        {
            work.number.into_iter().for_each(|number| writing.order.end(number));
            busy.retain(|other| *other != directory);
            if directory > 0 {
                works[tree.above[directory]].below -= 1;
            }
        }
        if writing.reservations.len() > random.random_range(0..8) {
            writing.fill(random.random_range(0..writing.reservations.len()));
        }
        writing.write_placed();
    }
    (writing.finish(), in_order)
}

/// Adds a file of random size unless it is deferred; returns true if it was added.
fn add(
    writing: &mut Writing,
    work: &mut TestWork,
    (directory, file): (usize, usize),
    random: &mut Random,
    may_buffer: bool,
) -> bool {
    let blocks =
        if random.random_range(0..60) == 0 { 9000 } else { *[0, 1, 3, 40, 700].choose(random).unwrap() };
    let header = header(directory, Some(file));
    let bytes = vec![b'x'; blocks * BLOCK];
    let is_here = blocks < 100 && random.random();
    let content =
        if is_here { SegmentContent::Here(&bytes) } else { SegmentContent::Later(bytes.len() as u64) };
    let number = work.number.unwrap();
    let added = writing.order.add(number, &header, &content, may_buffer, || (directory, file));
    work.deferred_count += usize::from(added.is_err());
    let Ok(reservation) = added else { return false };
    assert_eq!(reservation.is_some(), blocks > 0 && !is_here);
    writing.reservations.extend(reservation.map(|reservation| (reservation, blocks * BLOCK)));
    true
}

fn members(archive: &[u8]) -> Vec<(usize, Option<usize>)> {
    let headers = archive.chunks(BLOCK).filter(|block| block[0] != b'x');
    let member = |block: &[u8]| {
        let text = std::str::from_utf8(block).unwrap().trim();
        let (directory, file) = text.split_once(' ').unwrap();
        (directory.parse().unwrap(), file.parse().ok())
    };
    headers.map(member).collect()
}

fn is_below(tree: &TestTree, mut directory: usize, other: usize) -> bool {
    while directory != other && directory != 0 {
        directory = tree.above[directory];
    }
    directory == other
}

/// Checks that everything is there, and that nothing from elsewhere is between a directory's
/// headers and its contents.
fn check(tree: &TestTree, members: &[(usize, Option<usize>)]) {
    for (directory, files) in tree.files.iter().enumerate() {
        let in_it = |member: &&(usize, Option<usize>)| member.0 == directory && member.1.is_some();
        assert_eq!(members.iter().filter(in_it).count(), *files);
    }
    for directory in 1..tree.above.len() {
        let at: Vec<_> = (0..members.len()).filter(|at| members[*at] == (directory, None)).collect();
        assert_eq!(at.len(), 1, "directory {directory}");
        let is_in = |(other, _): &(usize, Option<usize>)| is_below(tree, *other, directory);
        assert_eq!(members.iter().position(is_in), Some(at[0]), "something in {directory} comes before it");
        let over = members[at[0]..].iter().position(|member| !is_in(member));
        let after = over.map_or(&[][..], |over| &members[at[0] + over..]);
        assert_eq!(after.iter().find(|member| is_in(member)), None, "{directory} is left before it is over");
    }
}

fn tree(random: &mut Random) -> TestTree {
    let directories = 2 + random.random_range(0..40);
    let above =
        (0..directories).map(|number| if number == 0 { 0 } else { random.random_range(0..number) }).collect();
    TestTree { above, files: (0..directories).map(|_| random.random_range(0..9)).collect() }
}

#[test]
fn a_walk_by_many() {
    for seed in 0..120 {
        let mut random = seeded(seed);
        let tree = tree(&mut random);
        let buffered_bytes_max = if seed % 2 == 0 { usize::MAX } else { 100_000 };
        let (archive, _) = written(&tree, &mut random, buffered_bytes_max);
        check(&tree, &members(&archive));
    }
}

#[test]
fn who_must_not_wait_comes_in_the_order_of_its_adding() {
    let mut compared = 0;
    for seed in 200..300 {
        let mut random = seeded(seed);
        let tree = tree(&mut random);
        let (archive, in_order) = written(&tree, &mut random, 1_000_000);
        let there = members(&archive).into_iter().filter(|member| in_order.contains(member));
        assert!(there.eq(in_order.iter().copied()), "seed {seed}");
        compared += in_order.len();
    }
    assert!(compared > 1000, "{compared}");
}
