//! One queue of jobs for all workers, in walk order: jobs found by a job take its place in
//! the queue.
//!
//! ```text
//! taken by worker 1   found by it        taken by worker 2   found by it   not taken
//! ──────────────────  ─────────────────  ──────────────────  ────────────  ─────────────
//!        ▢            files, directories        ▢            files         directories
//! ```
//!
//! Every worker takes the first job, so all workers are near each other in the tree, and files come
//! before the directories next to them. Of the directories that one job finds, the one shared last
//! comes first.
//!
//! Invariant: a job is taken once, and only after all jobs before it (test:
//! `a_tree_is_walked_in_order`).

use std::collections::VecDeque;

/// Jobs found by one job and not taken yet.
struct Segment<J> {
    /// The worker still doing that job, if any.
    finder: Option<usize>,
    files: VecDeque<J>,
    directories: Vec<J>,
}

impl<J> Segment<J> {
    fn of(finder: Option<usize>) -> Self {
        Self { finder, files: VecDeque::new(), directories: Vec::new() }
    }

    fn is_empty(&self) -> bool {
        self.files.is_empty() && self.directories.is_empty()
    }

    fn pop(&mut self) -> Option<J> {
        self.files.pop_front().or_else(|| self.directories.pop())
    }
}

pub(crate) struct OrderedQueue<J>(VecDeque<Segment<J>>);

impl<J> OrderedQueue<J> {
    pub(crate) fn new() -> Self {
        Self(VecDeque::new())
    }

    /// Adds a job that worker `me` has found: in place of the worker's own job, or at the end if it
    /// has none.
    pub(crate) fn add(&mut self, me: usize, job: J, finds_work: bool) {
        let segment = match self.0.iter().position(|segment| segment.finder == Some(me)) {
            Some(at) => &mut self.0[at],
            None => {
                // Not into the segment of another worker: jobs that it still finds come before.
                if self.0.back().is_none_or(|last| last.finder.is_some()) {
                    self.0.push_back(Segment::of(None));
                }
                let last = self.0.len() - 1;
                &mut self.0[last]
            }
        };
        if finds_work {
            segment.directories.push(job);
        } else {
            segment.files.push_back(job);
        }
    }

    /// Adds a job before all others.
    pub(crate) fn add_first(&mut self, job: J) {
        if self.0.is_empty() {
            self.0.push_back(Segment::of(None));
        }
        self.0[0].files.push_front(job);
    }

    /// Removes and returns the first job for worker `me`, whose previous job then finds
    /// nothing more.
    pub(crate) fn take(&mut self, me: usize) -> Option<J> {
        let mut at = self.0.iter().position(|segment| !segment.is_empty())?;
        let job = self.0[at].pop();
        self.remove_done(at);
        if let Some(before) = self.0.iter().position(|segment| segment.finder == Some(me)) {
            self.0[before].finder = None;
            at -= usize::from(self.remove_done(before) && before < at);
        }
        // In place of the job taken: jobs found by it come before all jobs that were behind it.
        self.0.insert(at, Segment::of(Some(me)));
        job
    }

    /// Removes a segment if it is empty and will stay empty. Returns true if it did.
    fn remove_done(&mut self, at: usize) -> bool {
        let is_done = self.0[at].finder.is_none() && self.0[at].is_empty();
        if is_done {
            self.0.remove(at);
        }
        is_done
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// An entry: its path as numbers, and the levels of directories below it, 0 for a file.
    #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
    struct WalkItem(Vec<usize>, usize);

    const FILES: usize = 3;
    const DIRECTORIES: usize = 4;

    /// Returns the files and directories in an item.
    fn inside(WalkItem(place, levels): &WalkItem) -> (Vec<WalkItem>, Vec<WalkItem>) {
        let inner = |number, levels| WalkItem([place.as_slice(), &[number]].concat(), levels);
        match levels.checked_sub(1) {
            None => Default::default(),
            Some(levels) => (
                (0..FILES).map(|number| inner(number, 0)).collect(),
                (0..DIRECTORIES).map(|number| inner(FILES + number, levels)).collect(),
            ),
        }
    }

    #[test]
    fn a_tree_is_walked_in_order() {
        for workers in 1..5 {
            let mut queue = OrderedQueue::new();
            let root = WalkItem(Vec::new(), 4);
            queue.add(0, root.clone(), true);
            let mut known = BTreeSet::from([root]);
            let mut busy: VecDeque<(usize, WalkItem)> = VecDeque::new();
            let mut free: Vec<_> = (0..workers).collect();
            let mut taken = 0;
            loop {
                while let Some(me) = free.last().copied()
                    && let Some(item) = queue.take(me)
                {
                    assert_eq!(Some(&item), known.pop_first().as_ref());
                    taken += 1;
                    free.pop();
                    busy.push_back((me, item));
                }
                let Some((me, item)) = busy.pop_front() else { break };
                let (files, directories) = inside(&item);
                known.extend(files.iter().chain(&directories).cloned());
                // The first is shared last, so that it is taken first.
                directories.into_iter().rev().for_each(|directory| queue.add(me, directory, true));
                files.into_iter().for_each(|file| queue.add(me, file, false));
                free.push(me);
            }
            let directories = (0..4).map(|level| DIRECTORIES.pow(level)).sum::<usize>();
            assert_eq!(taken, directories * (1 + FILES) + DIRECTORIES.pow(4));
        }
    }

    #[test]
    fn what_comes_from_outside_stands_at_the_end() {
        let mut queue = OrderedQueue::new();
        queue.add(9, 'a', false);
        queue.add(9, 'b', false);
        assert_eq!(queue.take(0), Some('a'));
        queue.add(0, 'x', true);
        queue.add(9, 'c', false);
        queue.add_first('y');
        assert_eq!([queue.take(1), queue.take(1), queue.take(1)], ['y', 'x', 'b'].map(Some));
        assert_eq!([queue.take(0), queue.take(0)], [Some('c'), None]);
    }
}
