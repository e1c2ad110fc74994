"""Where the commits of the checkout are not the patches of ``series.lock``."""

from __future__ import annotations

from tools import checkout, patchfile, stack, upstream
from tools.errors import ToolError
from tools.git import Git
from tools.lock import Lock

SHOWN = 3


def text(git: Git, chain: Lock) -> str:
    """Name the commits that are not in patches/, and the patches that are no commit."""
    head = git.resolve("HEAD")
    if head is None or head == chain.commit:
        return ""
    # As apply or refresh left it, so that it holds nothing to refresh: patches/ moved, by a pull.
    if head in (git.resolve(checkout.APPLIED), git.resolve(upstream.BASE_REF)):
        return "another state of the series: `make apply`"
    if git.call("merge-base", "--is-ancestor", upstream.BASE_REF, head).returncode:
        return f"HEAD is {head[:10]}, which does not stand on the pinned release"
    want = {step.name: step.sha256 for step in chain.steps}
    there: set[str] = set()
    loose: list[str] = []
    for commit_id in git.out("rev-list", "--reverse", f"{upstream.BASE_REF}..{head}").split():
        commit = stack.read_commit(git, commit_id)
        name, digest = _exported(git, commit)
        there.add(name)
        if want.get(name) != digest:
            loose.append(name if name in want else commit.short)
    gone = [name for name in want if name not in there]
    parts = []
    if loose:
        parts.append(f"{len(loose)} commit(s) not in patches/ ({_some(loose)}): `make refresh`")
    if gone:
        parts.append(
            f"{len(gone)} patch(es) without a commit ({_some(gone)}): `make apply` brings them "
            f"back, `make refresh` drops them"
        )
    return "; ".join(parts) or "the patches in another order: `make refresh`, or `make apply`"


def _exported(git: Git, commit: stack.Commit) -> tuple[str, str]:
    """Return the file name and the digest that a commit has as a patch; empty: it can be none."""
    try:
        name = stack.split_name(commit)[1] or ""
        return name, patchfile.digest(patchfile.write(stack.export_commit(git, commit)))
    except ToolError:
        return "", ""


def _some(names: list[str]) -> str:
    shown, rest = names[:SHOWN], names[SHOWN:]
    return ", ".join(shown) + (f" and {len(rest)} more" if rest else "")
