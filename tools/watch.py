"""Say which patches upstream's releases and pull requests make needless, or would break."""

from __future__ import annotations

import argparse
from pathlib import Path

from packaging.version import Version

from tools import (
    apply,
    drydiff,
    fetch,
    needed,
    pristine,
    rebase_state,
    releases,
    stack,
    watchlist,
)
from tools.errors import FINDINGS, OK, ToolError, UsageError
from tools.git import Git
from tools.pristine import Base
from tools.project import Project
from tools.rebase_state import Link
from tools.say import data, say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--diff",
        type=Path,
        metavar="FILE",
        help="lay this diff of upstream's under the series, and say what collides",
    )
    parser.add_argument(
        "--upstream",
        metavar="VERSION",
        default=releases.LATEST,
        help="the release to look into (default: the newest)",
    )
    parser.add_argument(
        "--from", dest="source", type=Path, metavar="DIR", help="a folder that holds the sdists"
    )


def run(project: Project, args: argparse.Namespace) -> int:
    folder = args.source.expanduser().absolute() if args.source else None
    if folder and not folder.is_dir():
        raise UsageError(f"{folder} is no folder; FROM= takes one that holds the sdists.")
    pulls = watchlist.load(project)
    patches = apply.read_patches(project)
    git = rebase_state.repository(project)
    pristine.sweep(git)
    sdist = project.pin.sdist
    base = pristine.from_pin(git, project.pin, lambda: fetch.get(project, sdist, folder))
    if args.diff:
        return dry(git, base, patches, args.diff)
    newest = newer(project, git, args.upstream, folder)
    findings = still_needed(git, base, newest, patches) if newest else []
    findings += pulled(git, [base, *([newest] if newest else [])], pulls, patches)
    for finding in findings:
        say(f"watch: {finding}")
    return FINDINGS if findings else OK


def newer(project: Project, git: Git, word: str, folder: Path | None) -> Base | None:
    """Import the release to look into; none when the pin is the newest."""
    if not releases.is_version(word):
        raise UsageError(f"{word} is no release; watch looks into releases only.")
    offered = releases.known(project, folder)
    if folder and word == releases.LATEST and not offered:
        raise ToolError(f"{folder} holds no sdist of {project.pin.project}; put one there.")
    release = releases.choose(offered, word)
    if release.key <= Version(project.pin.version):
        data(f"{project.pin.version} is pinned, and nothing newer is there")
        return None
    return pristine.from_release(git, release, releases.sdist(project, release, folder))


def still_needed(git: Git, base: Base, newest: Base, patches: list[tuple[str, bytes]]) -> list[str]:
    """Print a line for each patch; return those that look merged."""
    findings: list[str] = []
    for name, content in patches:
        found = needed.trace(git, content, name, base.commit, newest.commit)
        text = found.text(newest.version)
        data(f"{name}: {text}")
        if found.merged:
            findings.append(f"{name} {text}; try `make rebase UPSTREAM={newest.version}`")
    return findings


def pulled(
    git: Git, bases: list[Base], pulls: list[watchlist.Pull], patches: list[tuple[str, bytes]]
) -> list[str]:
    """Print a line for each pull request on the list; return what to look at."""
    names = [name for name, _ in patches]
    findings: list[str] = []
    for pull in pulls:
        effect = [
            f"; would {verb} {', '.join(words)}"
            for verb, words in (("replace", pull.replaces), ("break", pull.breaks))
            if words
        ]
        data(f"#{pull.number} {pull.title}: {pull.state} on {pull.seen}{''.join(effect)}")
        if pull.note:
            data(f"  {pull.note}")
        findings += [
            f"#{pull.number} names {word}, which is no patch and no topic of series; correct "
            f"vendor/{watchlist.FILE}"
            for word in watchlist.unknown(pull, names)
        ]
        there = [base.version for base in bases if watchlist.landed(git, base.commit, pull)]
        if there and pull.state != "merged":
            findings.append(
                f"#{pull.number} ({pull.title}) seems to be in {there[0]}: look at it, and correct "
                f"its state in vendor/{watchlist.FILE}"
            )
    return findings


def dry(git: Git, base: Base, patches: list[tuple[str, bytes]], file: Path) -> int:
    """Print what each hunk of a diff would do to the series."""
    try:
        diff = file.read_bytes()
    except OSError as error:
        raise UsageError(f"{file} cannot be read ({error.strerror}); DIFF= takes a file.") from None
    chain = stack.build(git, base.commit, patches)
    links = [Link(step.name, step.commit) for step in chain.steps]
    found = drydiff.check(git, base.commit, links, diff)
    for one in found:
        data(f"{one.piece.path}, {one.piece.label}: {verdict(one, base.version)}")
    held = drydiff.held(git, base.commit, links, found)
    if held:
        data(f"all of it together: holds all of {', '.join(held)}, which it makes needless")
    hit = sorted({*held, *(name for one in found for name in (*one.collides, *one.holds))})
    lost = sum(not one.fits for one in found)
    say(
        f"watch: {len(found)} hunks, {sum(bool(one.collides) for one in found)} collide; "
        f"{lost} do not fit {base.version}; patches to rework: {', '.join(hit) or 'none'}"
    )
    return FINDINGS if hit else OK


def verdict(one: drydiff.Finding, version: str) -> str:
    """Say in words what a hunk does."""
    if not one.fits:
        also = f", in a file of {', '.join(one.beside)}" if one.beside else ""
        return f"does not fit {version}{also}"
    parts = []
    if one.collides:
        parts.append(f"collides with {', '.join(one.collides)}")
    if one.holds:
        parts.append(f"holds all of {', '.join(one.holds)}")
    if one.beside:
        parts.append(f"no conflict with {', '.join(one.beside)}")
    return "; ".join(parts) or "touches no patch"
