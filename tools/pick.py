"""Which patches a branch takes, a topic's or one, and whether they stand without the others."""

from __future__ import annotations

from dataclasses import dataclass

from tools import headers, patchfile, stack
from tools.errors import ToolError, UsageError
from tools.git import Git
from tools.lock import Lock, Step

Files = list[tuple[str, bytes]]


@dataclass(frozen=True)
class Picked:
    """A topic's patches, or one, with what they declare to need, in the order of the series."""

    topic: str  # a patch: its name without the suffix
    files: Files
    needed: dict[str, str]  # a prerequisite: the patch that declares it

    @property
    def name(self) -> str:
        """What branch and folder are called: a branch topic/patch could not stand beside topic."""
        return self.topic.replace("/", "-")

    @property
    def own(self) -> Files:
        return [pair for pair in self.files if pair[0] not in self.needed]


def topics(files: Files) -> list[str]:
    """Return the topics of a series, in its order."""
    return list(dict.fromkeys(name.partition("/")[0] for name, _ in files))


def pick(files: Files, wanted: str) -> Picked:
    """Take a topic's patches, or one patch, and with `Depends:` the others that they need."""
    names = [name for name, _ in files]
    if not wanted:
        raise UsageError(f"TOPIC= names a topic ({', '.join(topics(files))}) or a patch of one.")
    if wanted in topics(files):
        topic, own = wanted, [name for name in names if name.startswith(f"{wanted}/")]
    else:
        own = [find(names, wanted, f"no topic (there are: {', '.join(topics(files))}) and ")]
        topic = own[0].removesuffix(".patch")
    needed = _needed(dict(files), own)
    chosen = [(name, data) for name, data in files if name in own or name in needed]
    return Picked(topic, chosen, needed)


def find(names: list[str], wanted: str, neither: str = "") -> str:
    """Return the patch that a user means: by its whole name, or by the last part."""
    full = wanted.removeprefix("patches/").removesuffix(".patch") + ".patch"
    near = [name for name in names if full in (name, name.rpartition("/")[2])]
    if len(near) != 1:
        what = "the name of several patches" if near else f"{neither}no patch"
        example = (near or names or ["topic/name.patch"])[0]
        raise UsageError(
            f"{wanted} is {what} of the series; name one as series does, such as {example}."
        )
    return near[0]


def _needed(content: dict[str, bytes], own: list[str]) -> dict[str, str]:
    """Follow `Depends:` out of some patches; return each other patch with who declares it."""
    needed: dict[str, str] = {}
    queue = list(own)
    while queue:
        name = queue.pop(0)
        for other in headers.depends(patchfile.read(content[name], name)):
            if other not in content:
                raise ToolError(
                    f"{name} depends on {other}, which is not in series; correct its 'Depends:'."
                )
            if other not in own and other not in needed:
                needed[other] = name
                queue.append(other)
    return needed


def lay(git: Git, base: str, files: Files, picked: Picked) -> Lock:
    """Lay the patches over the pristine tree; name the prerequisite that is not declared."""
    steps: list[Step] = []
    for count, (name, data) in enumerate(picked.files):
        try:
            steps.append(stack.lay(git, steps[-1].commit if steps else base, name, data))
        except ToolError as error:
            missing = undeclared(git, base, files, picked, count)
            if not missing:
                raise
            raise ToolError(
                f"{name} does not apply without {', '.join(missing)}; declare it with "
                f"'Depends: {' '.join(missing)}' in {name}, or rework the patch."
            ) from error
    return Lock(git.tree(base), base, tuple(steps))


def undeclared(git: Git, base: str, files: Files, picked: Picked, count: int) -> list[str]:
    """Return the patches that must come before one so that it applies, the fewest found.

    One alone if that is enough, the nearest first; else all those on the same files.
    """
    content = dict(files)
    culprit = picked.files[count][0]
    order = [name for name, _ in files]
    taken = {name for name, _ in picked.files[: count + 1]}
    earlier = order[: order.index(culprit)]
    paths = _paths(content[culprit])
    near = [name for name in earlier if name not in taken and paths & _paths(content[name])]
    for some in [*([name] for name in reversed(near)), near]:
        with_them = {*taken, *some, *_needed(content, some)}
        try:
            stack.build(git, base, [pair for pair in files if pair[0] in with_them])
        except ToolError:
            continue
        return some
    return []


def _paths(data: bytes) -> set[bytes]:
    """Return the files that a patch file names."""
    lines = (line for line in data.split(b"\n") if line.startswith(b"diff --git "))
    return {line.rpartition(b" b/")[2] for line in lines}


def alone(git: Git, base: str, files: Files) -> list[str]:
    """Return a finding for each topic that does not stand on what it declares."""
    found = []
    for topic in topics(files):
        try:
            lay(git, base, files, pick(files, topic))
        except ToolError as error:
            found.append(f"topic {topic}: {str(error).removesuffix('.')}")
    return found


def commits(git: Git, chain: Lock) -> list[tuple[str, stack.Commit]]:
    """Return name and commit of each patch that was laid."""
    return [(step.name, stack.read_commit(git, step.commit)) for step in chain.steps]
