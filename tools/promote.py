"""Check, build and test a rebased series in a copy of the project, then move the pin to it."""

from __future__ import annotations

import argparse
import shlex
import tomllib
from pathlib import Path

from tools import (
    apply,
    candidate,
    checkout,
    lines,
    lock,
    pinning,
    rebase_result,
    rebase_state,
    staging,
)
from tools.errors import FINDINGS, OK, ConflictError, ToolError
from tools.project import Project
from tools.rebase_state import State
from tools.say import say

SETTINGS = "rebase.toml"
PIN, LINE = "pin", "line"


def run(project: Project, state: State, folder: Path | None, goal: str) -> int:
    """Move the pin, or keep a line, if every command passes; until then change nothing."""
    if goal == PIN and project.pin.base_tree == state.target.tree:
        # Killed after the one step that decides.
        return finish(project, state)
    if not state.target.sdist:
        raise ToolError(
            f"{state.target.version} is no release: it has no sdist and no wheel to pin; rebase "
            f"to a release to promote."
        )
    commands = configured(project, goal)
    stop_if_changed(project, state, goal)
    candidate.take_corrections(project, state)
    pin = pinning.text(project, state.target, folder)
    home = candidate.lay_out(project, pin)
    log = rebase_state.folder(project) / "promote.log"
    with log.open("wb") as out:
        for argv in commands:
            shown = shlex.join(argv)
            say(f"promote: {shown}")
            out.write(f"$ {shown}\n".encode())
            out.flush()
            if candidate.passes(project, argv, home, out.fileno()):
                continue
            where = project.short(home)
            # What was made there is the next promotion's start.
            say(
                f"promote: `{shown}` fails on the rebased series, so the pin stays; see "
                f"{project.short(log)}. Commit corrections in {where}/vendor/"
                f"{project.pin.project}, run `make -C {where} refresh`, then promote again."
            )
            return FINDINGS
    # The commands may have taken hours.
    stop_if_changed(project, state, goal)
    result = rebase_state.result(project)
    texts = [(result / name).read_text(encoding="utf-8") for name in ("series", "series.lock")]
    patches = rebase_result.patches(result)
    if goal == LINE:
        return keep(project, state, patches, (result, pin))
    staging.stage(project, patches, texts[0], texts[1], pin)
    staging.finish(project)
    return finish(project, state)


def stop_if_changed(project: Project, state: State, goal: str) -> None:
    """Stop when promoting would undo what somebody did since the rebase began."""
    if lock.load(project.lock).series_id != state.series_id:
        raise ConflictError(
            "the series changed since the rebase began, and promoting would undo that; give the "
            "rebase up with `make rebase ABORT=1` and begin again: resolutions are remembered."
        )
    if goal == LINE:
        lines.stop_if_unsaved(main(project), state.target.version)
    elif checkout.exists(project):
        checkout.recover(project.git)
        checkout.stop_if_unsaved(project, project.git, "")


def keep(
    project: Project, state: State, patches: list[tuple[str, bytes]], made: tuple[Path, bytes]
) -> int:
    """Keep the result beside the series, as the line of its release."""
    result, pin = made
    version = state.target.version
    content = {f"patches/{name}": data for name, data in patches}
    content |= {name: (result / name).read_bytes() for name in ("series", "series.lock")}
    lines.write(main(project), version, content | {lines.PIN: pin})
    rebase_state.forget(project)
    say(f"promote: lines/{version} is the series on {version}; commit it. The pin stays.")
    return OK


def main(project: Project) -> Project:
    """Return the project that keeps the lines, also for one that is a line itself."""
    return Project(project.outer) if project.outer else project


def finish(project: Project, state: State) -> int:
    """Bring the checkout after the pin, and end the rebase."""
    version = state.target.version
    rebase_state.forget(project)
    say(f"promote: the pin is {version} now; commit vendor/upstream.toml, patches/, series and "
        f"series.lock together")  # fmt: skip
    # A fresh one: the old has read the pin.
    after = Project(project.root, project.outer)
    if checkout.exists(after):
        return apply.run(after, argparse.Namespace(relock=False))
    return OK


def configured(project: Project, goal: str) -> list[list[str]]:
    """Return the commands that a result must pass."""
    path = project.vendor / SETTINGS
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))["promote"]
        rows = table["line"] if goal == LINE and "line" in table else table["commands"]
        commands = [[str(word) for word in shlex.split(row)] for row in rows]
    except FileNotFoundError:
        raise ToolError(
            f"{project.short(path)} is missing; restore it with git checkout."
        ) from None
    except (tomllib.TOMLDecodeError, KeyError, TypeError, AttributeError, ValueError) as error:
        raise ToolError(
            f"{project.short(path)} names no commands under [promote] ({error}); restore it."
        ) from None
    if not commands:
        raise ToolError(f"{project.short(path)} names no command, so nothing would be tested.")
    return commands
