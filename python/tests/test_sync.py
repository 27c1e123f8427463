"""Tests of `haul.sync` and `haul.hash_tree`."""

import hashlib
import os
import pathlib
import shutil
import tempfile
import unittest

import haul


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="haul-python-")
        self.addCleanup(folder.cleanup)
        self.source = os.path.join(folder.name, "source")
        self.target = os.path.join(folder.name, "target")
        for name in ("file", "below/file", "excluded/file"):
            self.write(self.source, name, name)

    def write(self, top, name, content):
        path = os.path.join(top, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(content)


class Sync(Case):
    def test_a_target_becomes_equal(self):
        done = haul.sync(self.source, self.target, exclude=["/excluded"])
        self.assertEqual((done.files, done.bytes, done.deleted), (2, len("file" + "below/file"), 0))
        self.write(self.target, "old", "")
        would = haul.sync(self.source, self.target, delete=True, dry_run=True)
        self.assertEqual((would.files, would.deleted), (1, 1))
        self.assertTrue(os.path.exists(self.target + "/old"))
        seen = []
        done = haul.sync(os.fsencode(self.source), self.target, delete=True, progress=seen.append)
        self.assertEqual((done.files, done.deleted), (1, 1))
        self.assertEqual(seen[-1].files, 1)
        self.assertEqual(sorted(os.listdir(self.target)), ["below", "excluded", "file"])
        self.assertEqual(haul.sync(self.source, self.target).files, 0)

    def test_contents_are_compared_on_request(self):
        haul.sync(self.source, self.target)
        there = os.stat(self.target + "/file")
        self.write(self.target, "file", "elif")
        os.utime(self.target + "/file", ns=(there.st_atime_ns, there.st_mtime_ns))
        self.assertEqual(haul.sync(self.source, self.target).files, 0)
        self.assertEqual(haul.sync(self.source, self.target, checksum=True).files, 1)

    def test_a_correct_copy_is_verified(self):
        self.write(self.source, "large", "".join(f"{n:07} " for n in range(4 << 20)))
        haul.sync(self.source, self.target, verify=True)
        self.assertEqual(haul.sync(self.source, self.target, checksum=True).files, 0)

    def test_slashes_at_the_end_change_no_name(self):
        for slashes in ("", "/", "//"):
            shutil.rmtree(self.target, ignore_errors=True)
            self.write(self.target, "file/stays", "")
            with self.subTest(slashes), self.assertRaises(shutil.Error) as raised:
                haul.sync(self.source + slashes, self.target + slashes)
            [(src, _, _)] = raised.exception.args[0]
            self.assertEqual(src, os.path.join(self.source + slashes, "file"))

    def test_what_is_refused(self):
        with self.assertRaises(ValueError):
            haul.sync(self.source, self.target, reflink="always", verify=True)
        with self.assertRaises(ValueError) as refused:
            haul.sync(self.source, self.source + "/below/target")
        self.assertTrue(str(refused.exception).endswith(" are one directory, or one is inside the other"))
        with self.assertRaises(FileNotFoundError):
            haul.sync(self.source + "/missing", self.target)
        os.mkdir(self.target)
        self.write(self.target, "file/stays", "")
        with self.assertRaises(shutil.Error) as raised:
            haul.sync(self.source, self.target)
        [(src, dst, _)] = raised.exception.args[0]
        self.assertEqual((src, dst), (self.source + "/file", self.target + "/file"))

    def test_a_problem_is_a_sentence(self):
        empty = os.path.join(os.path.dirname(self.source), "it's\nempty\udcff")
        os.mkdir(empty)
        self.write(self.target, "stays", "")
        with self.assertRaises(shutil.Error) as raised:
            haul.sync(empty, self.target, delete=True)
        [(_, _, why)] = raised.exception.args[0]
        shown = r"it\'s\nempty\xff' has nothing to copy, so nothing was deleted from '"
        self.assertIn(shown, why)


class Hashes(Case):
    def test_all_files_are_hashed(self):
        for top in (self.source, os.fsencode(self.source)):
            files = haul.hash_tree(top, algorithm="sha256", exclude=["/excluded"])
            found = {os.fsdecode(os.path.relpath(file.path, top)): file for file in files}
            self.assertEqual(list(found), ["below/file", "file"])
            for name, file in found.items():
                self.assertEqual(file.digest, hashlib.sha256(name.encode()).hexdigest())
                self.assertEqual(type(file.path), type(top))
        [empty] = haul.hash_tree(self.source + "/file", algorithm="md5")
        self.assertEqual(empty.digest, hashlib.md5(b"file").hexdigest())

    def test_paths_are_sorted_by_their_components(self):
        for name in ("a-b", "a/b", "a.c", "A"):
            self.write(self.target, name, "")
        found = [pathlib.PurePath(file.path) for file in haul.hash_tree(self.target)]
        self.assertEqual(found, sorted(found))

    def test_what_is_refused(self):
        with self.assertRaises(FileNotFoundError):
            haul.hash_tree(self.source + "/missing")
        with self.assertRaises(ValueError):
            haul.hash_tree(self.source, algorithm="crc32")
        with self.assertRaisesRegex(TypeError, r"^algorithm must be a string, not b'md5'$"):
            haul.hash_tree(self.source, algorithm=b"md5")


if __name__ == "__main__":
    unittest.main()
