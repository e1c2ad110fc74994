"""The one door to git. This file knows git and nothing of the project."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tools.errors import ToolError

# Each of these changed an id or an exported patch on somebody's machine.
PINS = (
    "core.autocrlf=false",  # blobs would depend on the platform
    "core.fileMode=true",  # the executable bit is part of the tree id
    "core.quotePath=false",  # non-ASCII names would be escaped in the diff header
    "core.attributesFile=/dev/null",  # a global "*.py diff=python" moves hunk headers
    "core.excludesFile=/dev/null",  # a global ignore would hide untracked work
    "core.hooksPath=/dev/null",  # hooks rewrite messages and files
    "core.fsmonitor=false",  # a daemon per scratch repository
    "core.safecrlf=false",  # a warning about bytes that are kept anyway
    "core.splitIndex=false",  # a copied index would refer to a shared file left behind
    "core.whitespace=blank-at-eol,blank-at-eof,space-before-tab",  # git's default
    "apply.whitespace=nowarn",  # "fix" changes bytes without a word
    "apply.ignoreWhitespace=no",  # "change" is fuzz under another name
    "commit.gpgSign=false",  # a signature changes the commit id
    "gc.auto=0",  # must not repack while another process reads
    "i18n.commitEncoding=UTF-8",  # adds an encoding header, hence another id
    "i18n.logOutputEncoding=UTF-8",
    "advice.detachedHead=false",
)
# Kept for the one command that talks to the network.
NETWORK = ("GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_ASKPASS")


class GitError(ToolError):
    """Git failed; the message is git's own."""

    def __init__(self, argv: tuple[str, ...], code: int, stderr: str) -> None:
        self.argv = argv
        self.returncode = code
        self.stderr = stderr.strip()
        super().__init__(f"git {' '.join(argv)} failed ({code}): {self.stderr}")


def environment(*, network: bool = False) -> dict[str, str]:
    """Return the environment without anything that can steer git."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    if network:
        # Proxies and credentials live in the user's configuration: keep it here.
        env |= {key: os.environ[key] for key in NETWORK if key in os.environ}
    else:
        # diff.noprefix, format.numbered and core.abbrev made patches quilt refused.
        env |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    return env | {
        "LC_ALL": "C",
        "LANGUAGE": "",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_PAGER": "cat",
        "GIT_EDITOR": ":",
        "GIT_OPTIONAL_LOCKS": "0",
    }


def setting(folder: Path, name: str) -> str:
    """Return a setting of the user's own git, as of a folder; empty when it is not set."""
    done = subprocess.run(  # noqa: S603 - the program is git, by design
        ["git", "config", "--get", name],  # noqa: S607 - found on the PATH, as everywhere here
        cwd=folder,
        capture_output=True,
        env=environment(network=True),  # the one that leaves the user's configuration in
        check=False,
    )
    return done.stdout.decode(errors="replace").strip()


def over_network(*argv: str, git_dir: Path | None = None) -> str | None:
    """Run git where it talks to another host; return its last words if it fails."""
    where = {"GIT_DIR": str(git_dir)} if git_dir else {}
    done = subprocess.run(  # noqa: S603 - the program is git, by design
        ["git", *argv],  # noqa: S607 - found on the PATH, as everywhere here
        capture_output=True,
        env=environment(network=True) | where,
        check=False,
    )
    if not done.returncode:
        return None
    why = done.stderr.decode(errors="replace").strip().splitlines()
    return why[-1] if why else "no reason"


class Git:
    """A repository, named by its git directory so that no outer one is picked up."""

    def __init__(
        self, git_dir: Path, work_tree: Path | None = None, index: Path | None = None
    ) -> None:
        self.git_dir = git_dir.absolute()
        self.work_tree = work_tree.absolute() if work_tree else None
        self.index = index.absolute() if index else None

    def with_index(self, index: Path, work_tree: Path | None = None) -> Git:
        """Return the same repository seen through another index."""
        return Git(self.git_dir, work_tree, index)

    def call(
        self, *argv: str, stdin: bytes = b"", extra: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        """Run git and return what happened, whatever the exit code."""
        env = environment() | {"GIT_DIR": str(self.git_dir)} | (extra or {})
        command = ["git"]
        for pin in PINS:
            command += ["-c", pin]
        if self.work_tree:
            env["GIT_WORK_TREE"] = str(self.work_tree)
        else:
            command += ["-c", "core.bare=true"]
        if self.index:
            env["GIT_INDEX_FILE"] = str(self.index)
        return subprocess.run(  # noqa: S603 - the program is git, by design
            [*command, *argv],
            input=stdin,
            capture_output=True,
            env=env,
            cwd=self.work_tree or self.git_dir,
            check=False,
        )

    def raw(self, *argv: str, stdin: bytes = b"", extra: dict[str, str] | None = None) -> bytes:
        """Run git, raise on failure, return its output."""
        done = self.call(*argv, stdin=stdin, extra=extra)
        if done.returncode:
            raise GitError(argv, done.returncode, done.stderr.decode(errors="replace"))
        return done.stdout

    def out(self, *argv: str, stdin: bytes = b"", extra: dict[str, str] | None = None) -> str:
        """Run git and return its output as text without the last newline."""
        return self.raw(*argv, stdin=stdin, extra=extra).decode(errors="surrogateescape").strip()

    def zlist(self, *argv: str, stdin: bytes = b"") -> list[str]:
        """Run a command that was given -z and split its output."""
        text = self.raw(*argv, stdin=stdin).decode(errors="surrogateescape")
        return [item for item in text.split("\0") if item]

    def resolve(self, name: str) -> str | None:
        """Return the object id of a name, or None."""
        done = self.call("rev-parse", "--verify", "--quiet", f"{name}^{{}}")
        return done.stdout.decode().strip() or None

    def blob(self, commit: str, path: str) -> str | None:
        """Return the id of a file in a commit or tree, or None."""
        done = self.call("rev-parse", "--verify", "--quiet", f"{commit}:{path}")
        return done.stdout.decode().strip() or None

    def tree(self, name: str) -> str:
        """Return the tree id of a commit or of ``commit:folder``."""
        suffix = "" if ":" in name else "^{tree}"
        return self.out("rev-parse", "--verify", name + suffix)

    def changed(self, old: str, new: str) -> list[str]:
        """Return the paths in which two trees differ."""
        return self.zlist("diff-tree", "-r", "-z", "--name-only", "--no-renames", old, new)


def init(folder: Path, branch: str) -> Git:
    """Make a repository in a folder."""
    # Not through Git.call: with GIT_WORK_TREE set, init writes an absolute core.worktree
    # into the config, and the repository breaks when its folder is renamed.
    argv = ["git", "init", "--quiet", "--template=", f"--initial-branch={branch}", "."]
    subprocess.run(argv, cwd=folder, env=environment(), check=True)  # noqa: S603
    return Git(folder / ".git", folder)
