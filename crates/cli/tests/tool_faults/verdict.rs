//! Verdict on a run that met an error: was it honest?
//!
//! A run passes if its result is right and its status that of a run without a fault, or if its
//! status reports a failure and standard error names each entry with a wrong or missing result. A
//! message about a time, a mode, an owner, an attribute or a close explains only its own entry;
//! any other message about a directory also explains the entries below it. No message excuses an
//! untrue line, an input that is gone without its output, or a change to an entry that was only to
//! be read.

use std::collections::BTreeMap;
use std::path::Path;

use haul_testkit::compare::About;
use haul_testkit::{Facts, Snapshot, compare};

/// A wrong result, and the entry that a message must name for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wrong {
    pub(crate) entry: String,
    /// Other names of the same file, any of which may be named instead.
    pub(crate) other_names: Vec<String>,
    pub(crate) text: String,
}

impl Wrong {
    /// True if a message explains it.
    pub(crate) fn is_explained(&self, messages: &str) -> bool {
        explains(messages, &self.entry) || self.other_names.iter().any(|name| explains(messages, name))
    }
}

/// Wrong results to be explained, or an inexcusable one.
pub(crate) type Wrongs = Result<Vec<Wrong>, String>;

pub(crate) fn wrong(entry: impl Into<String>, text: impl Into<String>) -> Wrong {
    Wrong { entry: entry.into(), other_names: Vec::new(), text: text.into() }
}

/// True if a message on standard error explains why the entry's result is wrong.
pub(crate) fn explains(messages: &str, entry: &str) -> bool {
    const OF_ONE_ENTRY: [&str; 6] = ["time", "mode", "owner", "attribute", "clos", "access list"];
    let is_named = |name: &str| messages.lines().any(|line| names(line, name));
    let mut above = entry;
    let below_a_named_one = std::iter::from_fn(|| {
        above = above.rsplit_once('/')?.0;
        Some(above)
    })
    .any(|directory| {
        let explains = |line: &str| !OF_ONE_ENTRY.iter().any(|word| line.contains(word));
        messages.lines().any(|line| names(line, directory) && explains(line))
    });
    is_named(entry) || below_a_named_one
}

/// True if a line contains the name as a whole word: `tree/a` doesn't occur in `tree/a/b`
/// or `tree/ab`.
fn names(line: &str, name: &str) -> bool {
    let is_part = |character: char| character.is_alphanumeric() || matches!(character, '/' | '_' | '-');
    line.match_indices(name).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + name.len()..]);
        // tar appends a slash to a directory's name.
        let after = after.strip_prefix('/').unwrap_or(after);
        // A dot belongs to the name if more of it follows.
        let goes_on = after.strip_prefix('.').unwrap_or(after).starts_with(is_part);
        let begins_before = before.ends_with(|character| is_part(character) || character == '.');
        !goes_on && (!begins_before || before.ends_with("./"))
    })
}

/// Compares lines about pairs of entries: none may be untrue, and missing ones must be explained.
pub(crate) fn differences(wanted: &[u8], got: &[u8]) -> Wrongs {
    let mut count: BTreeMap<&str, i32> = BTreeMap::new();
    let (wanted, got) = (String::from_utf8_lossy(wanted), String::from_utf8_lossy(got));
    wanted.lines().for_each(|line| *count.entry(line).or_default() += 1);
    got.lines().for_each(|line| *count.entry(line).or_default() -= 1);
    if let Some((line, _)) = count.iter().find(|(_, count)| **count < 0) {
        return Err(format!("the line '{line}' is not true"));
    }
    let missing = count.iter().filter(|(_, count)| **count > 0);
    let lacks = |(line, _): (&&str, _)| {
        let mut subjects = subjects(line);
        // A message about an entry of one tree also covers its counterpart in the other.
        let other = |name: &String| match name.split_once('/') {
            Some(("tree", below)) => format!("other/{below}"),
            Some(("other", below)) => format!("tree/{below}"),
            _ => name.clone(),
        };
        subjects.extend(subjects.iter().map(other).collect::<Vec<_>>());
        Wrong { entry: subjects.remove(0), other_names: subjects, text: format!("no line '{line}'") }
    };
    Ok(missing.map(lacks).collect())
}

