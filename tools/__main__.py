"""``python -m tools VERB``: the command line of the patch series."""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import sys
import traceback
from datetime import UTC, datetime
from pathlib import Path

from tools import files, lines, staging
from tools.errors import BUG, FINDINGS, USAGE, ConflictError, ToolError
from tools.project import Project
from tools.say import say

# In the order in which a newcomer meets them; the help text is the module's first line.
VERBS = (
    "status",
    "fetch",
    "apply",
    "refresh",
    "verify",
    "prove",
    "promotion",
    "rebase",
    "stats",
    "watch",
    "build",
    "extract",
    "env",
    "lint",
    "clean",
)


# These change the checkout or the patches: one at a time.
IN_THE_WAY = (PermissionError, FileExistsError, NotADirectoryError)
WRITERS = ("apply", "refresh", "rebase", "watch", "clean")


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="python -m tools",
        description="Tools of the patch series.",
        epilog="exit codes: 0 done or nothing to do, 1 findings or a refusal, 2 usage, "
        "3 somebody's work waits, 4 a bug in these tools",
    )
    top.add_argument(
        "-C",
        dest="root",
        metavar="DIR",
        type=Path,
        default=Path(__file__).resolve().parent.parent,
        help="the project's folder (default: the one these tools lie in)",
    )
    top.add_argument(
        "--line",
        metavar="VERSION",
        default="",
        help="work on the line of another release, kept in lines/VERSION",
    )
    verbs = top.add_subparsers(dest="verb", metavar="VERB", required=True)
    for name in VERBS:
        module = importlib.import_module(f"tools.{name}")
        text = (module.__doc__ or "").partition("\n")[0]
        module.add_arguments(verbs.add_parser(name, help=text, description=module.__doc__))
    return top


def main(argv: list[str] | None = None) -> int:
    argv = sys.argv[1:] if argv is None else argv
    args = parser().parse_args(["--help"] if argv == ["help"] else argv)
    project = Project(args.root.absolute())
    try:
        if args.line:
            return lines.run(project, args.line, args, _run)
        return _run(project, args)
    except ToolError as error:
        where = f" (LINE={args.line})" if args.line else ""
        say(f"{args.verb}{where}: {error}")
        return error.code
    except KeyboardInterrupt:
        say(f"{args.verb}: interrupted; nothing is half-written, run it again.")
        return 130
    except Exception as error:  # noqa: BLE001 - the last resort
        if isinstance(error, IN_THE_WAY) and error.filename:
            say(f"{args.verb}: {error.filename}: {str(error.strerror).lower()}; see to it.")
            return FINDINGS
        say(f"{args.verb}: a bug in these tools ({error!r}); details in {_log(project, args)}")
        return BUG


def _run(project: Project, args: argparse.Namespace) -> int:
    verb = importlib.import_module(f"tools.{args.verb}")
    with files.only_one(project.vendor / ".lock") as alone:
        if alone:
            staging.finish(project)
        elif args.verb in WRITERS:
            raise ConflictError(
                f"another {', '.join(WRITERS[:-1])} or {WRITERS[-1]} runs in this project; "
                f"wait for it, then run this again."
            )
        if args.verb in WRITERS:
            return int(verb.run(project, args))
    return int(verb.run(project, args))


def _log(project: Project, args: argparse.Namespace) -> Path:
    try:
        folder = project.cache / "logs"
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        folder = Path(os.environ.get("TMPDIR", "/tmp"))  # noqa: S108 - better than no log
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    path = folder / f"{args.verb}-{stamp}-{os.getpid()}.log"
    path.write_text(
        f"arguments: {sys.argv[1:]}\npython: {sys.version}\nsystem: {platform.platform()}\n\n"
        f"{traceback.format_exc()}",
        encoding="utf-8",
    )
    return path


if __name__ == "__main__":
    try:
        code = main()
    except BrokenPipeError:
        code = USAGE
    sys.exit(code)
