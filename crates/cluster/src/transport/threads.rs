//! Ranks that are threads of one process, for tests of code that sends messages.
//!
//! Messages pass through channels, so they arrive at once and in order. A rank is lost if its end
//! is dropped, or if its line is cut while it runs on. In both cases messages to it vanish without
//! an error, as with a dead host.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use super::{Broken, Rank, Transport};

/// One rank's end.
#[derive(Debug)]
pub struct Threads {
    rank: Rank,
    everybody: Vec<Mailbox>,
    arrived: Receiver<(Rank, Vec<u8>)>,
    line: Line,
}

/// Connects a rank with all others.
#[derive(Clone, Debug, Default)]
pub struct Line {
    is_cut: Arc<AtomicBool>,
}

/// Sends to one rank.
#[derive(Clone, Debug)]
struct Mailbox {
    sender: Sender<(Rank, Vec<u8>)>,
    line: Line,
}

impl Threads {
    /// Creates the ends of `ranks` ranks, in order.
    #[must_use]
    pub fn new(ranks: u32) -> Vec<Self> {
        let (everybody, receivers): (Vec<Mailbox>, Vec<_>) = (0..ranks)
            .map(|_| {
                let (sender, receiver) = channel();
                (Mailbox { sender, line: Line::default() }, receiver)
            })
            .unzip();
        let end = |(rank, arrived)| {
            let everybody: Vec<Mailbox> = everybody.clone();
            let line = everybody.get(Rank(rank).index()).map(|way| way.line.clone()).unwrap_or_default();
            Self { rank: Rank(rank), everybody, arrived, line }
        };
        (0..ranks).zip(receivers).map(end).collect()
    }

    /// Returns this rank's line, so that a test can cut it.
    #[must_use]
    pub fn line(&self) -> Line {
        self.line.clone()
    }
}

impl Line {
    /// Cuts the line for good: messages the rank sends, or hasn't received yet, are lost, except
    /// those to itself.
    pub fn cut(&self) {
        self.is_cut.store(true, Ordering::SeqCst);
    }

    fn is_cut(&self) -> bool {
        self.is_cut.load(Ordering::SeqCst)
    }
}

impl Transport for Threads {
    fn rank(&self) -> Rank {
        self.rank
    }

    fn size(&self) -> u32 {
        self.everybody.len() as u32
    }

    fn send(&mut self, to: Rank, message: Vec<u8>) -> Result<(), Broken> {
        let Some(way) = self.everybody.get(to.index()) else {
            let why = format!("there is no rank {} among {}", to.0, self.everybody.len());
            return Err(Broken::Transport { doing: "sending a message", why });
        };
        if to == self.rank || !(self.line.is_cut() || way.line.is_cut()) {
            // A dropped receiver is a lost rank, which is not an error here.
            way.sender.send((self.rank, message)).unwrap_or_default();
        }
        Ok(())
    }

    fn receive(&mut self) -> Result<Option<(Rank, Vec<u8>)>, Broken> {
        loop {
            // This end owns a sender to itself, so the channel can be empty but never closed.
            let Ok((from, message)) = self.arrived.try_recv() else { return Ok(None) };
            if from == self.rank || !self.line.is_cut() {
                return Ok(Some((from, message)));
            }
        }
    }

    fn settle(&mut self) -> Result<bool, Broken> {
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(end: &mut Threads) -> Option<(u32, Vec<u8>)> {
        end.receive().unwrap().map(|(from, message)| (from.0, message))
    }

    #[test]
    fn messages_arrive_once_and_in_order_also_ones_own() {
        let mut ends = Threads::new(2);
        let [zero, one] = &mut ends[..] else { unreachable!() };
        assert_eq!((zero.rank(), one.rank(), one.size()), (Rank(0), Rank(1), 2));
        for number in 0..3 {
            zero.send(Rank(1), vec![number]).unwrap();
            one.send(Rank(1), vec![number + 10]).unwrap();
        }
        let got: Vec<_> = std::iter::from_fn(|| take(one)).collect();
        let of = |rank| {
            got.iter().filter(|(from, _)| *from == rank).map(|(_, bytes)| bytes[0]).collect::<Vec<_>>()
        };
        assert_eq!((of(0), of(1), got.len()), (vec![0, 1, 2], vec![10, 11, 12], 6));
        assert_eq!(take(zero), None);
        assert!(zero.settle().unwrap());
    }

    #[test]
    fn a_rank_that_does_not_exist_is_an_error() {
        let mut ends = Threads::new(1);
        let error = ends[0].send(Rank(1), vec![]).unwrap_err();
        assert_eq!(error.to_string(), "sending a message: there is no rank 1 among 1");
    }

    #[test]
    fn what_is_sent_to_a_lost_rank_vanishes() {
        let mut ends = Threads::new(3);
        drop(ends.pop());
        ends[0].send(Rank(2), vec![1]).unwrap();
        assert!(ends[0].settle().unwrap());
        ends[0].send(Rank(1), vec![2]).unwrap();
        assert_eq!(take(&mut ends[1]), Some((0, vec![2])));
    }

    #[test]
    fn a_cut_rank_lives_on_and_neither_hears_nor_is_heard() {
        let mut ends = Threads::new(2);
        let [zero, one] = &mut ends[..] else { unreachable!() };
        zero.send(Rank(1), vec![1]).unwrap();
        one.line().cut();
        zero.send(Rank(1), vec![2]).unwrap();
        one.send(Rank(0), vec![3]).unwrap();
        one.send(Rank(1), vec![4]).unwrap();
        assert_eq!((take(zero), take(one), take(one)), (None, Some((1, vec![4])), None));
    }
}
