//! Back-references: random patterns of groups, alternatives, repetitions (even of nothing) and
//! several references, tried on all short lines of two letters.
//!
//! The reference is a definition, not a program: follow every possible match; a repetition may
//! match nothing; a group keeps its last text until it matches again. Compared with this, GNU
//! grep misses lines if the C library has copied a group (`+` and intervals, such as
//! `(a){0,2}\1` on `aa`). In rare cases it matches a line for which a reference would need two
//! texts at once (`(b*)*a\1*\1b((\1))` on `babb`). Everywhere else the two must agree, which
//! validates the definition.

use std::collections::BTreeSet;
use std::fs;

use haul_testkit::random::{self, IndexedRandom, Random, Rng, seeded};
use haul_testkit::{needs, note, require};

use super::{Scene, needs_gnu};

#[derive(Clone, Debug)]
enum Node {
    Letter(char),
    Any,
    Start,
    End,
    Concat(Vec<Node>),
    Alternate(Vec<Node>),
    Repeat(Box<Node>, usize, Option<usize>),
    Group(usize, Box<Node>),
    Back(usize),
}

struct Maker<'r> {
    random: &'r mut Random,
    groups: usize,
    closed: Vec<usize>,
    anchors: bool,
}

impl Maker<'_> {
    fn node(&mut self, depth: usize) -> Node {
        let kind = self.random.random_range(0..100);
        match kind {
            _ if depth == 0 || kind < 25 => self.leaf(),
            25..50 => {
                Node::Concat((0..self.random.random_range(2..4)).map(|_| self.node(depth - 1)).collect())
            }
            50..62 => self.group(|this| this.alternatives(depth)),
            62..80 => self.group(|this| this.node(depth - 1)),
            _ => {
                const OFTEN: [(usize, Option<usize>); 10] = [
                    (0, None),
                    (0, None),
                    (1, None),
                    (1, None),
                    (0, Some(1)),
                    (2, None),
                    (1, Some(2)),
                    (2, Some(2)),
                    (0, Some(2)),
                    (2, Some(3)),
                ];
                let (least, most) = *OFTEN.choose(self.random).unwrap();
                match self.repeatable(depth - 1) {
                    place @ (Node::Start | Node::End) => place,
                    node => Node::Repeat(Box::new(node), least, most),
                }
            }
        }
    }

    /// Generates a node that can be repeated. A sequence is wrapped in a group, whose number is
    /// that of its opening parenthesis.
    fn repeatable(&mut self, depth: usize) -> Node {
        let before = (self.groups, self.closed.clone(), self.random.clone());
        match self.node(depth) {
            Node::Concat(_) => {
                (self.groups, self.closed) = (before.0, before.1);
                *self.random = before.2;
                self.group(|this| this.node(depth))
            }
            node => node,
        }
    }

    fn leaf(&mut self) -> Node {
        match self.random.random_range(0..100) {
            0..14 if !self.closed.is_empty() => Node::Back(*self.closed.choose(self.random).unwrap()),
            14..20 => Node::Any,
            20..24 if self.anchors => Node::Start,
            24..28 if self.anchors => Node::End,
            _ => Node::Letter(*['a', 'b'].choose(self.random).unwrap()),
        }
    }

    fn group(&mut self, inside: impl FnOnce(&mut Self) -> Node) -> Node {
        self.groups += 1;
        let number = self.groups;
        let node = inside(self);
        if number < 10 {
            self.closed.push(number);
        }
        Node::Group(number, Box::new(node))
    }

    fn alternatives(&mut self, depth: usize) -> Node {
        let before = self.closed.clone();
        let mut all = before.clone();
        let mut branches = Vec::new();
        for _ in 0..self.random.random_range(2..4) {
            self.closed.clone_from(&before);
            let is_empty = self.random.random_bool(0.15);
            branches.push(if is_empty { Node::Concat(Vec::new()) } else { self.node(depth - 1) });
            all.extend(self.closed[before.len()..].iter().copied());
        }
        self.closed = all;
        Node::Alternate(branches)
    }
}

impl Node {
    fn random(random: &mut Random, anchors: bool) -> Self {
        loop {
            let node = Maker { random, groups: 0, closed: Vec::new(), anchors }.node(4);
            if node.any(&|node| matches!(node, Node::Back(_))) && node.text("").len() < 30 {
                return node;
            }
        }
    }

    fn any(&self, is: &dyn Fn(&Node) -> bool) -> bool {
        is(self)
            || match self {
                Node::Concat(nodes) | Node::Alternate(nodes) => nodes.iter().any(|node| node.any(is)),
                Node::Repeat(node, ..) | Node::Group(_, node) => node.any(is),
                _ => false,
            }
    }

