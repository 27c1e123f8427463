"""Runs CPython's own tests of `shutil.copytree` on `haul.copytree`.

Prints the tests that were left out. Exits with 77 if this Python has no `test` package.
"""

import shutil
import sys
import unittest

import haul

try:
    from test import test_shutil
except ImportError as error:
    print(f"no CPython tests: {error}")
    sys.exit(77)

# Tests that can't hold, and why.
LEFT_OUT = {
    "test_copytree_winerror": "replaces os.chmod, which haul doesn't call",
}

# Classes whose tests call `copytree`: `move` does, across file systems.
CLASSES = ["TestCopyTree", "TestMove"]


def suite():
    chosen = unittest.TestSuite()
    for name in CLASSES:
        case = getattr(test_shutil, name)
        for test in unittest.defaultTestLoader.loadTestsFromTestCase(case):
            method = test.id().rsplit(".", 1)[1]
            if method in LEFT_OUT:
                print(f"left out {method}: {LEFT_OUT[method]}")
            else:
                chosen.addTest(test)
    return chosen


calls = 0


def copytree(*arguments, **options):
    global calls
    calls += 1
    return haul.copytree(*arguments, **options)


shutil.copytree = copytree
result = unittest.TextTestRunner(verbosity=2).run(suite())
print(f"{result.testsRun} tests, {calls} calls of haul.copytree")
sys.exit(not (result.wasSuccessful() and calls >= 15))
