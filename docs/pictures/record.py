#!/usr/bin/env python3
"""Records real commands in a pseudo-terminal as docs/pictures/terminal.svg.

    python3 -m venv DIR && DIR/bin/pip install pyte==0.8.2
    DIR/bin/python docs/pictures/record.py docs/pictures/terminal.svg

Run it in an empty directory of a local file system, with haul, haul-bench and b3sum in PATH. Each
command is typed at a fixed rate; what it prints appears when it was printed, but for pauses, which
are cut to PAUSE_MAX. The picture is animated by style alone: it needs no script, network or font,
follows light and dark pages, and stands still at its last frame for readers who want no motion.
"""

import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from fcntl import ioctl
from html import escape

import pyte

COLUMNS, ROWS = 60, 15
# Seconds.
KEY, THINK, READ, PAUSE_MAX, FRAME_MIN, END = 0.035, 0.4, 1.6, 0.6, 0.12, 4.0
# Pixels.
CELL, LINE, FONT, MARGIN = 7.3, 17, 12, 12

# Commands and the exit status that each must have. None clears the screen.
SCENES = [
    ("haul cp -a --stats source copy", 0),
    None,
    ("haul cp -ag --verify --manifest=SUMS source proved", 0),
    ("b3sum --check --quiet SUMS && echo every byte is right", 0),
    ("timeout -s9 2 haul cp -a --resume --bwlimit=10M source b", 137),
    ("haul cp -a --resume --stats source b |& grep '^[fu]'", 0),
    ("diff -r source b && echo identical", 0),
    None,
    ("echo new > source/news; rm source/d007/f00042", 0),
    ("haul sync --dry-run --delete -i source copy", 0),
    ("haul sync --delete --fsync source copy", 0),
    ("haul cp -a source missing copy; echo status $?", 0),
]

STYLE = """\
:root { --paper: #f6f7f9; --ink: #1c1e21; --prompt: #15803d; --edge: #d5d9de; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #15171a; --ink: #e4e6e9; --prompt: #4ade80; --edge: #33373d; } }
text { font: %dpx ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  fill: var(--ink); white-space: pre; }
rect { fill: var(--paper); stroke: var(--edge); }
.p { fill: var(--prompt); font-weight: 700; }
.f { visibility: hidden; }
"""


class Recorder:
    """A screen, and its frames: the time at which each began, and its lines."""

    def __init__(self):
        self.screen = pyte.Screen(COLUMNS, ROWS)
        self.stream = pyte.ByteStream(self.screen)
        self.now, self.frames = 0.0, []

    def show(self, data, seconds):
        self.stream.feed(data)
        self.now += seconds
        lines = tuple(line.rstrip() for line in self.screen.display)
        if self.frames and self.frames[-1][1] == lines:
            return
        # Frames that nobody could see are replaced.
        if self.frames and self.now - self.frames[-1][0] < FRAME_MIN:
            self.frames[-1] = (self.frames[-1][0], lines)
        else:
            self.frames.append((self.now, lines))

    def type(self, command):
        self.show(b"$ ", THINK)
        for key in command:
            self.show(key.encode(), KEY)
        self.show(b"\r\n", THINK)

    def run(self, command, expected):
        leader, follower = pty.openpty()
        ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        environment = {**os.environ, "TERM": "xterm", "LC_ALL": "C.UTF-8"}
        shell = subprocess.Popen(
            ["bash", "-c", command], stdin=follower, stdout=follower, stderr=follower, env=environment,
            start_new_session=True)
        os.close(follower)
        before = time.monotonic()
        while True:
            ready, _, _ = select.select([leader], [], [], 60)
            if not ready:
                os.killpg(shell.pid, signal.SIGKILL)
                sys.exit(f"silent for a minute: {command}")
            try:
                data = os.read(leader, 65536)
            except OSError:  # All ends are closed.
                break
            if not data:
                break
            after = time.monotonic()
            self.show(data, min(after - before, PAUSE_MAX))
            before = after
        # Closing the terminal first would send SIGHUP.
        status = shell.wait()
        os.close(leader)
        status = 128 - status if status < 0 else status
        if status != expected:
            sys.exit(f"exit status {status}, expected {expected}: {command}")


def line_of(text, row):
    """A line of the screen as SVG. The prompt is marked, and spaces are kept."""
    start = f'<text x="{MARGIN}" y="{MARGIN + LINE * row + FONT}" xml:space="preserve">'
    if text.startswith("$ "):
        return f'{start}<tspan class="p">$</tspan>{escape(text[1:])}</text>'
    return f"{start}{escape(text)}</text>"


def drawn(frames, end):
    """The animation. Each line of the screen is in the picture once for each time that it is shown
    without a break, and is visible for that time."""
    spans = []  # row, text, begin, end
    for row in range(ROWS):
        begin, text = 0.0, ""
        for when, lines in [*frames, (end, ("",) * ROWS)]:
            if lines[row] != text:
                if text:
                    spans.append((row, text, begin, when))
                begin, text = when, lines[row]
    rules, texts = [], []
    times = sorted({(begin, until) for _, _, begin, until in spans})
    for number, (begin, until) in enumerate(times):
        a, b = (100 * moment / end for moment in (begin, until))
        rules.append(
            f"@keyframes k{number} {{ 0%, {a:.3f}% {{ visibility: hidden }} "
            f"{a + 0.001:.3f}%, {b:.3f}% {{ visibility: visible }} "
            + ("" if until >= end else f"{b + 0.001:.3f}%, 100% {{ visibility: hidden }} ")
            + f"}} .k{number} {{ animation: k{number} {end:.1f}s step-end infinite }}")
        lines = [line_of(text, row) for row, text, *span in spans if tuple(span) == (begin, until)]
        last = " l" if until >= end else ""
        texts.append(f'<g class="f k{number}{last}">{"".join(lines)}</g>')
    still = "@media (prefers-reduced-motion: reduce) { .f { animation: none } .l { visibility: visible } }"
    width, height = 2 * MARGIN + CELL * COLUMNS, 2 * MARGIN + LINE * ROWS
    title = "haul copies a tree, proves a copy, resumes a killed one, and mirrors changes"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" '
        f'height="{height}" role="img"><title>{title}</title><style>{STYLE % FONT}'
        + "\n".join(rules) + f'\n{still}</style>\n<rect x="0.5" y="0.5" width="{width - 1:.0f}" '
        f'height="{height - 1}" rx="8"/>\n' + "\n".join(texts) + "\n</svg>\n")


def main():
    if len(sys.argv) != 2 or os.listdir():
        sys.exit(f"usage, in an empty directory: {sys.argv[0]} SVG")
    subprocess.run(["haul-bench", "make", "many", "--scale", "0.2", "source"], check=True)
    recorder = Recorder()
    for scene in SCENES:
        if scene is None:
            recorder.show(b"\x1b[2J\x1b[H", READ)
            continue
        recorder.type(scene[0])
        recorder.run(*scene)
        recorder.show(b"", READ)
    recorder.show(b"$ ", 0)
    with open(sys.argv[1], "w", encoding="utf-8") as picture:
        picture.write(drawn(recorder.frames, recorder.now + END))


main()