/// Returns the entries that a line of `cmp` is about.
fn subjects(line: &str) -> Vec<String> {
    if let Some((directory, name)) = line.strip_prefix("Only in ").and_then(|rest| rest.split_once(": ")) {
        return vec![format!("{directory}/{name}")];
    }
    let pair = line.strip_prefix("Symbolic links ").or_else(|| line.strip_prefix("Files ")).unwrap_or(line);
    let pair = pair.split_once(" differ").map_or(pair, |(pair, _)| pair);
    pair.split(' ').filter(|word| *word != "and").map(str::to_owned).collect()
}

/// Compares lines of hashes: none may be untrue, and the files of missing ones must be explained.
pub(crate) fn hashes(wanted: &[u8], got: &[u8]) -> Wrongs {
    lines_of_files(wanted, got, |line| line.split_once("  ").map_or(line, |(_, name)| name))
}

/// Compares a manifest. If it is not there, that must be explained; if it is, it is complete.
pub(crate) fn manifest(wanted: &[u8], got: Option<&[u8]>) -> Wrongs {
    match got {
        Some(got) if got.is_empty() || got.ends_with(b"\n") => hashes(wanted, got),
        Some(_) => Err("the manifest ends within a line".to_owned()),
        None => Ok(vec![wrong("SUMS", "it is missing")]),
    }
}

/// Compares verdicts: a file may be called unreadable, which must be explained, but not wrong.
pub(crate) fn verdicts(wanted: &[u8], got: &[u8]) -> Wrongs {
    let got = String::from_utf8_lossy(got);
    let told: String = got
        .lines()
        .filter(|line| !line.ends_with(": FAILED open or read"))
        .fold(String::new(), |text, line| text + line + "\n");
    lines_of_files(wanted, told.as_bytes(), |line| line.split_once(": ").map_or(line, |(name, _)| name))
}

fn lines_of_files(wanted: &[u8], got: &[u8], name: impl Fn(&str) -> &str) -> Wrongs {
    let [wanted, got] = [wanted, got].map(String::from_utf8_lossy);
    let mut rest = wanted.lines().collect::<Vec<_>>();
    for line in got.lines() {
        let at = rest.iter().position(|wanted| *wanted == line);
        rest.remove(at.ok_or_else(|| format!("the line '{line}' is not true"))?);
    }
    Ok(rest.into_iter().map(|line| wrong(name(line), format!("no line '{line}'"))).collect())
}

/// Compares lines that start with the name of their file. Each file's lines must be right and in
/// order; if some are missing, the file must be explained.
pub(crate) fn matches(wanted: &[u8], got: &[u8]) -> Wrongs {
    let [wanted, got] = [wanted, got].map(String::from_utf8_lossy);
    let (wanted, got) = (by_file(&wanted), by_file(&got));
    if let Some(file) = got.keys().find(|file| !wanted.contains_key(*file)) {
        return Err(format!("lines of {file}, which has none"));
    }
    let mut wrongs = Vec::new();
    for (file, wanted) in wanted {
        let found = got.get(&file).map_or(&[][..], Vec::as_slice);
        let mut rest = wanted.iter();
        if let Some(line) = found.iter().find(|line| !rest.any(|wanted| wanted == *line)) {
            return Err(format!("the line '{line}' of {file} is not true"));
        }
        if found.len() < wanted.len() {
            wrongs.push(wrong(file, format!("{} of {} lines", found.len(), wanted.len())));
        }
    }
    Ok(wrongs)
}

/// Groups the lines of `grep -n` by file. A name ends before the line number's separator: `:`, or
/// `-` for context.
fn by_file(lines: &str) -> BTreeMap<String, Vec<&str>> {
    let mut files: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for line in lines.lines().filter(|line| *line != "--") {
        let end = line
            .match_indices([':', '-'])
            .map(|(at, _)| at)
            .find(|at| line[at + 1..].starts_with(|character: char| character.is_ascii_digit()));
        let file = end.map_or(line, |end| &line[..end]).to_owned();
        files.entry(file).or_default().push(line);
    }
    files
}

