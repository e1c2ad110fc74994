"""The git repository in vendor/ in which upstream's code is edited."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from tools import files, lock, staging, upstream
from tools.errors import ConflictError, ToolError
from tools.git import Git, init
from tools.lock import Lock
from tools.project import Project

BRANCH = "series"
# What was last exported or applied: only such a state may be left without asking.
APPLIED = "refs/series/applied"
RECORD = "series-applied.json"
MOVING = "series-moving.json"
BUSY = {
    "rebase-merge": "rebase",
    "rebase-apply": "rebase or am",
    "MERGE_HEAD": "merge",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
}


def exists(project: Project) -> bool:
    """Return whether the checkout is there; one that git cannot read is a stop."""
    if not (project.checkout / ".git").exists():
        return False
    if project.git.call("rev-parse", "--git-dir").returncode:
        raise ToolError(
            f"git cannot read {project.short(project.checkout)}, so its .git is damaged; move it "
            f"away, then run `make apply`."
        )
    return True


def need(project: Project) -> Git:
    """Return the checkout, or say how to get one."""
    if not exists(project):
        raise ToolError(f"{project.short(project.checkout)} is not there; run `make apply`.")
    return project.git


def create(project: Project, sdist: Path) -> Path:
    """Make a repository holding the base beside its final place; return its folder."""
    project.vendor.mkdir(parents=True, exist_ok=True)
    for stale in project.vendor.glob(".new-*"):
        files.remove_tree(stale)
    folder = Path(tempfile.mkdtemp(prefix=".new-", dir=project.vendor))
    folder.chmod(0o755)
    try:
        upstream.ensure_base(init(folder, BRANCH), sdist, project.pin)
    except BaseException:
        files.remove_tree(folder)
        raise
    return folder


def busy(git: Git) -> str | None:
    """Return the git operation that waits for the user, if any."""
    for name, what in BUSY.items():
        if (git.git_dir / name).exists():
            return what
    return None


def dirty(git: Git) -> tuple[list[str], list[str]]:
    """Return the tracked files with edits, and the untracked ones git does not ignore."""
    edited: list[str] = []
    untracked: list[str] = []
    rows = git.zlist("status", "--porcelain=v1", "-z", "--no-renames", "--untracked-files=all")
    for row in rows:
        (untracked if row.startswith("??") else edited).append(row[3:])
    return edited, untracked


def record(git: Git, lock: Lock) -> None:
    """Remember what the checkout was made from."""
    files.write(
        git.git_dir / RECORD,
        json.dumps({step.name: step.sha256 for step in lock.steps}, indent=1).encode(),
    )
    git.raw("update-ref", "--create-reflog", APPLIED, lock.commit)


def recorded(git: Git) -> dict[str, str]:
    """Return the patches the checkout was made from, by name."""
    path = git.git_dir / RECORD
    return dict(json.loads(path.read_bytes())) if path.is_file() else {}


def stop_if_unsaved(project: Project, git: Git, target: str) -> None:
    """Stop when moving the checkout to a commit would lose somebody's work."""
    where = project.short(project.checkout)
    what = busy(git)
    if what:
        raise ConflictError(
            f"a {what} is unfinished in {where}; finish it or run `git -C {where} "
            f"{what.split()[0]} --abort`, then run this again."
        )
    applied = git.resolve(APPLIED)
    known = {applied, git.resolve(upstream.BASE_REF), target, None}
    for name in ("HEAD", f"refs/heads/{BRANCH}"):
        head = git.resolve(name)
        if head not in known:
            count = git.out("rev-list", "--count", str(head), f"^{applied or target}")
            subject = git.out("log", "-1", "--format=%h %s", str(head))
            raise ConflictError(
                f"{where} has {count} commit(s) that are not in patches/ (the last: {subject}); "
                f"save them with `make refresh`, or keep them aside with "
                f"`git -C {where} branch mine && git -C {where} checkout -B {BRANCH} {APPLIED}`."
            )
    edited, untracked = dirty(git)
    if edited:
        raise ConflictError(
            f"{where} has edits in {_some(edited)}; save them with `git -C {where} commit -a` "
            f"and `make refresh`, or set them aside with `git -C {where} stash`."
        )
    if untracked:
        raise ConflictError(
            f"{where} has untracked files ({_some(untracked)}); save them with `git -C {where} "
            f"add`, a commit and `make refresh`, or set them aside with "
            f"`git -C {where} stash -u`."
        )


