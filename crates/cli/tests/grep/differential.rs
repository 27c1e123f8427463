//! Random patterns, options and inputs, compared with GNU grep byte for byte.
//!
//! `HAUL_CASES` sets the number of cases, `HAUL_SEED` the seed; each differing case is printed.
//! Excluded, since GNU grep's answer is an accident of its engines: word boundaries beside invalid
//! bytes; the empty word (`-w ''`) inside a character; `^*` with colours; two files, the first of
//! which grows the buffer before the second turns binary; and a pattern with a back-reference on a
//! line of many kilobytes, which exhausts memory.

use haul_testkit::random::{self, IndexedRandom, Random, Rng, seeded};
use haul_testkit::{TestRun, needs, note, require};

use super::{Scene, needs_gnu, verdict};

const BASIC: &[&str] = &[
    "foo",
    "bar",
    "o*",
    "",
    "^",
    "$",
    "^$",
    "^foo",
    "foo$",
    "fo\\+",
    "\\(foo\\|bar\\)",
    "\\(a\\)X\\1",
    "\\([a-z]\\)\\1",
    "[0-9]",
    "[^a-z]",
    "[[:upper:]]",
    "[[:alpha:]]*",
    "\\<foo",
    "bar\\>",
    "\\bfoo\\b",
    "\\Bo",
    "\\w\\+",
    "\\W",
    "\\s",
    "\\S*",
    "a.b",
    ".",
    ".*",
    "x\\{3\\}",
    "o\\{2,\\}",
    "\\(abc\\)*",
    "a\\?b",
    "*foo",
    "\\(ab\\|a\\)\\(c\\|bcd\\)",
    "[]a]",
    "[a-]",
    "[^]a]",
    "é",
    "É",
    "[é]",
    "ß",
    "s",
    "k",
    "foo\nbar",
    "\\.",
    "[.]",
    "a|b",
    "(foo)",
    "\\(foo\\)\\(bar\\)\\?",
    "[[:space:]]",
    "^.oo",
    "li.e \\?f",
    "\\`f",
    "r\\'",
    "b[a-z]*r",
    "9$",
    "1\\|2",
    "[[:punct:]]",
    "[[:digit:]]\\+",
    "[[:blank:]]",
    "日",
    "п",
    "\\(fo*\\) \\(ba*\\)",
    "^a\\|b$",
    "^$\\|foo",
    "end$",
    "\\(^a\\|b\\)x",
    ".\\{5,9\\}",
    "[[.a.]]",
    "[[=b=]x]",
    // Invalid patterns.
    "a\\",
    "[",
    "[a",
    "\\(",
    "\\)",
    "a\\{",
    "a\\{1",
    "a\\{2,1\\}",
    "a\\{x\\}",
    "[[:foo:]]",
    "[:space:]",
    "[b-a]",
    "\\1",
    "\\(a\\)\\2",
    "[[.ab.]]",
];

const EXTENDED: &[&str] = &[
    "foo|bar",
    "(foo)(bar)?",
    "o+",
    "(a|ab)(c|bcd)",
    "a{2}",
    "x{3,5}",
    "^(foo|bar)$",
    "(^|x)foo",
    "foo|foobar",
    "(a)X\\1",
    "(.)(.)\\2\\1",
    "[[:alpha:]]+",
    "a||b",
    "()",
    "(|a)o",
    "fo?o",
    "*a",
    "+b",
    "a{,2}",
    "{1}",
    "a{1",
    "(f|o)+",
    "[a-c]{3}",
    "\\w+ \\w+",
    "\\bfoo\\b|end",
    "b.{0,3}r",
    "(foo|bar)baz|x",
    "(x|y)*foo",
    "a|b|c|d",
    "é+",
    ".{3}$",
    "foo$|bar",
    "(b|c)(a|b)*r",
    "[0-9]{2}",
    "^[0-9]+ line$",
    "a|*b",
    ")",
    "(",
    "a{2,1}",
    "a{32768}",
    "a{99999}",
    "x*+",
    "b$\\|c",
];

const FIXED: &[&str] = &[
    "foo",
    "bar",
    "o",
    "",
    "foo\nbar",
    ".",
    "*",
    "a.b",
    "é",
    "abc\nabcabc",
    "foo bar",
    "\\",
    "[",
    "line f",
    "foo\n\nx",
    "É",
    "f\nfo\nfoo",
];