    /// True if the C library copies one of its groups.
    fn has_copies(&self) -> bool {
        self.any(&|node| {
            let is_copied = !matches!(node, Node::Repeat(_, 0, None | Some(1)));
            matches!(node, Node::Repeat(inner, ..) if is_copied && inner.any(&|node| matches!(node, Node::Group(..))))
        })
    }

    /// Writes the pattern, with `escape` before each special character.
    fn text(&self, escape: &str) -> String {
        let all = |nodes: &[Node]| nodes.iter().map(|node| node.text(escape)).collect::<Vec<_>>();
        match self {
            Node::Letter(letter) => letter.to_string(),
            Node::Any => ".".to_owned(),
            Node::Start => "^".to_owned(),
            Node::End => "$".to_owned(),
            Node::Concat(nodes) => all(nodes).concat(),
            Node::Alternate(nodes) => all(nodes).join(&format!("{escape}|")),
            Node::Group(_, node) => format!("{escape}({}{escape})", node.text(escape)),
            Node::Back(number) => format!("\\{number}"),
            Node::Repeat(node, least, most) => {
                let often = match (least, most) {
                    (0, None) => "*".to_owned(),
                    (1, None) => format!("{escape}+"),
                    (0, Some(1)) => format!("{escape}?"),
                    (least, None) => format!("{escape}{{{least},{escape}}}"),
                    (least, Some(most)) => format!("{escape}{{{least},{most}{escape}}}"),
                };
                format!("{}{often}", node.text(escape))
            }
        }
    }

    /// Follows every possible match: returns their ends, with the texts of the groups.
    fn ways(&self, line: &str, from: &Way) -> BTreeSet<Way> {
        let rest = &line[from.0..];
        let after = |length: usize| BTreeSet::from([(from.0 + length, from.1.clone())]);
        match self {
            Node::Letter(letter) if rest.starts_with(*letter) => after(1),
            Node::Any if !rest.is_empty() => after(1),
            Node::Start if from.0 == 0 => after(0),
            Node::End if rest.is_empty() => after(0),
            Node::Letter(_) | Node::Any | Node::Start | Node::End => BTreeSet::new(),
            Node::Concat(nodes) => nodes.iter().fold(after(0), |ways, node| node.all_ways(line, &ways)),
            Node::Alternate(nodes) => nodes.iter().flat_map(|node| node.ways(line, from)).collect(),
            Node::Group(number, node) => {
                let closed = |mut way: Way| {
                    way.1[*number] = Some(line[from.0..way.0].to_owned());
                    way
                };
                node.ways(line, from).into_iter().map(closed).collect()
            }
            Node::Back(number) => match &from.1[*number] {
                Some(text) if rest.starts_with(text) => after(text.len()),
                _ => BTreeSet::new(),
            },
            Node::Repeat(node, least, most) => {
                let (mut ended, mut now, mut count) = (BTreeSet::new(), after(0), 0);
                loop {
                    if count >= *least {
                        now = now.difference(&ended).cloned().collect();
                        ended.extend(now.iter().cloned());
                    }
                    if now.is_empty() || Some(count) == *most {
                        return ended;
                    }
                    now = node.all_ways(line, &now);
                    count += 1;
                }
            }
        }
    }

    fn all_ways(&self, line: &str, ways: &BTreeSet<Way>) -> BTreeSet<Way> {
        ways.iter().flat_map(|way| self.ways(line, way)).collect()
    }

    /// Returns the ends of all matches that start at a position.
    fn ends(&self, line: &str, start: usize) -> BTreeSet<usize> {
        self.ways(line, &(start, vec![None; 30])).into_iter().map(|(end, _)| end).collect()
    }

    /// Returns the expected output of `-nx` for these lines.
    fn whole(&self, lines: &[String]) -> String {
        let matches = |line: &str| self.ends(line, 0).contains(&line.len());
        let numbered = lines.iter().enumerate().filter(|(_, line)| matches(line));
        numbered.map(|(at, line)| format!("{}:{line}\n", at + 1)).collect()
    }

    /// Returns the expected output of `-no` for these lines: the longest leftmost
    /// match, repeatedly.
    fn parts(&self, lines: &[String]) -> String {
        let mut shown = String::new();
        for (at, line) in lines.iter().enumerate() {
            let mut start = 0;
            while start < line.len() {
                let end = self.ends(line, start).into_iter().next_back().filter(|end| *end > start);
                if let Some(end) = end {
                    shown.push_str(&format!("{}:{}\n", at + 1, &line[start..end]));
                }
                start = end.unwrap_or(start + 1);
            }
        }
        shown
    }
}

/// End of a partial match, and the texts of the groups.
type Way = (usize, Vec<Option<String>>);

/// Returns all lines of up to five letters.
fn lines() -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut last = lines.clone();
    for _ in 0..5 {
        last = last.iter().flat_map(|line| [format!("{line}a"), format!("{line}b")]).collect();
        lines.extend(last.iter().cloned());
    }
    lines
}

