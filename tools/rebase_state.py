"""What a rebase remembers between commands: one file, replaced as a whole.

Everything else a rebase has is in the repository beside it; the file names the commits.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tools import files, stack
from tools.errors import ToolError
from tools.git import Git, init
from tools.pristine import Base
from tools.project import Project

SCHEMA = 1
BRANCH = "rebase"
# In the repository, so that who runs git there by hand merges as the tools do.
SETTINGS = (
    ("merge.conflictStyle", "zdiff3"),  # shows what the lines were, and no more than differs
    ("rerere.enabled", "true"),  # a conflict that was resolved before is not asked again
    ("rerere.autoUpdate", "true"),
    ("merge.renames", "true"),
    ("gc.auto", "0"),  # commits of a rebase under way may hang on nothing but the state
    ("user.name", stack.COMMITTER[0]),
    ("user.email", stack.COMMITTER[1]),
)


@dataclass(frozen=True)
class Link:
    """A patch by its file name, and the commit it is here."""

    name: str
    commit: str


@dataclass(frozen=True)
class Done:
    """What became of a patch on one release; no commit: it was retired there."""

    leg: int
    name: str
    status: str
    old: str
    new: str
    note: str = ""


@dataclass
class Stop:
    """The patch that waits for the user; ready once the user was told."""

    name: str
    kind: str
    ready: bool = False


@dataclass
class State:
    """A rebase: from the first base through each other one."""

    bases: list[Base]
    series_id: str
    chain: list[Link]  # the series on the base before the present one
    leg: int = 1  # the index of the present base
    done: list[Done] = field(default_factory=list)
    stop: Stop | None = None
    worktree: str = ""  # the commit that the folder for resolutions held last
    finished: bool = False
    reuse: bool = True  # take resolutions that were made before

    @property
    def target(self) -> Base:
        return self.bases[-1]

    @property
    def here(self) -> list[Done]:
        return [row for row in self.done if row.leg == self.leg]

    @property
    def tip(self) -> str:
        """The commit that the next patch is laid on."""
        kept = [row.new for row in self.here if row.new]
        return kept[-1] if kept else self.bases[self.leg].commit


def folder(project: Project) -> Path:
    return project.vendor / "rebase"


def tree(project: Project) -> Path:
    """The repository of pristine trees; conflicts are resolved in its work tree."""
    return folder(project) / "tree"


def result(project: Project) -> Path:
    return folder(project) / "result"


def _file(project: Project) -> Path:
    return folder(project) / "state.json"


def repository(project: Project) -> Git:
    """Return the repository, making it if need be; objects and resolutions outlive a rebase."""
    home = tree(project)
    if not (home / ".git").is_dir():
        draft = folder(project) / ".new-tree"
        files.remove_tree(draft)
        draft.mkdir(parents=True)
        git = init(draft, BRANCH)
        for key, value in SETTINGS:
            git.raw("config", key, value)
        draft.rename(home)
    return Git(home / ".git", home)


def begun(project: Project) -> bool:
    return _file(project).is_file()


def load(project: Project) -> State | None:
    """Return the rebase that was begun, if any."""
    path = _file(project)
    if not path.is_file():
        return None
    try:
        table = json.loads(path.read_bytes())
        if table.pop("schema") != SCHEMA:
            raise ValueError("made by another version of these tools")
        return State(
            bases=[Base(**row) for row in table.pop("bases")],
            chain=[Link(**row) for row in table.pop("chain")],
            done=[Done(**row) for row in table.pop("done")],
            stop=Stop(**row) if (row := table.pop("stop")) else None,
            **table,
        )
    except (ValueError, KeyError, TypeError) as error:
        raise ToolError(
            f"{project.short(path)} cannot be read ({error}); give the rebase up with "
            f"`make rebase ABORT=1`."
        ) from None


def save(project: Project, state: State) -> None:
    """Write the state; whatever came before is then decided."""
    text = json.dumps({"schema": SCHEMA, **asdict(state)}, indent=1)
    files.write(_file(project), text.encode())


def forget(project: Project) -> None:
    """End a rebase: from here on there is none. Reports and results are swept after."""
    _file(project).unlink(missing_ok=True)
    for name in ("report.txt", "report.json", "range-diff.txt"):
        (folder(project) / name).unlink(missing_ok=True)
    for path in (result(project), folder(project) / "candidate"):
        files.remove_tree(path)
