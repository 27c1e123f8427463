#!/usr/bin/env python3
"""Measures programs that copy, paired: in each round each of them runs once, in random order.

    packaging/measure.py [--rounds N] [--tree-rounds N] [--folder DIR] NAME=PROGRAM...

A PROGRAM named cp is run as it is, any other as `PROGRAM cp`. Prints two tables in Markdown: the
time for a file of 10 bytes, and for a tree of 20,000 files of 2 KiB in 200 directories, both in
DIR (/dev/shm). The ratio is that of each round to the first program.
"""

import argparse
import os
import pathlib
import random
import shutil
import statistics
import sys
import tempfile
import time

FILES, DIRECTORIES, SIZE = 20_000, 200, 2048


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--tree-rounds", type=int, default=5)
    parser.add_argument("--folder", default="/dev/shm")
    parser.add_argument("programs", nargs="+", metavar="NAME=PROGRAM")
    options = parser.parse_args()
    programs = {}
    for word in options.programs:
        name, _, path = word.rpartition("=")
        program = os.path.abspath(path)
        if not name or not os.access(program, os.X_OK):
            parser.error(f"{word!r} is not NAME=PROGRAM")
        programs[name] = [program] if os.path.basename(program) == "cp" else [program, "cp"]
    if options.rounds < 1 or options.tree_rounds < 1:
        parser.error("at least one round is needed")
    print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.2f}, Linux {os.uname().release}\n")
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        os.chdir(folder)
        pathlib.Path("one").write_text("0123456789")
        measure(programs, options.rounds, ["one", "two"], "µs", 1e6)
        print()
        make_tree()
        measure(programs, options.tree_rounds, ["-r", "tree", "copy"], "ms", 1e3)


def make_tree():
    for number in range(FILES):
        directory = pathlib.Path("tree", str(number % DIRECTORIES))
        directory.mkdir(parents=True, exist_ok=True)
        (directory / str(number)).write_bytes(os.urandom(SIZE))


def measure(programs, rounds, arguments, unit, scale):
    """Prints a table of the times of `cp` with the arguments, the last of which is removed."""
    wall, processor = ({name: [] for name in programs} for _ in range(2))
    # The first round only fills the caches.
    for number in range(rounds + 1):
        for name in random.sample(list(programs), len(programs)):
            seconds, used = run(programs[name] + arguments)
            remove(arguments[-1])
            if number > 0:
                wall[name].append(seconds)
                processor[name].append(used)
    figures = ["10th percentile", "median", "processors, median", "median ratio"]
    print(f"| `cp {' '.join(arguments)}`, {rounds} rounds, {unit} | {' | '.join(figures)} |")
    print("|---|---:|---:|---:|---:|")
    first = wall[next(iter(programs))]
    for name in programs:
        ratio = statistics.median(own / other for own, other in zip(wall[name], first))
        low = sorted(wall[name])[rounds // 10]
        times = [low, statistics.median(wall[name]), statistics.median(processor[name])]
        cells = [f"{seconds * scale:,.0f}" for seconds in times]
        print(f"| {name} | {' | '.join(cells)} | {ratio:.3f} |")


def run(command):
    """Returns the seconds that a command took, and those of the processors."""
    begin = time.perf_counter()
    process = os.posix_spawn(command[0], command, os.environ)
    _, status, usage = os.wait4(process, 0)
    seconds = time.perf_counter() - begin
    if status != 0:
        sys.exit(f"{' '.join(command)}: failed")
    return seconds, usage.ru_utime + usage.ru_stime


def remove(path):
    shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)


if __name__ == "__main__":
    main()