#[test]
fn references_to_groups_that_may_match_nothing() {
    require!(needs_gnu());
    let scene = Scene::of("printf 'ab\\nba\\naa\\naba\\n' > lines");
    let find =
        |pattern: &str| scene.same(&format!("-cxE {pattern} lines"), false).printed().trim().to_owned();
    assert_eq!(find(r"(a|b?)+\1"), "4");
    for pattern in [
        r"(a|b?)*\1",
        r"(b*)*a\1",
        r"(a|(b?))+\2",
        r"((a|b)?)+\1",
        r"(a|b|)+\1",
        r"((a)|b)*\2",
        r"((a)|b)+\2",
    ] {
        find(pattern);
    }
}

#[test]
fn random_references_match_as_defined_and_as_by_gnu_grep() {
    require!(needs_gnu());
    let full = needs::is_full_run();
    let cases = needs::count_from("HAUL_CASES", if full { 4_000 } else { 40 });
    let seed = random::seed("references", Some(1));
    let (scene, lines) = (Scene::new(), lines());
    fs::write(scene.path().join("lines"), lines.join("\n") + "\n").unwrap();
    let mut random = seeded(seed);
    let (mut alike, mut copies_differ, mut found) = (0, 0, 0);
    for case in 0..cases {
        let anchors = case % 4 == 0;
        let node = Node::random(&mut random, anchors);
        let (extended, basic) = (node.text(""), node.text("\\"));
        let ours = |words: [&str; 2]| {
            let words = [words[0], "-e", words[1], "lines"];
            let outcome = scene.haul(words, "C.UTF-8").finish().unwrap();
            assert!(outcome.errors().is_empty(), "{words:?}: {}", outcome.errors());
            outcome.printed()
        };
        let theirs = |words: [&str; 2]| {
            let words = [words[0], "-e", words[1], "lines"];
            scene.gnu(words, "C.UTF-8").finish().unwrap().printed()
        };
        let (whole, parts) = (node.whole(&lines), node.parts(&lines));
        found += usize::from(!whole.is_empty());
        assert_eq!(ours(["-nxE", &extended]), whole, "-nxE '{extended}', seed {seed}, case {case}");
        assert_eq!(ours(["-noE", &extended]), parts, "-noE '{extended}', seed {seed}, case {case}");
        // In the middle of a basic expression, `^` and `$` are literal.
        if !anchors {
            assert_eq!(ours(["-nx", &basic]), whole, "-nx '{basic}', seed {seed}, case {case}");
        }
        let mut same = true;
        for option in ["-nxE", "-noE", "-cE", "-nwE", "-xciE", "-owE"] {
            let (left, right) = (ours([option, &extended]), theirs([option, &extended]));
            if left != right {
                same = false;
                note!("{option} '{extended}' differs from GNU grep's");
            }
        }
        alike += usize::from(same);
        copies_differ += usize::from(!same && node.has_copies());
    }
    note!("{cases} cases: {found} find lines, {alike} as GNU grep, {copies_differ} with copies not");
    assert!(found * 2 > cases, "too few cases find anything");
    assert!((alike + copies_differ) * 100 >= cases * 95, "differs from GNU grep where no group is copied");
    assert!(alike * 10 > cases * 8, "the definition is not GNU grep's");
}

#[test]
fn a_pattern_that_would_take_for_ever_ends_with_a_message() {
    let scene = Scene::new();
    fs::write(scene.path().join("line"), "ab".repeat(3_000) + "\n").unwrap();
    let outcome = scene.haul(["-cE", r"(.*)(.*)(.*)(.*)c\1\2\3\4|x", "line"], "C.UTF-8").finish().unwrap();
    assert_eq!(
        (outcome.status(), &*outcome.printed()),
        (Some(1), "0\n"),
        "no `c`, as the regex engine knows"
    );
    let outcome = scene.haul(["-cE", r"(.*)(.*)(.*)(.*)b\1\2\3\4x?b$", "line"], "C.UTF-8").finish().unwrap();
    assert!(matches!(outcome.status(), Some(0 | 2)), "{}", outcome.errors());
    // Many nested ways to match each letter: exponential without memoization.
    fs::write(scene.path().join("line"), "a".repeat(40) + "\n").unwrap();
    let outcome = scene.haul(["-cxE", r"((a|a)*)*(b*)a\3c?", "line"], "C.UTF-8").finish().unwrap();
    assert_eq!((outcome.status(), &*outcome.printed()), (Some(0), "1\n"));
    let outcome =
        scene.haul(["-cxE", r"((a*)*)*(b*)(a|aa)*\3[b]|(x)\5", "line"], "C.UTF-8").finish().unwrap();
    assert_eq!((outcome.status(), &*outcome.printed()), (Some(1), "0\n"));
}
