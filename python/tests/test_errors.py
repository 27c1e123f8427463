"""Tests of what `haul.copytree` and `haul.hash_tree` report, and what they refuse."""

import errno
import os
import shutil
import tempfile
import unittest
import unittest.mock

import haul
from test_copytree import Case, write


class Attributes(Case):
    def test_an_attribute_that_does_not_fit_is_an_error_as_with_shutil(self):
        # As large as the kernel allows. Of the file systems, tmpfs can hold that.
        try:
            memory = tempfile.TemporaryDirectory(prefix="haul-python-", dir="/dev/shm")
            self.addCleanup(memory.cleanup)
            write(memory.name + "/file")
            os.setxattr(memory.name + "/file", "user.large", bytes(1 << 16))
        except OSError as error:
            self.skipTest(f"needs a tmpfs with attributes: {error}")
        raised = []
        for copytree in (shutil.copytree, haul.copytree):
            shutil.rmtree(self.target, ignore_errors=True)
            try:
                copytree(memory.name, self.target)
            except shutil.Error as error:
                raised.append(error.args[0])
        if not raised:
            self.skipTest("needs a target that can't hold large attributes")
        self.assertEqual(raised, [raised[0]] * 2)
        self.assertEqual(os.listdir(self.target), ["file"])

    def test_what_a_file_system_refuses_is_passed_over_as_by_shutil(self):
        name = os.fsencode(self.target + "/file")
        refused = [
            ("xattrs-lost", [name], None, "a warning", False),
            ("setting-attribute", [b"user.a", name], errno.EINVAL, "an error", True),
        ]
        with unittest.mock.patch("haul._haul.copy", lambda *_: refused):
            haul.copytree(self.source, self.target)
        refused[1] = ("setting-attribute", [b"user.a", name], errno.EIO, "an error", True)
        with unittest.mock.patch("haul._haul.copy", lambda *_: refused):
            with self.assertRaises(shutil.Error) as raised:
                haul.copytree(self.source, self.target, dirs_exist_ok=True)
        why = str(OSError(errno.EIO, os.strerror(errno.EIO), self.target + "/file"))
        self.assertEqual(
            raised.exception.args[0], [(self.source + "/file", self.target + "/file", why)]
        )


class SpecialFiles(Case):
    def test_an_existing_pipe_is_not_written_to(self):
        write(self.source + "/file")
        raised = []
        for target, copytree in (("0", shutil.copytree), ("1", haul.copytree)):
            os.mkdir(self.target + target)
            os.mkfifo(self.target + target + "/file")
            reader = os.open(self.target + target + "/file", os.O_RDONLY | os.O_NONBLOCK)
            self.addCleanup(os.close, reader)
            with self.assertRaises(shutil.Error) as error:
                copytree(self.source, self.target + target, dirs_exist_ok=True)
            self.assertEqual(os.read(reader, 1), b"")
            raised.append(str(error.exception).replace(self.target + target, "target"))
        self.assertEqual(*raised)

    def test_a_pipe_is_not_hashed(self):
        os.mkfifo(self.target)
        # Or else it would wait for a writer.
        self.addCleanup(os.close, os.open(self.target, os.O_RDWR))
        with self.assertRaisesRegex(shutil.SpecialFileError, "is a named pipe$"):
            haul.hash_tree(self.target)
        with self.assertRaisesRegex(shutil.SpecialFileError, "is a special file$"):
            haul.hash_tree(b"/dev/null")


if __name__ == "__main__":
    unittest.main()
