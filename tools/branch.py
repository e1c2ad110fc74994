"""A topic's branch in a clone of its own: our trailers out, a sign-off in, files where they go."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

from tools import fetch, patchfile, pick, stack, upstream
from tools import git as gitlib
from tools.errors import ToolError
from tools.git import Git
from tools.lock import Lock
from tools.patchfile import Ident
from tools.pick import Files, Picked
from tools.policy import Policy
from tools.project import Project

# What `make verify` asks of a patch and upstream does not, and the file name.
OURS = ("Upstream-Status", "Tests", "Depends", stack.TRAILER)
SIGNED = "Signed-off-by"
# A patch of a series is there until upstream has its own; a commit of upstream's is for good.
UNTIL = re.compile(r"\s*\bRemove when\s.*?\.(?=\s|$)", re.DOTALL)
WIDTH = 80  # of a message's prose, which has no line of a list, a command or a table
NO_PROSE = re.compile(r"^([ \t]|[-*] |\d+\. )", re.MULTILINE)
# filter-repo runs this for each commit; the table holds what it becomes.
CALLBACK = """
import json
with open({table!r}) as file:
    row = json.load(file)
commit.message = row["messages"][commit.original_id.decode()].encode()
commit.committer_name, commit.committer_email = row["name"].encode(), row["mail"].encode()
"""


@dataclass(frozen=True)
class Branch:
    """The result, in a repository that holds nothing else."""

    git: Git
    name: str
    start: str  # the commit it grows from; empty when it has none
    tip: str
    commits: tuple[str, ...]
    dropped: tuple[str, ...]  # patches of which nothing is left in the target's layout

    @property
    def range(self) -> str:
        return f"{self.start}..{self.tip}" if self.start else self.tip


def submitter(project: Project) -> tuple[str, str]:
    """Return who signs, from the user's git; never made up."""
    name, mail = (gitlib.setting(project.root, f"user.{key}") for key in ("name", "email"))
    if not name or not mail:
        raise ToolError(
            "git does not know who signs the commits off; run `git config --global user.name "
            "'Your Name'` and `git config --global user.email you@example.org`."
        )
    return name, mail


def clone(project: Project, files: Files, picked: Picked, folder: Path) -> tuple[Git, Lock]:
    """Make a repository with the pristine tree and the topic's patches on it."""
    folder.mkdir()
    git = gitlib.init(folder, picked.name)
    base = upstream.ensure_base(git, fetch.get(project, project.pin.sdist), project.pin)
    chain = pick.lay(git, base, files, picked)
    git.raw("update-ref", f"refs/heads/{picked.name}", chain.commit)
    return git, chain


def clean(
    git: Git, chain: Lock, policy: Policy, who: tuple[str, str], name: str, tool: str
) -> Branch:
    """Rewrite the branch as the upstream takes it; trees stay, but for the policy's paths."""
    laid = pick.commits(git, chain)
    table = git.git_dir / "series-messages.json"
    messages = {commit.id: message(commit, policy, who, tool) for _, commit in laid} | {
        chain.base_commit: "base\n"
    }
    row = {"messages": messages, "name": who[0], "mail": who[1]}
    table.write_text(json.dumps(row), encoding="utf-8")
    argv = ["--force", "--quiet", "--commit-callback", CALLBACK.format(table=str(table))]
    if policy.paths:
        # The whole history, of the patches' own files: of the pristine tree nothing is left.
        argv += ["--refs", f"refs/heads/{name}", *_paths(git, chain, policy)]
    else:
        argv += ["--refs", f"{upstream.BASE_REF}..refs/heads/{name}"]
    _filter_repo(git, argv)
    tip = git.out("rev-parse", f"refs/heads/{name}")
    start = "" if policy.paths else chain.base_commit
    span = [tip, *([f"^{start}"] if start else [])]
    commits = tuple(git.out("rev-list", "--reverse", *span).split())
    if not policy.paths and git.tree(tip) != chain.tree:
        raise ToolError("git-filter-repo changed a tree; nothing was written.")
    mapped = _map(git)
    dropped = tuple(patch for patch, commit in laid if mapped.get(commit.id) not in commits)
    return Branch(git, name, start, tip, commits, dropped)


def _paths(git: Git, chain: Lock, policy: Policy) -> list[str]:
    """Return filter-repo's arguments for the files that have a place in the target."""
    argv: list[str] = []
    for path in git.changed(chain.base_tree, chain.tree):
        for old, new in policy.paths:
            if not path.startswith(old) or not git.blob(chain.tree, path):
                continue
            if git.blob(chain.base_tree, path):
                raise ToolError(
                    f"{path} is in the pristine tree and the topic edits it, so its history would "
                    f"go along; narrow the [[path]] rules of policy/{policy.name}.toml."
                )
            argv += ["--path", path, "--path-rename", f"{path}:{new}{path.removeprefix(old)}"]
            break
    if not argv:
        raise ToolError(
            f"policy/{policy.name}.toml gives no file of the topic a place; name its paths there."
        )
    return argv


