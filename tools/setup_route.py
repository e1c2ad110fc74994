"""The other way to the wheel: upstream's own setup.py on the patched tree.

It proves that upstream's build accepts the series and puts the same files into the
wheel as the overlay does. The result is compared, retagged and kept in dist/setup/.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from pathlib import Path

from tools import fetch, files, overlay, quilt, wheels
from tools.environment import Environment
from tools.errors import ToolError
from tools.git import Git, init
from tools.lock import Lock
from tools.project import Project
from tools.say import say
from tools.wheels import Fresh, Plan

FOLDER = "setup"
BUILD_FLAGS = ("--wheel", "--no-isolation", "--skip-dependency-check")


def build(project: Project, git: Git, chain: Lock, env: Environment) -> Path:
    """Build with setup.py, compare with the overlay, write the retagged wheel."""
    if not env.python.is_file():
        raise ToolError(
            f"{project.short(env.folder)} is not there; VIA=setup needs it: run `make env`, "
            f"or name one with ENV=DIR."
        )
    pin = project.pin
    released = fetch.get(project, pin.wheel)
    info = f"{pin.project}-{pin.full_version}.dist-info"
    project.cache.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=".setup-", dir=project.cache))
    try:
        built = run_setup(project, git, chain, env, released, scratch)
        with wheels.open_wheel(released) as upstream, wheels.open_wheel(built) as archive:
            ours = overlay.plan(git, pin, chain, upstream, pin.full_version)
            theirs = wheels.members(archive)
            compare(ours, theirs, info)
            # Their tag is this interpreter's; the binaries inside have upstream's.
            tag = "-".join(pin.wheel.name.removesuffix(".whl").split("-")[-3:])
            text = theirs[f"{info}/WHEEL"].read().decode()
            theirs[f"{info}/WHEEL"] = Fresh(overlay.stamp_tag(text, tag).encode())
            theirs[f"{info}/{overlay.PROVENANCE}"] = ours[f"{info}/{overlay.PROVENANCE}"]
            path = project.dist / FOLDER / f"{pin.project}-{pin.full_version}-{tag}.whl"
            wheels.write(theirs, info, path, pin.epoch)
    finally:
        files.remove_tree(scratch)
    return path


def run_setup(
    project: Project, git: Git, chain: Lock, env: Environment, released: Path, scratch: Path
) -> Path:
    """Run setup.py in a copy of the patched tree: it unpacks binaries into its folder."""
    tree, out = scratch / "tree", scratch / "out"
    tree.mkdir()
    quilt.export(git, chain.tree, tree)
    # setuptools-scm asks git which files belong to the package.
    copy = init(tree, "build")
    copy.raw("add", "-A", "-f", ".")
    version = project.pin.full_version
    kept = {key: value for key, value in os.environ.items() if not key.startswith("VLLM_")}
    done = subprocess.run(  # noqa: S603 - the interpreter of our own environment
        [str(env.python), "-m", "build", *BUILD_FLAGS, "--outdir", str(out), str(tree)],
        cwd=scratch,
        env=kept
        | {
            # A path that is no file would be taken for a URL; fetch.get proved this one.
            "VLLM_PRECOMPILED_WHEEL_LOCATION": str(released.absolute()),
            "VLLM_USE_PRECOMPILED": "1",
            "VLLM_TARGET_DEVICE": "cuda",
            # Else setuptools-scm looks for a tag and adds "+precompiled".
            "VLLM_VERSION_OVERRIDE": version,
            "SOURCE_DATE_EPOCH": str(project.pin.epoch),
            "GIT_CEILING_DIRECTORIES": str(scratch),
            "PYTHONNOUSERSITE": "1",
            "CUDA_VISIBLE_DEVICES": "",
        },
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    log = project.cache / "logs" / "setup.log"
    files.write(log, (done.stdout + done.stderr).encode())
    found = list(out.glob("*.whl")) if out.is_dir() else []
    if done.returncode or len(found) != 1:
        last = [line for line in done.stderr.splitlines() if line.strip()][-1:] or ["no output"]
        raise ToolError(f"setup.py failed ({last[0].strip()}); its output is in {log}.")
    say(f"setup.py made {found[0].name}")
    return found[0]


def compare(ours: Plan, theirs: Plan, info: str) -> None:
    """Stop unless both wheels hold the same files with the same content."""
    mine = {name for name in ours if name != f"{info}/{overlay.PROVENANCE}"}
    if mine != set(theirs):
        only = sorted(mine ^ set(theirs))
        sides = [f"{'overlay' if name in mine else 'setup.py'} only: {name}" for name in only[:6]]
        raise ToolError(f"the two wheels differ in {len(only)} file(s): {'; '.join(sides)}.")
    different = [
        name for name in sorted(mine) if comparable(ours, name) != comparable(theirs, name)
    ]
    if different:
        raise ToolError(
            f"setup.py and the overlay disagree on {len(different)} file(s): "
            f"{', '.join(different[:6])}."
        )
    say(f"setup.py and the overlay hold the same {len(mine)} files")


def comparable(plan: Plan, name: str) -> bytes:
    """Return a member's content, less the lines that name the build and not the code."""
    content = plan[name].read()
    if name.endswith("/_version.py"):
        # Without a tag setuptools-scm knows no commit; the overlay keeps the release's.
        return re.sub(rb"^__commit_id__ = .*$", b"", content, flags=re.MULTILINE)
    if name.endswith(".dist-info/WHEEL"):
        return re.sub(rb"^(Generator|Tag): .*$", b"", content, flags=re.MULTILINE)
    return content