def _some(names: list[str]) -> str:
    shown, rest = names[:3], names[3:]
    return ", ".join(shown) + (f" and {len(rest)} more" if rest else "")


def move(git: Git, target: str) -> None:
    """Check out a commit; a kill halfway is finished by the next `recover`."""
    head = git.resolve("HEAD")
    note = json.dumps({"from": head, "to": target}).encode()
    files.write(git.git_dir / MOVING, note)
    if head is None:
        git.raw("update-ref", "--create-reflog", f"refs/heads/{BRANCH}", target)
        git.raw("symbolic-ref", "HEAD", f"refs/heads/{BRANCH}")
        git.raw("reset", "--hard", "--quiet", target)
    else:
        # Ignored files are somebody's too: never write over one.
        done = git.call("checkout", "--quiet", "--no-overwrite-ignore", "-B", BRANCH, target)
        if done.returncode:
            (git.git_dir / MOVING).unlink()
            why = " ".join(done.stderr.decode(errors="replace").split())
            raise ConflictError(f"git cannot check out the series: {why}")
    (git.git_dir / MOVING).unlink()


def recover(git: Git) -> None:
    """Finish a move that was killed, if every file is in its old or its new state."""
    path = git.git_dir / MOVING
    if not path.is_file():
        return
    note = json.loads(path.read_bytes())
    old, new = note["from"], note["to"]
    head = git.resolve("HEAD")
    if head not in (old, new):
        path.unlink()
        return
    (git.git_dir / "index.lock").unlink(missing_ok=True)
    moving = set(git.changed(old, new)) if old else set()
    edited, untracked = dirty(git)
    for name in [*edited, *untracked]:
        if old and (name not in moving or not _either(git, name, old, new)):
            path.unlink()  # a real edit: the usual check speaks about it
            return
    git.raw("checkout", "--quiet", "--force", "-B", BRANCH, new)
    path.unlink()


def _either(git: Git, name: str, old: str, new: str) -> bool:
    file = Path(str(git.work_tree)) / name
    ids = {git.blob(commit, name) for commit in (old, new)}
    if not file.is_file():
        return None in ids or not file.exists()
    return git.out("hash-object", "--no-filters", str(file)) in ids


def need_locked(project: Project, git: Git) -> Lock:
    """Return the lock, if patches/ is what it names and the repository holds the result."""
    chain = lock.load(project.lock)
    names = {step.name: step.sha256 for step in chain.steps}
    on_disk = staging.listing(project)
    for name in sorted(names.keys() | on_disk.keys()):
        if names.get(name) != on_disk.get(name):
            raise ToolError(
                f"patches/{name} is not what series.lock names; run `make verify` to see why."
            )
    if git.call("cat-file", "-e", f"{chain.commit}^{{commit}}").returncode:
        raise ToolError(
            f"{project.short(project.checkout)} does not know the commit series.lock names "
            f"({chain.commit[:10]}); run `make apply`."
        )
    return chain


def need_applied(project: Project, git: Git) -> Lock:
    """Return the lock, if the checkout holds exactly that series and nothing else."""
    recover(git)
    chain = need_locked(project, git)
    where = project.short(project.checkout)
    if git.resolve("HEAD") != chain.commit:
        raise ToolError(
            f"{where} is not at the commit series.lock names ({chain.commit[:10]}); run "
            f"`make apply`, or `make refresh` if you have commits there."
        )
    edited, untracked = dirty(git)
    if edited or untracked:
        raise ConflictError(
            f"{where} has edits that are not in patches/ ({_some(edited + untracked)}); commit "
            f"and `make refresh`, or set them aside with `git -C {where} stash -u`."
        )
    return chain