def for_upstream(paragraph: str) -> str:
    """Leave out what a patch says of its own end in the series; wrap prose that runs too wide."""
    text = UNTIL.sub("", paragraph).strip("\n")
    wide = any(len(line) > WIDTH for line in text.splitlines())
    return textwrap.fill(text, WIDTH) if wide and not NO_PROSE.search(text) else text


def message(commit: stack.Commit, policy: Policy, who: tuple[str, str], tool: str) -> str:
    """Return a commit's message without our trailers and with what the upstream asks for."""
    text = patchfile.clean_message(stack.split_name(commit)[0])
    subject, _, body = text.partition("\n\n")
    paragraphs = body.split("\n\n")
    gone = {key.lower() for key in (*OURS, *policy.forbidden)}
    kept = [(key, value) for key, value in patchfile.trailers(body) if key.lower() not in gone]
    if patchfile.trailers(body):
        paragraphs.pop()
    paragraphs = [for_upstream(paragraph) for paragraph in paragraphs]
    if not policy.sign_off:
        kept = [(key, value) for key, value in kept if key != SIGNED]
    if tool:
        kept.append((policy.ai_trailer, tool))
    signature = (SIGNED, f"{who[0]} <{who[1]}>")
    if policy.sign_off and signature not in kept:
        kept.append(signature)
    last = "\n".join(f"{key}: {value}" for key, value in kept)
    return "\n\n".join(part for part in (subject, *paragraphs, last) if part) + "\n"


def _filter_repo(git: Git, argv: list[str]) -> None:
    done = subprocess.run(  # noqa: S603 - a package of tools/requirements-dev.txt
        [sys.executable, "-m", "git_filter_repo", *argv],
        cwd=git.work_tree,
        env=gitlib.environment(),
        capture_output=True,
        check=False,
    )
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["no reason"]
        if "No module named" in last[0]:
            raise ToolError("git-filter-repo is not installed; run `make extract`, which does it.")
        raise ToolError(f"git-filter-repo failed ({last[0]}); nothing was written.")


def _map(git: Git) -> dict[str, str]:
    """Return what filter-repo made of each commit."""
    text = (git.git_dir / "filter-repo" / "commit-map").read_text(encoding="utf-8")
    return dict(line.split(maxsplit=1) for line in text.splitlines()[1:])


def write(branch: Branch, folder: Path) -> list[Path]:
    """Write the branch as a bundle and as mails; return the files."""
    git = branch.git
    bundle = folder / f"{branch.name}.bundle"
    refs = [f"refs/heads/{branch.name}", *([upstream.BASE_REF] if branch.start else [])]
    # One pass without deltas: the pristine tree would take a minute to pack tighter.
    git.raw("-c", "pack.window=0", "bundle", "create", "--quiet", str(bundle), *refs)
    mails = folder / "mails"
    span = [branch.range] if branch.start else ["--root", branch.tip]
    git.raw("format-patch", "--quiet", "--no-signature", "--output-directory", str(mails), *span)
    return [bundle, *sorted(mails.iterdir())]


def check_mails(branch: Branch, mails: list[Path], folder: Path) -> None:
    """Let `git am` lay the mails over the start of the branch; it must reach the same one."""
    folder.mkdir()
    git = gitlib.init(folder, "am")
    (git.git_dir / "objects" / "info").mkdir(exist_ok=True)
    objects = branch.git.git_dir / "objects"
    (git.git_dir / "objects" / "info" / "alternates").write_text(f"{objects}\n")
    who = Ident(*stack.COMMITTER, 1_000_000_000, "+0000")
    start = branch.start
    if not start:
        empty = git.out("mktree")
        start = stack.make_commit(git, empty, None, who, "empty\n", who.epoch)
    git.raw("reset", "--hard", "--quiet", start)
    names = {f"GIT_COMMITTER_{key}": value for key, value in zip(
        ("NAME", "EMAIL"), stack.COMMITTER, strict=True
    )}  # fmt: skip
    # Without --keep-non-patch it would take the [Tags] of a subject for [PATCH].
    argv = ["am", "--quiet", "--keep-non-patch", *map(str, mails)]
    done = git.call(*argv, extra=names)
    same = not done.returncode and git.tree("HEAD") == branch.git.tree(branch.tip)
    # Authors and messages are the branch's as well: a lost [Tag] is no other tree.
    log = ("log", "--format=%an <%ae> %ai%n%B")
    if not same or git.out(*log, f"{start}..HEAD") != branch.git.out(*log, branch.range):
        why = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["another branch"]
        raise ToolError(f"git am does not reach the branch from its own mails ({why[0]}).")
