"""Tests of `haul.copytree`, mostly against `shutil.copytree`."""

import errno
import multiprocessing
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import unittest
import unittest.mock
import warnings

import haul
from haul._copytree import raise_errors

SEED = int(os.environ.get("HAUL_SEED", random.randrange(1 << 32)))


def write(path, content=b"content"):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(content)


def look(path):
    """Returns everything that a copy keeps of a file."""
    there = os.lstat(path)
    if os.path.islink(path):
        return ("link", os.readlink(path), there.st_mtime_ns)
    attributes = {name: os.getxattr(path, name) for name in os.listxattr(path)}
    common = (oct(there.st_mode), there.st_mtime_ns, attributes)
    if os.path.isdir(path):
        return common
    with open(path, "rb") as file:
        return (*common, file.read())


def snapshot(top):
    top = os.fsencode(top)
    found = {b"": look(top)}
    for folder, folders, files in os.walk(top):
        for name in folders + files:
            path = os.path.join(folder, name)
            found[os.path.relpath(path, top)] = look(path)
    return found


class Case(unittest.TestCase):
    maxDiff = 4000

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="haul-python-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.source = os.path.join(self.folder, "source")
        self.target = os.path.join(self.folder, "target")
        os.mkdir(self.source)

    def fill(self, files, size=4096, per_folder=100):
        for number in range(files):
            path = os.path.join(self.source, f"d{number // per_folder}", f"f{number}")
            write(path, number.to_bytes(4, "little") * (size // 4))


class Trees(Case):
    def test_one_file(self):
        write(os.path.join(self.source, "file"))
        self.assertIs(haul.copytree(self.source, self.target), self.target)
        self.assertEqual(snapshot(self.target), snapshot(self.source))

    def test_ten_thousand_files(self):
        self.fill(10_000, size=64)
        haul.copytree(self.source, self.target)
        self.assertEqual(snapshot(self.target), snapshot(self.source))

    def test_random_trees_are_copied_as_shutil_does(self):
        for round_ in range(12):
            with self.subTest(seed=SEED, round=round_):
                chance = random.Random(f"{SEED} {round_}")
                top = os.path.join(self.folder, str(round_))
                source = os.path.join(top, "source")
                self.make_tree(chance, source, 0)
                options = {"symlinks": chance.random() < 0.5, "ignore_dangling_symlinks": True}
                if chance.random() < 0.4:
                    options["ignore"] = shutil.ignore_patterns("*1", "*\udcff")
                one, other = (os.path.join(top, name) for name in ("shutil", "haul"))
                outcomes = [
                    self.outcome(shutil.copytree, source, one, options),
                    self.outcome(haul.copytree, source, other, options),
                ]
                self.assertEqual(*outcomes)
                self.assertEqual(snapshot(other), snapshot(one))

    def outcome(self, copytree, source, target, options):
        try:
            copytree(source, target, **options)
        except shutil.Error as error:
            return sorted((src, os.path.relpath(dst, target)) for src, dst, _ in error.args[0])
        return []

    def make_tree(self, chance, folder, depth):
        os.makedirs(folder)
        for number in range(chance.randrange(1, 8)):
            name = chance.choice(["a", "é", " b", "\udcff", "new\nline", "*"]) + str(number)
            path = os.path.join(folder, name)
            draw = chance.random()
            if draw < 0.25 and depth < 3:
                self.make_tree(chance, path, depth + 1)
            elif draw < 0.4:
                # Absolute: shutil looks for relative ones in the working directory.
                choices = ["/nowhere", self.source, "/etc/hostname"]
                os.symlink(chance.choice(choices), path)
                os.utime(path, ns=(10**18, chance.randrange(10**18)), follow_symlinks=False)
                continue
            elif draw < 0.45:
                os.mkfifo(path)
                continue
            else:
                write(path, chance.randbytes(chance.choice([0, 1, 4096, 100_000])))
                if chance.random() < 0.3:
                    os.setxattr(path, "user.test", chance.randbytes(5))
            if os.path.isfile(path):
                os.chmod(path, chance.choice([0o644, 0o600, 0o4755, 0o444]))
            os.utime(path, ns=(10**18, chance.randrange(10**18)))
        os.chmod(folder, chance.choice([0o755, 0o700, 0o1777]))
        os.utime(folder, ns=(10**18, chance.randrange(10**18)))

    def test_the_source_may_be_a_link_and_both_may_end_in_slashes(self):
        write(os.path.join(self.source, "file"))
        link = os.path.join(self.folder, "link")
        os.symlink(self.source, link)
        haul.copytree(link, self.target + "/", symlinks=True)
        haul.copytree(self.source + "//", self.target + "2", symlinks=True)
        self.assertEqual(snapshot(self.target), snapshot(self.source))
        self.assertEqual(snapshot(self.target + "2"), snapshot(self.source))

    def test_names_that_are_not_text(self):
        write(os.path.join(os.fsencode(self.source), b"\xff", b"file\xfe"))
        source, target = os.fsencode(self.source), os.fsencode(self.target)
        self.assertEqual(haul.copytree(source, target), target)
        haul.copytree(pathlib.Path(self.source), pathlib.Path(self.target + "2"))
        haul.copytree(self.source + "/\udcff", self.target + "3/\udcfd")
        self.assertEqual(os.listdir(target), [b"\xff"])
        self.assertEqual(os.listdir(target + b"2/\xff"), [b"file\xfe"])
        self.assertEqual(os.listdir(target + b"3/\xfd"), [b"file\xfe"])

    def test_ignore_is_called_as_by_shutil(self):
        write(os.path.join(self.source, "a/b/file"))
        write(os.path.join(self.source, "a/c"))
        calls = {shutil.copytree: [], haul.copytree: []}
        for number, (copytree, seen) in enumerate(calls.items()):

            def ignore(folder, names, seen=seen):
                seen.append((folder, sorted(names)))
                return {"c"}

            copytree(self.source, self.target + str(number), ignore=ignore)
        self.assertEqual(*calls.values())
        self.assertEqual(snapshot(self.target + "0"), snapshot(self.target + "1"))
        self.assertFalse(os.path.exists(self.target + "1/a/c"))

        def fail(*_):
            raise LookupError("no")

        with self.assertRaises(LookupError):
            haul.copytree(self.source, self.target, ignore=fail)
        self.assertFalse(os.path.exists(self.target))

    def test_everything_may_be_ignored(self):
        write(os.path.join(self.source, "file"))
        haul.copytree(self.source, self.target, ignore=lambda _, names: names)
        self.assertEqual(os.listdir(self.target), [])

    def test_rules_exclude(self):
        for name in ("keep.py", "a.pyc", "build/x", "sub/build/y", "sub/b.pyc"):
            write(os.path.join(self.source, name))
        haul.copytree(self.source, self.target, exclude=["*.pyc", "/build"])
        found = {name for name in snapshot(self.target) if name}
        self.assertEqual(found, {b"keep.py", b"sub", b"sub/build", b"sub/build/y"})

    def test_a_target_inside_the_source(self):
        write(os.path.join(self.source, "file"))
        os.mkdir(os.path.join(self.source, "below"))
        haul.copytree(self.source, os.path.join(self.source, "below/copy"))
        self.assertEqual(sorted(os.listdir(self.source + "/below/copy")), ["below", "file"])
        self.assertEqual(os.listdir(self.source + "/below/copy/below"), [])

    def test_options_are_used(self):
        self.fill(20)
        haul.copytree(self.source, self.target, jobs=1, reflink="never", verify=True)
        self.assertEqual(snapshot(self.target), snapshot(self.source))


class Existing(Case):
    def test_what_exists_is_merged_as_by_shutil(self):
        write(self.source + "/both/file", b"new")
        write(self.source + "/both/link", b"through")
        write(self.source + "/linked/file", b"new")
        for target in (self.target + "0", self.target + "1"):
            write(target + "/both/file", b"older and longer")
            write(target + "/both/stays")
            write(target + "/elsewhere/there")
            os.symlink("../elsewhere/there", target + "/both/link")
            os.symlink("elsewhere", target + "/linked")
        for copytree, number in ((shutil.copytree, "0"), (haul.copytree, "1")):
            with self.assertRaises(FileExistsError):
                copytree(self.source, self.target + number)
            copytree(self.source, self.target + number, dirs_exist_ok=True)
        names = [set(snapshot(self.target + number)) for number in "01"]
        self.assertEqual(*names)
        for name in ("both/file", "both/stays", "elsewhere/there", "elsewhere/file", "both"):
            self.assertEqual(look(f"{self.target}0/{name}")[-1], look(f"{self.target}1/{name}")[-1])
        self.assertTrue(os.path.islink(self.target + "1/linked"))

    def test_a_file_in_the_way_of_a_directory_is_an_error_as_with_shutil(self):
        write(self.source + "/folder/x")
        write(self.target + "/folder")
        raised = []
        for copytree in (shutil.copytree, haul.copytree):
            with self.assertRaises(shutil.Error) as error:
                copytree(self.source, self.target, dirs_exist_ok=True)
            raised.append(error.exception.args)
        self.assertEqual(*raised)

    def test_a_directory_in_the_way_of_a_file_is_an_error(self):
        # shutil copies the file into the directory.
        write(self.source + "/file")
        os.makedirs(self.target + "/file")
        with self.assertRaises(shutil.Error) as raised:
            haul.copytree(self.source, self.target, dirs_exist_ok=True)
        [(src, dst, why)] = raised.exception.args[0]
        self.assertEqual((src, dst), (self.source + "/file", self.target + "/file"))
        self.assertTrue(why.startswith(f"[Errno {errno.EISDIR}]"), why)
        self.assertEqual(os.listdir(self.target + "/file"), [])

    def test_a_tree_onto_itself(self):
        write(self.source + "/file", b"precious")
        with self.assertRaises(shutil.Error):
            haul.copytree(self.source, self.source, dirs_exist_ok=True)
        self.assertEqual(look(self.source + "/file")[-1], b"precious")


class Errors(Case):
    def test_what_cannot_begin(self):
        for source, error in (("missing", FileNotFoundError), ("file", NotADirectoryError)):
            write(os.path.join(self.folder, "file"))
            with self.assertRaises(error):
                haul.copytree(os.path.join(self.folder, source), self.target)
            self.assertFalse(os.path.exists(self.target))

    def test_wrong_arguments(self):
        wrong = [
            ({"reflink": "perhaps"}, ValueError),
            ({"reflink": "always", "verify": True}, ValueError),
            ({"jobs": 0}, ValueError),
            ({"exclude": "*.pyc"}, TypeError),
            ({"exclude": ["["]}, ValueError),
            ({"exclude": [""]}, ValueError),
            ({"exclude": [" "]}, ValueError),
            ({"exclude": ["#comment"]}, ValueError),
            ({"exclude": ["a\0b"]}, ValueError),
            ({"exclude": ["\udcff"]}, ValueError),
            ({"exclude": [b"a"]}, TypeError),
            ({"exclude": None}, TypeError),
            ({"jobs": 1.5}, TypeError),
            ({"jobs": 10**30}, ValueError),
            ({"progress": 3}, TypeError),
            ({"copy_function": shutil.copy, "verify": True}, ValueError),
        ]
        for options, error in wrong:
            with self.subTest(options), self.assertRaises(error):
                haul.copytree(self.source, self.target, **options)
            self.assertFalse(os.path.exists(self.target), options)
        with self.assertRaises(ValueError):
            haul.copytree(self.source, "a\0b")

    def test_a_correct_copy_is_verified(self):
        write(self.source + "/small")
        # Enough to be copied inside the kernel. Where blocks can be shared, those of both are.
        write(self.source + "/large", b"".join(n.to_bytes(8, "little") for n in range(4 << 20)))
        haul.copytree(self.source, self.target, verify=True)
        self.assertEqual(snapshot(self.target), snapshot(self.source))

    def test_each_failure_is_listed_and_the_rest_is_copied(self):
        write(self.source + "/file")
        os.symlink("/nowhere", self.source + "/dangling")
        os.mkfifo(self.source + "/pipe")
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(self.source + "/socket")
        with self.assertRaises(shutil.Error) as raised:
            haul.copytree(self.source, self.target)
        found = {os.path.basename(src): (dst, why) for src, dst, why in raised.exception.args[0]}
        self.assertEqual(set(found), {"dangling", "pipe", "socket"})
        missing = OSError(errno.ENOENT, os.strerror(errno.ENOENT), self.source + "/dangling")
        self.assertEqual(found["dangling"], (self.target + "/dangling", str(missing)))
        self.assertEqual(found["pipe"][1], f"`{self.source}/pipe` is a named pipe")
        self.assertEqual(os.listdir(self.target), ["file"])

    def test_slashes_at_the_end_change_no_name(self):
        os.symlink("nowhere", self.source + "/foo")
        write(self.source + "/xfoo")
        for slashes in ("", "/", "//", "///"):
            shutil.rmtree(self.target, ignore_errors=True)
            # Files can't take the place of directories.
            os.makedirs(self.target + "/xfoo")
            options = {"ignore_dangling_symlinks": True, "dirs_exist_ok": True}
            source, target = self.source + slashes, self.target + slashes
            with self.subTest(slashes), self.assertRaises(shutil.Error) as raised:
                haul.copytree(source, target, **options)
            [(src, dst, _)] = raised.exception.args[0]
            self.assertEqual((src, dst), (os.path.join(source, "xfoo"), os.path.join(target, "xfoo")))

    def test_only_what_leads_nowhere_is_ignored_as_dangling(self):
        os.symlink("nowhere", self.source + "/link")
        problem = ("cannot-create-file", [os.fsencode(self.target + "/link")], errno.EIO, "", True)
        with self.assertRaises(shutil.Error):
            raise_errors([problem], self.source, self.target, True)

    def test_errors_have_the_type_of_the_paths(self):
        os.mkfifo(self.source + "/pipe")
        raised = []
        for copytree in (shutil.copytree, haul.copytree):
            with self.assertRaises(shutil.Error) as error:
                copytree(os.fsencode(self.source), os.fsencode(self.target), dirs_exist_ok=True)
            raised.append(error.exception.args[0])
        [(src, dst, _)] = raised[1]
        self.assertEqual((src, dst), tuple(os.fsencode(p + "/pipe") for p in (self.source, self.target)))
        self.assertEqual(raised[0], raised[1])

    def test_a_link_that_leads_to_its_own_directory(self):
        write(self.source + "/file")
        os.symlink(".", self.source + "/loop")
        for ignore in (None, lambda *_: []):
            shutil.rmtree(self.target, ignore_errors=True)
            with self.assertRaises(shutil.Error) as raised:
                haul.copytree(self.source, self.target, ignore=ignore)
            [(src, _, why)] = raised.exception.args[0]
            self.assertEqual(src, self.source + "/loop")
            self.assertTrue(why.startswith(f"[Errno {errno.ELOOP}]"), why)
            self.assertTrue(os.path.isfile(self.target + "/file"))


    def test_warnings_that_are_exceptions_hide_no_error(self):
        name = os.fsencode(self.source + "/file")
        warning = ("warns", [name], None, "only a warning", False)
        error = ("fails", [name], errno.EIO, "an error", True)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with self.assertRaises(shutil.Error) as raised:
                raise_errors([warning, error], self.source, self.target, False)
            [(src, _, _)] = raised.exception.args[0]
            self.assertEqual(src, self.source + "/file")
            with self.assertRaises(RuntimeWarning):
                raise_errors([warning], self.source, self.target, False)


class Unlisted(Case):
    """Directories that can't be listed, or whose call of `ignore` fails, are errors."""

    def setUp(self):
        super().setUp()
        for name in ("a/file", "b/file", "b/c/file", "b/c/d/file", "file"):
            write(os.path.join(self.source, name))

    def compare(self, **options):
        """Copies with both, compares what they raise and make, and returns the errors."""
        outcomes = []
        for copytree in (shutil.copytree, haul.copytree):
            shutil.rmtree(self.target, ignore_errors=True)
            with self.assertRaises(shutil.Error) as raised:
                copytree(self.source, self.target, **options)
            outcomes.append((sorted(raised.exception.args[0]), snapshot(self.target)))
        self.assertEqual(*outcomes)
        return outcomes[0][0]

    def failing_for(self, name, error):
        def ignore(folder, names):
            if os.path.basename(folder) == name:
                raise error
            return []

        return ignore

    def unlistable(self, name, number):
        """Makes listing one directory below the source fail."""
        scandir = os.scandir

        def fail(path):
            if not isinstance(path, int) and os.fspath(path) == self.source + name:
                raise OSError(number, os.strerror(number), os.fspath(path))
            return scandir(path)

        return unittest.mock.patch("os.scandir", fail)

    def test_ignore_fails_below_the_top(self):
        for name in ("b", "c"):
            failed = OSError(errno.EIO, "cannot decide", "name")
            [(src, _, _)] = self.compare(ignore=self.failing_for(name, failed))
            self.assertEqual(os.path.basename(src), name)
        listed = [("source", "target", "why"), ("another", "one", "too")]
        for failed in (shutil.Error(listed), shutil.SameFileError(listed)):
            self.assertEqual(self.compare(ignore=self.failing_for("b", failed)), sorted(listed))

    def test_ignore_fails_at_the_top_or_with_another_exception(self):
        for name, error in (("source", PermissionError), ("b", LookupError), ("c", RuntimeError)):
            with self.assertRaises(error):
                haul.copytree(self.source, self.target, ignore=self.failing_for(name, error("no")))
            self.assertFalse(os.path.exists(self.target))

    def test_a_directory_cannot_be_listed(self):
        with self.unlistable("/b", errno.EMFILE):
            self.compare(ignore=lambda *_: [])
        inside = os.path.join(self.source, "a/copy")
        with self.unlistable("/b/c", errno.EMFILE), self.assertRaises(shutil.Error) as raised:
            haul.copytree(self.source, inside)
        [(src, dst, _)] = raised.exception.args[0]
        self.assertEqual((src, dst), (self.source + "/b/c", inside + "/b/c"))
        self.assertEqual(os.listdir(inside + "/b"), ["file"])

    def test_a_path_is_too_long(self):
        folder = os.open(self.source, os.O_PATH)
        for _ in range(18):
            name = "n" * 250
            os.mkdir(name, dir_fd=folder)
            below = os.open(name, os.O_PATH, dir_fd=folder)
            os.close(folder)
            folder = below
            os.close(os.open("f", os.O_CREAT | os.O_WRONLY, 0o600, dir_fd=folder))
        os.close(folder)
        outcomes = []
        for copytree in (shutil.copytree, haul.copytree):
            shutil.rmtree(self.target, ignore_errors=True)
            with self.assertRaises(shutil.Error) as raised:
                copytree(self.source, self.target, ignore=lambda *_: [])
            [(src, dst, why)] = raised.exception.args[0]
            self.assertTrue(why.startswith(f"[Errno {errno.ENAMETOOLONG}]"), why)
            outcomes.append((src, dst, [names for _, *names in os.walk(self.target)]))
        self.assertEqual(*outcomes)

    @unittest.skipUnless(shutil.which("unshare"), "needs unshare")
    def test_a_directory_above_is_mounted_again(self):
        program = (
            "import haul, sys\n"
            "haul.copytree(*sys.argv[1:], symlinks=True, ignore=lambda *_: [])\n"
        )
        os.mkdir(self.source + "/again")
        mount = 'mount --bind "$1" "$1/again" 2>&1'
        names = (self.source, self.target)

        def run(script, *words):
            mounted = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"]
            return subprocess.run([*mounted, *names, *words], stderr=subprocess.PIPE, text=True)

        if run(mount).returncode != 0:
            self.skipTest("needs a user namespace in which to mount")
        copied = run(mount + ' && exec "$3" -c "$4" "$1" "$2"', sys.executable, program)
        self.assertEqual((copied.returncode, copied.stderr), (0, ""))
        self.assertEqual(sorted(os.listdir(self.target + "/again")), ["a", "again", "b", "file"])
        self.assertEqual(os.listdir(self.target + "/again/a"), ["file"])

    def test_what_exclude_leaves_out_is_not_an_error(self):
        os.symlink("a", self.source + "/link")
        with self.unlistable("/b", errno.EACCES):
            haul.copytree(self.source, self.target, ignore=lambda *_: [], exclude=["b/", "link/"])
        self.assertEqual(sorted(os.listdir(self.target)), ["a", "file", "link"])
        self.assertEqual(os.listdir(self.target + "/link"), ["file"])

    def test_every_dangling_link_is_ignored(self):
        ends = ("nowhere", "loop", "file/below")
        for number, end in enumerate(ends):
            os.symlink(os.path.join(self.source, end), f"{self.source}/{number}")
        os.symlink(self.source + "/loop", self.source + "/loop")
        for ignore in (None, lambda *_: []):
            self.assertEqual(len(self.compare(ignore=ignore)), len(ends) + 1)
            for copytree, target in ((shutil.copytree, "2"), (haul.copytree, "3")):
                target = self.target + target
                shutil.rmtree(target, ignore_errors=True)
                copytree(self.source, target, ignore=ignore, ignore_dangling_symlinks=True)
            self.assertEqual(snapshot(self.target + "2"), snapshot(self.target + "3"))

    def test_a_dangling_link_in_the_target_is_not_ignored(self):
        os.mkdir(self.target)
        os.symlink("/nowhere/file", self.target + "/file")
        with self.assertRaises(shutil.Error) as raised:
            haul.copytree(
                self.source, self.target, ignore_dangling_symlinks=True, dirs_exist_ok=True
            )
        [(src, _, _)] = raised.exception.args[0]
        self.assertEqual(src, self.source + "/file")


class Callbacks(Case):
    def test_progress_is_called_here_and_at_the_end(self):
        self.fill(300)
        seen = []
        haul.copytree(
            self.source,
            self.target,
            progress=lambda now: seen.append((now, threading.current_thread())),
        )
        last, _ = seen[-1]
        self.assertEqual((last.files, last.directories, last.bytes), (300, 4, 300 * 4096))
        self.assertEqual(last.discovered, last.finished)
        self.assertEqual({thread for _, thread in seen}, {threading.current_thread()})

    def test_an_exception_of_progress_is_raised(self):
        self.fill(10)

        def fail(_):
            raise LookupError("enough")

        with self.assertRaises(LookupError):
            haul.copytree(self.source, self.target, progress=fail)

    def test_the_audit_event_is_that_of_shutil(self):
        program = (
            "import sys, haul\n"
            "sys.addaudithook(lambda name, args: name == 'shutil.copytree' and print(*args))\n"
            "haul.copytree(*sys.argv[1:])\n"
        )
        command = [sys.executable, "-c", program, self.source, self.target]
        printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        self.assertEqual(printed, f"{self.source} {self.target}\n")

    def test_another_copy_function_is_called_by_shutil(self):
        write(self.source + "/file")
        seen = []
        haul.copytree(self.source, self.target, copy_function=lambda *names: seen.append(names))
        self.assertEqual(seen, [(self.source + "/file", self.target + "/file")])
        haul.copytree(self.source, self.target + "2", copy_function=shutil.copy2)
        self.assertEqual(snapshot(self.target + "2"), snapshot(self.source))


class Interruptions(Case):
    # Copies until it is interrupted. A round is never the last, however fast it was.
    PROGRAM = """
import haul, shutil, sys
source, target = sys.argv[1:]
print("ready", flush=True)
try:
    while True:
        haul.copytree(source, target, dirs_exist_ok=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""

    def test_ctrl_c_ends_a_copy_and_leaves_no_temporary_file(self):
        self.fill(2000)
        write(self.source + "/large", os.urandom(1 << 20) * 8)
        command = [sys.executable, "-c", self.PROGRAM, self.source, self.target]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            self.addCleanup(child.kill)
            self.assertEqual(child.stdout.readline(), "ready\n")
            while not os.path.exists(self.target + "/d1"):
                self.assertIsNone(child.poll())
            child.send_signal(signal.SIGINT)
            self.assertEqual(child.stdout.read(), "interrupted\n")
            self.assertEqual(child.wait(), 0)
        source, target = snapshot(self.source), snapshot(self.target)
        self.assertLessEqual(set(target), set(source))
        for name, seen in target.items():
            if isinstance(seen[-1], bytes):
                self.assertEqual(seen[-1], source[name][-1], name)

    def test_handlers_run_during_a_copy_that_goes_on(self):
        self.fill(2000)
        before = signal.signal(signal.SIGALRM, lambda *_: None)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        self.addCleanup(signal.setitimer, signal.ITIMER_REAL, 0)
        haul.copytree(self.source, self.target)
        signal.setitimer(signal.ITIMER_REAL, 0)
        self.assertEqual(snapshot(self.target), snapshot(self.source))

    # Gets a signal about every millisecond, whose handler raises once in each round.
    RAISING = """
import haul, os, signal, sys, time
source, target = sys.argv[1:]
parent, armed, interrupted = os.getpid(), False, 0

def handle(*_):
    global armed
    if armed:
        armed = False
        raise LookupError

signal.signal(signal.SIGUSR1, handle)
if os.fork() == 0:
    while os.getppid() == parent:
        os.kill(parent, signal.SIGUSR1)
        time.sleep(0.001)
    os._exit(0)
before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
for number in range(500):
    try:
        armed = True
        haul.copytree(source, f"{target}{number}")
        armed = False
    except LookupError:
        interrupted += 1
    now = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    assert now == before, (number, now - before)
signal.signal(signal.SIGUSR1, signal.SIG_IGN)
assert interrupted > 0
"""

    def test_an_exception_at_any_moment_leaves_the_signal_mask(self):
        write(self.source + "/file")
        command = [sys.executable, "-c", self.RAISING, self.source, self.target]
        subprocess.run(command, check=True)

    def test_no_signal_stays_blocked(self):
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
        haul.copytree(self.source, self.target)
        self.assertEqual(signal.pthread_sigmask(signal.SIG_BLOCK, []), before)


class Threads(Case):
    def test_several_threads_copy_at_once(self):
        self.fill(500)
        targets = [self.target + str(number) for number in range(6)]
        threads = [threading.Thread(target=haul.copytree, args=(self.source, to)) for to in targets]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for target in targets:
            self.assertEqual(snapshot(target), snapshot(self.source))

    def test_other_threads_run_during_a_copy(self):
        # Entries appear in the target while this thread runs Python code.
        self.fill(2000)
        thread = threading.Thread(target=haul.copytree, args=(self.source, self.target))
        seen = set()
        thread.start()
        while thread.is_alive():
            seen.add(len(os.listdir(self.target)) if os.path.exists(self.target) else 0)
        thread.join()
        self.assertGreater(len(seen), 2)

    def test_processes_that_were_forked_copy_too(self):
        self.fill(50)
        haul.copytree(self.source, self.target)
        targets = [self.target + str(number) for number in range(3)]
        fork = multiprocessing.get_context("fork")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            children = [fork.Process(target=haul.copytree, args=(self.source, to)) for to in targets]
            for child in children:
                child.start()
        for child in children:
            child.join()
        self.assertEqual([child.exitcode for child in children], [0, 0, 0])
        for target in targets:
            self.assertEqual(snapshot(target), snapshot(self.source))


class Command(Case):
    def test_the_command_is_installed_beside_python(self):
        write(self.source + "/file")
        command = os.path.join(os.path.dirname(sys.executable), "haul")
        subprocess.run([command, "cp", "-a", self.source, self.target], check=True)
        self.assertEqual(snapshot(self.target), snapshot(self.source))
        version = subprocess.run([command, "--version"], stdout=subprocess.PIPE, text=True).stdout
        self.assertIn(haul.__version__, version)


if __name__ == "__main__":
    print(f"seed {SEED}", file=sys.stderr)
    unittest.main()