const OPTIONS: &[&str] = &[
    "-n",
    "-n",
    "-i",
    "-i",
    "-v",
    "-v",
    "-w",
    "-w",
    "-x",
    "-c",
    "-l",
    "-L",
    "-o",
    "-o",
    "-q",
    "-s",
    "-H",
    "-h",
    "-b",
    "-a",
    "-T",
    "-Z",
    "-z",
    "-I",
    "-A1",
    "-A1",
    "-B1",
    "-C2",
    "-m1",
    "-m2",
    "-m3",
    "-1",
    "--color=always",
    "--color=always",
    "-U",
    "-A0",
    "-B3",
    "--no-group-separator",
    "--group-separator=##",
    "-y",
    "--null",
    "--line-buffered",
    "-m0",
    "--binary-files=text",
    "--binary-files=without-match",
    "-nb",
    "-on",
    "-ob",
    "-ic",
    "-vn",
    "-wo",
    "-A99",
    "-m-1",
    "--no-ignore-case",
    "--include=[a-l]*",
    "--exclude=?ad",
    "--max-count=2",
];

const COLORS: &[&str] =
    &["sl=1:cx=2", "rv:sl=1;3:cx=44", "mt=4:ne", "ms=1:mc=2:se=3:fn=9:bn=8:ln=", "mt=x:ne"];

fn files(scene: &Scene) -> Vec<&'static str> {
    let words = ["foo", "bar", "x", "", "foo bar", "a.b", "Foo"];
    let numbered: String = (0..60).map(|line| format!("{line} line {}\n", words[line * line % 7])).collect();
    let late = [b"foo line\n".repeat(12_000), b"bar\0foo\nfoo\n".repeat(3)].concat();
    let long = [b"x".repeat(200_000), b"foo\n".to_vec(), b"y".repeat(100_000), b"\nfoo\n".to_vec()].concat();
    let files: [(&str, &[u8]); 13] = [
        ("a", b"foo\nbar\nfoobar baz\n\nFOO bar\nabcabc\naXa bXb\n  foo\nthe end"),
        ("b", numbered.as_bytes()),
        ("c", b""),
        ("d", b"\n"),
        ("e", b"no newline"),
        ("f", b"\n\n\nfoo\n\n"),
        ("u", "héé\nÉCOLE école\nnaïve straße\nſK k\nпривет мир\n日本語\nfoo\u{a0}bar\n".as_bytes()),
        ("bad", b"foo\xff bar\nfoo\nb\x80r\nbar foo\n\xc3\nabc\n"),
        ("nul", b"foo\0bar\nfoo\nbar\0\0\nabc\n\0foo\n"),
        ("late", &late),
        ("crlf", b"foo\r\nbar foo\r\n\r\nabc\r\n"),
        ("z", b"foo\nbar\0bar\n\0abc foo\0\0x"),
        ("long", &long),
    ];
    for (name, content) in files {
        std::fs::write(scene.path().join(name), content).unwrap();
    }
    files.map(|(name, _)| name).to_vec()
}

/// A command line with its locale, colours and standard input.
#[derive(Debug)]
struct Case {
    words: Vec<String>,
    locale: &'static str,
    colors: Option<&'static str>,
    input: Option<&'static str>,
}

