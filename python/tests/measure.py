"""Measures `haul.copytree` beside `shutil.copytree`, in pairs, cold and warm.

    measure.py TREE FOLDER [ROUNDS]

Copies TREE into FOLDER, each time to another name: ext4 is slow to use again what was just removed.
Needs root, to drop the page cache.
"""

import os
import shutil
import statistics
import sys
import time

import haul


def once(copytree, source, target, cold):
    os.sync()
    if cold:
        with open("/proc/sys/vm/drop_caches", "w") as file:
            file.write("3")
    else:
        for folder, _, names in os.walk(source):
            for name in names:
                with open(os.path.join(folder, name), "rb") as file:
                    file.read()
    started = time.perf_counter()
    copytree(source, target, symlinks=True)
    return time.perf_counter() - started


def main():
    source, folder, *rest = sys.argv[1:]
    rounds = int(rest[0]) if rest else 5
    copies = os.path.join(folder, "haul-measured")
    os.mkdir(copies)
    pairs = [("shutil", shutil.copytree), ("haul", haul.copytree)]
    for state in ("cold", "warm"):
        times = {name: [] for name, _ in pairs}
        for number in range(rounds):
            # Whoever comes second may find more or less in memory.
            for name, copytree in pairs[:: -1 if number % 2 else 1]:
                target = os.path.join(copies, f"{state}-{number}-{name}")
                times[name].append(once(copytree, source, target, state == "cold"))
        ratios = [one / other for one, other in zip(times["shutil"], times["haul"])]
        for name, taken in [*times.items(), ("ratio", ratios)]:
            middle = statistics.median(taken)
            print(f"{state} {name}: {middle:.2f} ({min(taken):.2f} to {max(taken):.2f})", flush=True)
    shutil.rmtree(copies)


if __name__ == "__main__":
    main()