/// Compares concatenated contents of files: each piece is complete, or cut short.
pub(crate) fn contents(pieces: &[(&str, Vec<u8>)], got: &[u8]) -> Wrongs {
    let cut = cut_pieces(pieces, got).ok_or("the output has bytes that belong to no file there")?;
    Ok(cut.into_iter().map(|file| wrong(file, "its content is missing, or its end")).collect())
}

/// Returns the files whose pieces are incomplete, or `None` if the output is not a sequence of the
/// pieces' beginnings.
fn cut_pieces<'a>(pieces: &[(&'a str, Vec<u8>)], got: &[u8]) -> Option<Vec<&'a str>> {
    let Some(((file, piece), others)) = pieces.split_first() else { return got.is_empty().then(Vec::new) };
    if let Some(cut) = got.strip_prefix(&piece[..]).and_then(|after| cut_pieces(others, after)) {
        return Some(cut);
    }
    // The next piece may happen to start like this one, which is then missing as a whole.
    let common = got.iter().zip(piece).take_while(|(got, wanted)| got == wanted).count();
    let mut cut = cut_pieces(others, &got[common..]).or_else(|| cut_pieces(others, got))?;
    cut.push(file);
    Some(cut)
}

/// Compares the blocks of one input. One fault costs one block, so the output is a beginning and an
/// end of the whole.
pub(crate) fn blocks(input: &str, wanted: &[u8], got: &[u8]) -> Wrongs {
    let alike = |pair: &(&u8, &u8)| pair.0 == pair.1;
    let begin = wanted.iter().zip(got).take_while(alike).count();
    let end = wanted.iter().rev().zip(got.iter().rev()).take_while(alike).count();
    match got.len() {
        length if length == wanted.len() && begin == length => Ok(Vec::new()),
        length if length < wanted.len() && begin + end >= length => {
            Ok(vec![wrong(input, format!("{length} of {} bytes", wanted.len()))])
        }
        _ => Err("the output is not made of the blocks".to_owned()),
    }
}

/// Compares a stream made from one input: it may end early if the input is explained, but must
/// not differ.
pub(crate) fn stream(input: &str, wanted: &[u8], got: &[u8]) -> Wrongs {
    if got == wanted {
        return Ok(Vec::new());
    }
    if !wanted.starts_with(got) {
        return Err("the output is not the beginning of the right one".to_owned());
    }
    Ok(vec![wrong(input, format!("{} of {} bytes", got.len(), wanted.len()))])
}

/// Compares two trees. With `one_for_all`, a message about one missing name of a file covers all of
/// them, as in an archive, where only one name has the content.
pub(crate) fn tree(expected: &Path, found: &Path, one_for_all: bool) -> Wrongs {
    let shown = |error: std::io::Error| error.to_string();
    let look = |root: &Path| Snapshot::take(root, Facts::PRESERVED).map_err(shown);
    let (expected, found) = (look(expected)?, look(found)?);
    let list = compare(&expected, &found, Facts::PRESERVED).map_err(shown)?.list;
    if let Some(extra) = list.iter().find(|difference| difference.about == About::Extra) {
        return Err(format!("{} is there", String::from_utf8_lossy(&extra.path)));
    }
    let name = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
    let group = |path: &[u8]| expected.entries().get(path).and_then(|entry| entry.group.as_ref());
    // The root's own time is that of the run.
    let entries = list.iter().filter(|difference| !difference.path.is_empty());
    Ok(entries
        .map(|difference| {
            let mut wrong = wrong(name(&difference.path), difference.text.clone());
            let stands_for_all = one_for_all || difference.about != About::Missing;
            if let Some(here) = group(&difference.path).filter(|_| stands_for_all) {
                let others = expected.entries().keys().filter(|path| group(path) == Some(here));
                wrong.other_names = others.map(|path| name(path)).collect();
            }
            wrong
        })
        .collect())
}

