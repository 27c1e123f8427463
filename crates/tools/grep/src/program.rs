//! Patterns with back-references, flattened to programs. The state of a search is then a few
//! integers, cheap to remember (`backtrack.rs`).

use regex_syntax::hir::{Class, Look};

use super::pattern::Node;

/// Number of groups that can be referenced, counting group 0.
const GROUPS: usize = 10;

/// One instruction. Targets are instruction indices.
#[derive(Debug)]
pub(super) enum Step {
    /// Consumes a character of a set.
    Set(Class),
    /// Consumes a byte that is not part of a character.
    Byte(u8),
    /// Continues if the assertion holds.
    Look(Look),
    /// Continues at the next instruction and at this one.
    Split(usize),
    /// Jumps.
    Jump(usize),
    /// Continues at each of these instructions.
    Branch(Vec<usize>),
    /// Records the start of the group in this slot.
    Open(usize),
    /// Records its end.
    Close(usize),
    /// Consumes the text of the group in this slot; fails if the group is unset.
    Back(usize),
    /// Enters or repeats a counted loop: at the next instruction while `most` allows it, at `out`
    /// once `least` is reached.
    Loop { counter: usize, least: u32, most: Option<u32>, out: usize },
    /// Matches.
    Match,
}

/// A pattern as a flat program.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) steps: Vec<Step>,
    /// For each instruction, a bit set of the slots that may still be read.
    pub(super) live: Vec<u16>,
    /// Number of slots: groups that are referenced.
    pub(super) slots: usize,
    /// Number of loop counters.
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

/// Collects the groups that back-references name.
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
            // A placeholder for the jump, whose target isn't known yet.
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
        // A placeholder, likewise.
        self.steps.push(Step::Match);
        self.write(node);
        // `?` is not repeated.
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

/// Computes, for each instruction, the slots that may be read before they are next written. States
/// that differ only in dead slots are the same state.
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
                // Reads the start that `Open` recorded.
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