impl Case {
    fn random(random: &mut Random, files: &[&'static str]) -> Self {
        let (mode, patterns) =
            *[("-G", BASIC), ("-E", EXTENDED), ("-F", FIXED), ("", BASIC)].choose(random).unwrap();
        let pattern = *patterns.choose(random).unwrap();
        let mut words: Vec<String> =
            [mode].iter().filter(|mode| !mode.is_empty()).map(|mode| (*mode).into()).collect();
        for _ in 0..random.random_range(0..5) {
            words.push((*OPTIONS.choose(random).unwrap()).to_owned());
        }
        words.extend(["-e".to_owned(), pattern.to_owned()]);
        let input = random.random_bool(0.15).then(|| *files.choose(random).unwrap());
        let count = if input.is_some() { random.random_range(0..2) } else { random.random_range(1..4) };
        words.extend(files.choose_multiple(random, count).map(|name| (*name).to_owned()));
        if input.is_some() && count > 0 {
            words.push("-".to_owned());
        }
        for (name, chance) in [("nope", 0.05), (".", 0.05)] {
            if count > 0 && random.random_bool(chance) {
                words.push(name.to_owned());
            }
        }
        let locale = if random.random_bool(0.3) { "C" } else { "C.UTF-8" };
        let colors = random.random_bool(0.1).then(|| *COLORS.choose(random).unwrap());
        Self { words, locale, colors, input }
    }

    /// True if GNU grep gives an answer to compare with.
    fn has_an_answer(&self) -> bool {
        let has = |word: &str| self.words.iter().any(|given| given == word) || self.input == Some(word);
        let pattern = &self.words[self.words.iter().position(|word| word == "-e").unwrap() + 1];
        let by_words = self.words.iter().any(|word| ["-w", "-wo"].contains(&word.as_str()));
        let has_ends = ["\\b", "\\B", "\\<", "\\>"].iter().any(|end| pattern.contains(end));
        let is_empty = pattern.is_empty() || ["^", "$", "\\S*", "o*", "()"].contains(&pattern.as_str());
        !(has("long") && (has("late") || pattern.contains("\\1") || pattern.contains("\\2"))
            || has("bad") && (has_ends || by_words)
            || has("u") && by_words && (is_empty || pattern.contains("\n\n")))
    }

    fn of(&self, run: TestRun, scene: &Scene) -> TestRun {
        let run = run.args(&self.words);
        let run = self.colors.iter().fold(run, |run, colors| run.env("GREP_COLORS", colors));
        let input = self.input.map(|name| std::fs::read(scene.path().join(name)).unwrap());
        run.input(&input.unwrap_or_default())
    }
}

#[test]
fn random_searches_come_to_the_same_as_gnu_greps() {
    require!(needs_gnu());
    let cases = needs::count_from("HAUL_CASES", 400);
    let scene = Scene::new();
    let files = files(&scene);
    let mut random = seeded(random::seed("searches", Some(1)));
    let (mut run, mut matched, mut different) = (0, 0, Vec::new());
    while run < cases {
        let case = Case::random(&mut random, &files);
        if !case.has_an_answer() {
            continue;
        }
        run += 1;
        let none: [&str; 0] = [];
        let theirs = case.of(scene.gnu(none, case.locale), &scene);
        let theirs = theirs.finish().unwrap();
        let ours = case.of(scene.haul(none, case.locale), &scene).finish().unwrap();
        matched += usize::from(theirs.status() == Some(0));
        // With -q, a match hides errors of files before or after it.
        let is_quiet = case.words.iter().any(|word| word == "-q") && theirs.status() == Some(0);
        let same = ours.status() == theirs.status()
            && ours.stdout == theirs.stdout
            && (is_quiet || verdict(&ours, false).2 == verdict(&theirs, false).2);
        if !same {
            note!("{case:?}\n  GNU:  {:?}\n  haul: {:?}", verdict(&theirs, false), verdict(&ours, false));
            different.push(case);
        }
    }
    note!("{cases} cases, {matched} of which found something");
    assert!(different.is_empty(), "{} cases differ", different.len());
    assert!(matched * 4 > cases, "too few cases find anything");
}

#[test]
fn context_among_what_is_no_text_is_gnu_greps() {
    require!(needs_gnu());
    let (scene, mut random) = (Scene::new(), seeded(3));
    let numbers: String = (1..20_000).map(|number| format!("{number}\n")).collect();
    let mut names = Vec::new();
    let mut write = |content: &[u8]| {
        names.push(names.len().to_string());
        std::fs::write(scene.path().join(&names[names.len() - 1]), content).unwrap();
    };
    for length in 1..40 {
        let bytes: Vec<u8> = (0..length * 37).map(|_| random.random()).collect();
        write(&bytes);
        write(&bytes.iter().map(|byte| if *byte == 0 { b'x' } else { *byte }).collect::<Vec<_>>());
        let pieces: [&[u8]; 6] = [b"1\n", b"\xff1\n", b"foo\n", b"\xfe\n", b"2", b"\n"];
        write(&(0..length).flat_map(|_| *pieces.choose(&mut random).unwrap()).copied().collect::<Vec<_>>());
    }
    // GNU grep's read buffer ends within line 18236.
    for end in ["a\0b\n1\n", "a\0b\n18235 too\n"] {
        write(&[numbers.as_bytes(), end.as_bytes()].concat());
    }
    let options =
        "-A1 -n,-B1,-C2 -n,-A1 -c,-A3 -m2,-A1 -v,-A1 -I,-A1 -o,-A1 -a,-A99999 -m3,-C1 -v -n,-A2 -h -b";
    for options in options.split(',') {
        for pattern in ["1", "^[^1]", "^1823[345]$", "^18236", "^19999"] {
            scene.same(&format!("{options} {pattern} {}", names.join(" ")), false);
        }
    }
}