/// Compares a tree whose files are replaced by their outputs with its states before and after.
/// Each input must be replaced by the right output, or still exist without an output or with the
/// right one.
pub(crate) fn replaced(before: &Path, expected: &Path, found: &Path, outputs_end: &str) -> Wrongs {
    let facts = Facts::PRESERVED - Facts::DIRECTORY_MODIFIED - Facts::HOLES;
    let shown = |error: std::io::Error| error.to_string();
    let look = |root: &Path| Snapshot::take(root, facts).map_err(shown);
    let (before, expected, found) = (look(before)?, look(expected)?, look(found)?);
    let about = |standard: &Snapshot| -> Result<BTreeMap<Vec<u8>, (About, String)>, String> {
        let mut worst = BTreeMap::new();
        for difference in compare(standard, &found, facts).map_err(shown)?.list {
            let this = (difference.about, difference.text);
            let kept = worst.entry(difference.path).or_insert_with(|| this.clone());
            *kept = this.min(kept.clone());
        }
        Ok(worst)
    };
    let (from_before, from_expected) = (about(&before)?, about(&expected)?);
    let counterpart = |output: &[u8]| -> Vec<u8> {
        match outputs_end {
            "" => [output, b".bz2"].concat(),
            end => output.strip_suffix(end.as_bytes()).unwrap_or(output).to_vec(),
        }
    };
    let mut wrongs = Vec::new();
    for path in expected.entries().keys() {
        let name = |path: &[u8]| format!("packed/{}", String::from_utf8_lossy(path));
        let input = counterpart(path);
        let is_output = before.entries().contains_key(&input) && !before.entries().contains_key(path);
        let input_is_there = found.entries().contains_key(&input);
        let changed = from_before.contains_key(&input);
        match from_expected.get(path) {
            Some((About::Missing | About::Content | About::Type, text)) if is_output && !input_is_there => {
                return Err(format!("{} is gone, and its output: {text}", name(&input)));
            }
            Some((About::Content | About::Type, text)) if is_output => {
                return Err(format!("{} is left: {text}", name(path)));
            }
            _ if is_output && input_is_there && changed => {
                return Err(format!("{} was changed: {:?}", name(&input), from_before[&input]));
            }
            Some((_, text)) => wrongs.push(wrong(name(path), text.clone())),
            None if is_output && input_is_there => wrongs.push(wrong(name(path), "beside its input")),
            None => {}
        }
        // A message may name either of them.
        if let Some(wrong) = wrongs.last_mut().filter(|wrong| is_output && wrong.entry == name(path)) {
            wrong.other_names.push(name(&input));
        }
    }
    let known = |path: &Vec<u8>| before.entries().contains_key(path) || expected.entries().contains_key(path);
    match found.entries().keys().find(|path| !known(path)) {
        Some(extra) => Err(format!("packed/{} is left", String::from_utf8_lossy(extra))),
        None => Ok(wrongs),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use haul_testkit::Sandbox;

    use super::*;

    fn entries(wrongs: Wrongs) -> Result<Vec<String>, String> {
        wrongs.map(|list| list.into_iter().map(|wrong| wrong.entry).collect())
    }

    #[test]
    fn a_message_explains_what_it_names_and_what_lies_below() {
        let messages = "tar: tree/a: Cannot open: x\ntar: tree/d: Cannot change mode to 0755\nx 'tree/e'.\n";
        for entry in ["tree/a", "tree/a/b", "tree/d", "tree/e"] {
            assert!(explains(messages, entry), "{entry}");
        }
        for entry in ["tree", "tree/ab", "tree/b", "tree/d/x", "a", "other/tree/a"] {
            assert!(!explains(messages, entry), "{entry}");
        }
        assert!(explains("tar: tree/s/: Cannot mkdir: x", "tree/s"));
        assert!(!explains("tar: tree/s/: Cannot mkdir: x", "tree"));
        assert!(explains("bzip2: Output file a.bz2 x", "a.bz2") && !explains("bzip2: file a.bz2 x", "a"));
    }

    #[test]
    fn a_line_of_cmp_may_be_missing_but_not_untrue() {
        let wanted =
            b"Files t/a and o/a differ: size 1, 2\nOnly in t/d: b\nSymbolic links t/l and o/l differ\n";
        assert_eq!(entries(differences(wanted, wanted)), Ok(vec![]));
        assert_eq!(entries(differences(wanted, b"")), Ok(vec!["t/a".into(), "t/d/b".into(), "t/l".into()]));
        assert!(differences(wanted, b"Only in t: d\n").is_err());
        let twice = [&wanted[..], wanted].concat();
        assert!(differences(wanted, &twice).is_err());
    }

    #[test]
    fn lines_of_a_search_are_those_of_their_files() {
        let wanted = b"t/a:1:x-1\nt/a-2-y\n--\nt/b:1:x\n";
        assert_eq!(entries(matches(wanted, b"t/b:1:x\nt/a:1:x-1\nt/a-2-y\n")), Ok(vec![]));
        assert_eq!(entries(matches(wanted, b"t/b:1:x\nt/a-2-y\n")), Ok(vec!["t/a".into()]));
        assert_eq!(entries(matches(wanted, b"")), Ok(vec!["t/a".into(), "t/b".into()]));
        for untrue in ["t/a:1:y\n", "t/c:1:x\n", "t/a-2-y\nt/a:1:x-1\n", "t/b:1:x\nt/b:1:x\n"] {
            assert!(matches(wanted, untrue.as_bytes()).is_err(), "{untrue}");
        }
    }

    #[test]
    fn contents_come_in_order_and_may_be_cut() {
        let pieces = [("a", b"aaa".to_vec()), ("b", b"bbb".to_vec()), ("c", b"ccc".to_vec())];
        assert_eq!(entries(contents(&pieces, b"aaabbbccc")), Ok(vec![]));
        assert_eq!(entries(contents(&pieces, b"aaaccc")), Ok(vec!["b".into()]));
        assert_eq!(entries(contents(&pieces, b"abbb")), Ok(vec!["c".into(), "a".into()]));
        assert!(contents(&pieces, b"aaabbbcccc").is_err() && contents(&pieces, b"bbbaaaccc").is_err());
        let alike = [("a", b"xaa".to_vec()), ("b", b"xbb".to_vec())];
        assert_eq!(entries(contents(&alike, b"xbb")), Ok(vec!["a".into()]));
    }

    #[test]
    fn one_block_may_be_missing() {
        assert_eq!(entries(blocks("a", b"abcde", b"abcde")), Ok(vec![]));
        for got in ["abe", "cde", "abc", ""] {
            assert_eq!(entries(blocks("a", b"abcde", got.as_bytes())), Ok(vec!["a".into()]));
        }
        assert!(["abd", "abcdee", "eabcd"].iter().all(|got| blocks("a", b"abcde", got.as_bytes()).is_err()));
    }

    #[test]
    fn a_stream_ends_early_or_is_wrong() {
        assert_eq!(entries(stream("a", b"abc", b"abc")), Ok(vec![]));
        assert_eq!(entries(stream("a", b"abc", b"a")), Ok(vec!["a".into()]));
        assert!(stream("a", b"abc", b"abd").is_err() && stream("a", b"abc", b"abcd").is_err());
    }

    /// Judges the result `make` of a run that packs a tree with one file, from `f` to `f.bz2`.
    fn left(make: &str) -> Result<Vec<String>, String> {
        let sandbox = Sandbox::in_memory().unwrap();
        let line = format!(
            "mkdir before expected found; echo 1 > before/f; echo 2 > expected/f.bz2; cp -a before/f found; {make}; \
             find . -exec touch -h -d @1000000000 {{}} +"
        );
        crate::shell(&line, sandbox.path());
        let [before, expected, found] = ["before", "expected", "found"].map(|name| sandbox.join(name));
        let judged = entries(replaced(&before, &expected, &found, ".bz2"));
        fs::remove_dir_all(before).unwrap();
        judged
    }

    #[test]
    fn an_input_is_kept_until_its_output_is_right() {
        assert_eq!(left("mv found/f x; cp expected/f.bz2 found"), Ok(vec![]));
        assert_eq!(left("true"), Ok(vec!["packed/f.bz2".into()]));
        assert_eq!(left("cp expected/f.bz2 found"), Ok(vec!["packed/f.bz2".into()]));
        for bad in [
            "mv found/f x",
            "mv found/f x; echo 3 > found/f.bz2",
            "echo 3 > found/f.bz2",
            "echo 3 > found/f",
            "echo 3 > found/.f.partial",
        ] {
            assert!(left(bad).is_err(), "{bad}");
        }
        assert_eq!(
            left("mv found/f x; cp expected/f.bz2 found; chmod 600 found/f.bz2"),
            Ok(vec!["packed/f.bz2".into()])
        );
    }
}
