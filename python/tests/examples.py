"""Runs the examples of the documentation, each in a new directory with a tree `project`.

A block that begins with `haul.NAME(` and has a bare `*` is a signature, and compared.
"""

import ast
import contextlib
import hashlib
import inspect
import io
import os
import pathlib
import re
import tempfile

import haul

TOP = pathlib.Path(__file__).resolve().parents[2]
PAGES = ["docs/python.md", "python/README.md", "README.md"]
DIGEST = hashlib.sha256(b"content").hexdigest()


def check_signature(text):
    name, arguments = re.fullmatch(r"haul\.(\w+)\((.*)\)\n", text, re.DOTALL).groups()
    documented = ast.unparse(ast.parse(f"def {name}({arguments}): ...").body[0].args)
    parameters = inspect.signature(getattr(haul, name)).parameters.values()
    bare = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in parameters]
    actual = ast.unparse(ast.parse(f"def f{inspect.Signature(bare)}: ...").body[0].args)
    assert documented == actual, f"{documented} is {actual}"


def run(text):
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.makedirs("project/target")
        os.mkdir("project/.git")
        for name in ["file", "module.pyc", "target/object", ".git/HEAD"]:
            pathlib.Path("project", name).write_text("content")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("import haul\n" + text, "example", "exec"), {})
        os.chdir("/")
        [made] = set(os.listdir(folder)) - {"project"}
        return made, sorted(os.listdir(pathlib.Path(folder, made))), printed.getvalue()


def main():
    results = []
    for page in PAGES:
        blocks = re.findall(r"^```python\n(.*?)^```$", (TOP / page).read_text(), re.DOTALL | re.M)
        assert blocks, f"{page} has no example"
        for text in blocks:
            if "*,\n" in text:
                check_signature(text)
            else:
                results.append(run(text))
    digests = "".join(
        f"{DIGEST} backup/{name}\n" for name in [".git/HEAD", "file", "module.pyc"]
    )
    expected = [
        ("worktree", [".git", "file"], ""),
        ("backup", [".git", "file", "module.pyc"], f"3 0 0\n{digests}"),
        ("worktree", [".git", "file"], ""),
        ("copy", ["file", "module.pyc", "target"], ""),
    ]
    assert results == expected, results


if __name__ == "__main__":
    main()
