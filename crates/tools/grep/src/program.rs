//! Patterns with back-references, flattened to programs. The state of a search is then a few
//! integers, cheap to remember (`backtrack.rs`).

use regex_syntax::hir::{Class, Look};

use super::pattern::PatternNode;

/// Number of groups that can be referenced, counting group 0.
const GROUPS: usize = 10;

/// One instruction. Targets are instruction indices.
#[derive(Debug)]
pub(super) enum Instruction {
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
pub(super) struct PatternProgram {
    pub(super) steps: Vec<Instruction>,
    /// For each instruction, a bit set of the slots that may still be read.
    pub(super) live: Vec<u16>,
    /// Number of slots: groups that are referenced.
    pub(super) slots: usize,
    /// Number of loop counters.
    pub(super) counters: usize,
}

impl PatternProgram {
    pub(super) fn new(node: &PatternNode) -> Self {
        let mut referred = Vec::new();
        note_references(node, &mut referred);
        let mut writer = Writer { steps: Vec::new(), referred, counters: 0 };
        writer.write(node);
        writer.steps.push(Instruction::Match);
        let live = live(&writer.steps);
        Self { live, slots: writer.referred.len(), counters: writer.counters, steps: writer.steps }
    }
}

/// Collects the groups that back-references name.
fn note_references(node: &PatternNode, referred: &mut Vec<usize>) {
    match node {
        PatternNode::Back(number) if *number < GROUPS && !referred.contains(number) => referred.push(*number),
        PatternNode::Concat(nodes) | PatternNode::Alternate(nodes) => {
            nodes.iter().for_each(|node| note_references(node, referred));
        }
        PatternNode::Repeat(node, ..) | PatternNode::Group(_, node) => note_references(node, referred),
        PatternNode::Back(_) | PatternNode::Set(_) | PatternNode::Byte(_) | PatternNode::Look(_) => {}
    }
}

struct Writer {
    steps: Vec<Instruction>,
    referred: Vec<usize>,
    counters: usize,
}

impl Writer {
    fn slot(&self, group: usize) -> Option<usize> {
        self.referred.iter().position(|referred| *referred == group)
    }

    fn write(&mut self, node: &PatternNode) {
        match node {
            PatternNode::Set(class) => self.steps.push(Instruction::Set(class.clone())),
            PatternNode::Byte(byte) => self.steps.push(Instruction::Byte(*byte)),
            PatternNode::Look(look) => self.steps.push(Instruction::Look(*look)),
            PatternNode::Concat(nodes) => nodes.iter().for_each(|node| self.write(node)),
            PatternNode::Alternate(nodes) => self.alternate(nodes),
            PatternNode::Repeat(node, least, most) => self.repeat(node, *least, *most),
            PatternNode::Group(number, node) => match self.slot(*number) {
                Some(slot) => {
                    self.steps.push(Instruction::Open(slot));
                    self.write(node);
                    self.steps.push(Instruction::Close(slot));
                }
                None => self.write(node),
            },
            PatternNode::Back(number) => self.steps.extend(self.slot(*number).map(Instruction::Back)),
        }
    }

    fn alternate(&mut self, nodes: &[PatternNode]) {
        let branch = self.steps.len();
        self.steps.push(Instruction::Branch(Vec::new()));
        let (mut begins, mut ends) = (Vec::new(), Vec::new());
        for node in nodes {
            begins.push(self.steps.len());
            self.write(node);
            ends.push(self.steps.len());
            // A placeholder for the jump, whose target isn't known yet.
            self.steps.push(Instruction::Match);
        }
        let out = self.steps.len();
        self.steps[branch] = Instruction::Branch(begins);
        ends.into_iter().for_each(|end| self.steps[end] = Instruction::Jump(out));
    }

    fn repeat(&mut self, node: &PatternNode, least: u32, most: Option<u32>) {
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
        self.steps.push(Instruction::Match);
        self.write(node);
        // `?` is not repeated.
        if most != Some(1) || counter.is_some() {
            self.steps.push(Instruction::Jump(begin));
        }
        let out = self.steps.len();
        self.steps[begin] = match counter {
            Some(counter) => Instruction::Loop { counter, least, most, out },
            None => Instruction::Split(out),
        };
    }
}

/// Computes, for each instruction, the slots that may be read before they are next written. States
/// that differ only in dead slots are the same state.
fn live(steps: &[Instruction]) -> Vec<u16> {
    let mut live = vec![0_u16; steps.len()];
    loop {
        let mut changed = false;
        for (at, step) in steps.iter().enumerate().rev() {
            let next = live.get(at + 1).copied().unwrap_or(0);
            let now = match step {
                Instruction::Jump(to) => live[*to],
                Instruction::Split(to) | Instruction::Loop { out: to, .. } => next | live[*to],
                Instruction::Branch(to) => to.iter().fold(0, |all, to| all | live[*to]),
                Instruction::Open(slot) => next & !(1 << slot),
                // Reads the start that `Open` recorded.
                Instruction::Close(slot) | Instruction::Back(slot) => next | 1 << slot,
                Instruction::Match => 0,
                Instruction::Set(_) | Instruction::Byte(_) | Instruction::Look(_) => next,
            };
            changed |= now != live[at];
            live[at] = now;
        }
        if !changed {
            return live;
        }
    }
}
