//! Patterns with back-references as programs: the tree made flat, so that a search is in a state of a few numbers that
//! can be remembered (`backtrack.rs`).

use regex_syntax::hir::{Class, Look};

use super::pattern::Node;

/// Groups that can be referred to, and group 0.
const GROUPS: usize = 10;

/// One step of a program. Places are indices of steps.
#[derive(Debug)]
pub(super) enum Step {
    /// Consumes a character of a set.
    Set(Class),
    /// Consumes a byte that is no character.
    Byte(u8),
    /// Goes on if the place in the text is such.
    Look(Look),
    /// Goes on in the next step, and at this place.
    Split(usize),
    /// Goes on at this place.
    Jump(usize),
    /// Goes on at each of these places.
    Branch(Vec<usize>),
    /// Notes where the group in this slot begins.
    Open(usize),
    /// Notes where it ends.
    Close(usize),
    /// Consumes the text of the group in this slot, which has to have one.
    Back(usize),
    /// Begins or repeats a counted loop: in the next step while `most` allows it, at `out` from `least` on.
    Loop { counter: usize, least: u32, most: Option<u32>, out: usize },
    /// The pattern matches.
    Match,
}

/// A pattern made flat.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) steps: Vec<Step>,
    /// For each step, the slots whose text can still be asked for, as bits.
    pub(super) live: Vec<u16>,
    /// Groups that are referred to.
    pub(super) slots: usize,
    /// Counted loops.
    pub(super) counters: usize,
}

impl Program {
    pub(super) fn new(node: &Node) -> Self {
        let mut referred = Vec::new();
        note_references(node, &mut referred);
        let mut writer = Writer { steps: Vec::new(), referred, counters: 0 };
        writer.write(node);
        writer.steps.push(Step::Match);
        let live = live(&writer.steps);
        Self { live, slots: writer.referred.len(), counters: writer.counters, steps: writer.steps }
    }
}

/// Collects the groups that a pattern refers to.
fn note_references(node: &Node, referred: &mut Vec<usize>) {
    match node {
        Node::Back(number) if *number < GROUPS && !referred.contains(number) => referred.push(*number),
        Node::Concat(nodes) | Node::Alternate(nodes) => {
            nodes.iter().for_each(|node| note_references(node, referred));
        }
        Node::Repeat(node, ..) | Node::Group(_, node) => note_references(node, referred),
        Node::Back(_) | Node::Set(_) | Node::Byte(_) | Node::Look(_) => {}
    }
}

struct Writer {
    steps: Vec<Step>,
    referred: Vec<usize>,
    counters: usize,
}

impl Writer {
    fn slot(&self, group: usize) -> Option<usize> {
        self.referred.iter().position(|referred| *referred == group)
    }

    fn write(&mut self, node: &Node) {
        match node {
            Node::Set(class) => self.steps.push(Step::Set(class.clone())),
            Node::Byte(byte) => self.steps.push(Step::Byte(*byte)),
            Node::Look(look) => self.steps.push(Step::Look(*look)),
            Node::Concat(nodes) => nodes.iter().for_each(|node| self.write(node)),
            Node::Alternate(nodes) => self.alternate(nodes),
            Node::Repeat(node, least, most) => self.repeat(node, *least, *most),
            Node::Group(number, node) => match self.slot(*number) {
                Some(slot) => {
                    self.steps.push(Step::Open(slot));
                    self.write(node);
                    self.steps.push(Step::Close(slot));
                }
                None => self.write(node),
            },
            Node::Back(number) => self.steps.extend(self.slot(*number).map(Step::Back)),
        }
    }

    fn alternate(&mut self, nodes: &[Node]) {
        let branch = self.steps.len();
        self.steps.push(Step::Branch(Vec::new()));
        let (mut begins, mut ends) = (Vec::new(), Vec::new());
        for node in nodes {
            begins.push(self.steps.len());
            self.write(node);
            ends.push(self.steps.len());
            self.steps.push(Step::Match);
        }
        let out = self.steps.len();
        self.steps[branch] = Step::Branch(begins);
        ends.into_iter().for_each(|end| self.steps[end] = Step::Jump(out));
    }

    fn repeat(&mut self, node: &Node, least: u32, most: Option<u32>) {
        let begin = self.steps.len();
        let counter = match (least, most) {
            (_, Some(0)) => return,
            (1, Some(1)) => return self.write(node),
            (0, None | Some(1)) => None,
            _ => {
                self.counters += 1;
                Some(self.counters - 1)
            }
        };
        self.steps.push(Step::Match);
        self.write(node);
        if most != Some(1) || counter.is_some() {
            self.steps.push(Step::Jump(begin));
        }
        let out = self.steps.len();
        self.steps[begin] = match counter {
            Some(counter) => Step::Loop { counter, least, most, out },
            None => Step::Split(out),
        };
    }
}

/// Finds out for each step which slots can be asked for from there on before they are set again. What differs only in
/// others is the same state.
fn live(steps: &[Step]) -> Vec<u16> {
    let mut live = vec![0_u16; steps.len()];
    loop {
        let mut changed = false;
        for (at, step) in steps.iter().enumerate().rev() {
            let next = live.get(at + 1).copied().unwrap_or(0);
            let now = match step {
                Step::Jump(to) => live[*to],
                Step::Split(to) | Step::Loop { out: to, .. } => next | live[*to],
                Step::Branch(to) => to.iter().fold(0, |all, to| all | live[*to]),
                Step::Open(slot) => next & !(1 << slot),
                // Where the group begins was noted before.
                Step::Close(slot) | Step::Back(slot) => next | 1 << slot,
                Step::Match => 0,
                Step::Set(_) | Step::Byte(_) | Step::Look(_) => next,
            };
            changed |= now != live[at];
            live[at] = now;
        }
        if !changed {
            return live;
        }
    }
}
