"""The command line, status, clean, the environment, and the shared parts."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import world as worlds
from world import World

from tools import checkout, cpu, files, lint, series
from tools.__main__ import VERBS
from tools.git import Git, environment

Said = Callable[[], str]
ROOT = Path(__file__).parents[2]


# ---- the command line ----------------------------------------------------------------------


def test_help_lists_every_verb(bare: World, said: Said) -> None:
    for argv in (["--help"], ["help"]):
        done = subprocess.run(
            [sys.executable, "-m", "tools", *argv], cwd=ROOT, capture_output=True, text=True,
            check=True,
        )  # fmt: skip
        for verb in VERBS:
            assert verb in done.stdout
    for verb in VERBS:
        assert bare.run(verb, "--help") == 0
        assert len(said()) > 100


def test_usage_is_two(bare: World) -> None:
    assert bare.run("no-such-verb") == 2
    assert bare.run() == 2
    assert bare.run("build", "--via", "magic") == 2


def test_bug_is_four_with_a_log_and_no_traceback(
    series: World, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr("tools.stack.build", broken)
    assert series.run("apply") == 4
    message = said()
    assert len(message.splitlines()) == 1
    assert "Traceback" not in message
    log = Path(message.split("details in ")[1].strip())
    assert "ZeroDivisionError: oops" in log.read_text()


def test_exit_code_of_git_is_not_the_tools_own(series: World, said: Said) -> None:
    (series.checkout / ".git" / "index").write_text("no index\n")
    said()
    assert series.run("apply") == 1
    assert "failed (128)" in said()


def test_data_on_stdout_and_talk_on_stderr(
    series: World, capfd: pytest.CaptureFixture[str]
) -> None:
    capfd.readouterr()
    series.run("build")
    out, err = capfd.readouterr()
    assert re.fullmatch(r"[0-9a-f]{64}  dist/\S+\.whl\n", out)
    assert "MiB" in err


def test_one_writer_at_a_time(series: World, said: Said) -> None:
    with files.only_one(series.root / "vendor" / ".lock") as alone:
        assert alone
        for verb in ("apply", "refresh", "rebase", "watch", "clean"):
            assert series.run(verb) == 3
            assert "another apply, refresh, rebase, watch or clean runs" in said()
        assert series.run("status") == 0
    assert series.run("apply") == 0


def test_makefile_offers_every_verb() -> None:
    text = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):", text, re.MULTILINE))
    assert set(VERBS) | {"help", "lock", "test-tools", "distclean"} <= targets


def test_make_takes_settings_from_its_command_line_only() -> None:
    def commands(*argv: str) -> str:
        # A bootstrap stamp newer than anything: only the verb's own line is shown.
        return subprocess.run(
            ["make", "-n", "-o", ".venv/.stamp", "-o", "apply", "build", *argv],
            cwd=ROOT, capture_output=True, text=True, check=True,
            env={**os.environ, "ENV": "/from/shell", "CPU": "1", "VIA": "setup"},
        ).stdout  # fmt: skip

    assert "--env" not in commands()
    assert "--cpu" not in commands()
    assert "--via" not in commands()
    assert '--via "setup"' in commands("VIA=setup")
    assert "--cpu" in commands("CPU=1")


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        *((f"{name}=yes", f"{name}=yes: {name} takes 1 or 0")
          for name in ("STEP", "CONTINUE", "ABORT", "REUSE", "LOG", "CPU", "IMPORT", "QUILT")),
        ("PROMOTE=yes", "PROMOTE=yes: PROMOTE takes 1 or line"),
        ("PROMOTE=0", "PROMOTE=0: PROMOTE takes 1 or line"),
    ],
)  # fmt: skip
def test_make_refuses_a_word_that_it_would_misread(setting: str, words: str) -> None:
    done = subprocess.run(
        ["make", "-n", "--no-print-directory", "-o", ".venv/.stamp", "rebase", setting],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr


@pytest.mark.parametrize(
    ("settings", "options"),
    [
        (["STEP=1", "UPSTREAM=1.3.0"], '--upstream "1.3.0" --step'),
        (["STEP=0", "REUSE=1", "CONTINUE=1"], "--continue"),
        (["REUSE=0"], "--no-reuse"),
        (["PROMOTE=1"], "--promote"),
        (["PROMOTE=line"], "--promote line"),
    ],
)
def test_make_passes_on_what_it_was_told(settings: list[str], options: str) -> None:
    done = subprocess.run(
        ["make", "-n", "--no-print-directory", "-o", ".venv/.stamp", "rebase", *settings],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    words = done.stdout.replace("\\\n", " ").split()
    assert " ".join(words[words.index("rebase") + 1 :]) == options


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (["VIA=magic"], "VIA=magic: build takes VIA=overlay or VIA=setup"),
        (["VIA=setup", "CPU=1"], "VIA=setup and CPU=1 exclude each other"),
    ],
)
@pytest.mark.parametrize("target", ["build", "gpu-bundle"])
def test_make_refuses_a_wrong_route_before_it_applies(
    settings: list[str], words: str, target: str
) -> None:
    done = subprocess.run(
        ["make", "-n", "--no-print-directory", "-o", ".venv/.stamp", target, *settings],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stdout == ""
    assert words in done.stderr


# ---- no trace of a machine, no host of a registry --------------------------------------------


def tracked() -> list[Path]:
    names = ["Makefile", "pyproject.toml", "series", "series.lock", "ci/env.lock"]
    found = [ROOT / name for name in names]
    for folder in ("tools", "vendor", "tests/tools"):
        found += [
            path
            for path in (ROOT / folder).rglob("*")
            if path.suffix in (".py", ".toml", ".txt", ".md")
            and not {"vllm", "cache", "rebase"} & set(path.relative_to(ROOT / folder).parts)
        ]
    return found


def test_no_registry_host_in_any_file() -> None:
    hosts = re.compile("py" + r"pi\.org|python" + r"hosted\.org|deb" + r"ian\.org")
    assert [path for path in tracked() if hosts.search(path.read_text())] == []


def test_modules_stay_small() -> None:
    assert [
        p.name for p in (ROOT / "tools").glob("*.py") if len(p.read_text().split("\n")) > 250
    ] == []


# ---- status ----------------------------------------------------------------------------------


def test_status(series: World, said: Said) -> None:
    assert series.run("status") == 0
    message = said()
    assert "vllm 1.2.0, builds 1.2.0+gdnwindow.1" in message
    assert "3 in series, 3 in the folder; series.lock agrees" in message
    assert "vendor/vllm: holds the locked series" in message
    assert "not built" in message
    series.edit("vllm/b.py", "1", "2")
    series.commit("Mine", "Topic: own")
    (series.checkout / "x").write_text("")
    series.patch("core/change-three.patch").write_text("x")
    assert series.run("status") == 0
    message = said()
    assert re.search(
        r"vendor/vllm: 1 commit\(s\) not in patches/ \([0-9a-f]{10} \(.*Mine\)\): `make refresh`, "
        r"0 edited and 1 untracked",
        message,
    )
    assert "series.lock does not agree" in message


def test_apply_says_first_what_takes_long(bare: World, said: Said) -> None:
    assert bare.run("fetch", "--from", str(bare.upstream)) == 0
    said()
    assert bare.run("apply", "--relock") == 0
    assert said().startswith("vendor/vllm: unpacking vllm-1.2.0.tar.gz, up to a minute\n")
    shutil.rmtree(bare.checkout)
    assert bare.run("verify", "--no-import", "--no-quilt") == 0
    assert said().startswith("there is no checkout: unpacking vllm-1.2.0.tar.gz, up to a minute\n")


def test_status_of_a_built_wheel(series: World, said: Said) -> None:
    series.run("build")
    series.run("status")
    assert "whl of this series" in said()
    series.git("reset", "-q", "--hard", "HEAD~1")
    series.run("refresh")
    series.run("status")
    assert "of another state of the series" in said()


def test_status_of_nothing(bare: World, said: Said) -> None:
    assert bare.run("status") == 0
    message = said()
    assert "series.lock is missing" in message
    assert "not fetched" in message
    assert "is not there: `make apply`" in message


# ---- clean -----------------------------------------------------------------------------------


def test_clean_keeps_the_checkout_and_downloads(series: World) -> None:
    series.run("build")
    (series.cache / ".cpu-killed").mkdir()
    (series.root / "vendor" / ".new-killed").mkdir()
    assert series.run("clean") == 0
    assert not (series.root / "dist").exists()
    assert series.debris() == []
    assert series.checkout.exists()
    assert (series.cache / "downloads" / worlds.SDIST).is_file()
    assert series.run("build") == 0


def test_clean_leaves_what_other_checkouts_have_in_the_cache(
    series: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = tmp_path / "shared"
    shutil.copytree(series.cache, shared)
    monkeypatch.setenv("GDNWINDOW_CACHE", str(shared))
    other = worlds.copy(series, tmp_path / "other")
    other.edit("vllm/b.py", "1", "2")
    other.commit("Mine")
    assert other.run("refresh") == 0
    mine, theirs = (cpu.unpacked(world.project) for world in (series, other))
    log = shared / "logs" / "apply.log"
    log.parent.mkdir()
    log.write_text("theirs")
    at_work, killed = shared / ".prove-now", shared / ".prove-once"
    for path in (at_work, killed):
        path.mkdir()
    os.utime(killed, (0, 0))
    assert series.run("clean") == 0
    assert not killed.exists()
    assert at_work.is_dir()
    # A clone of the same series may be testing it.
    assert (mine / "vllm" / "_C.abi3.so").is_file()
    assert (theirs / "vllm" / "_C.abi3.so").is_file()
    assert cpu.extensions(other.project).is_dir()
    assert log.is_file()
    assert series.run("clean", "--all") == 0
    assert (theirs / "vllm" / "_C.abi3.so").is_file()
    assert not series.checkout.exists()


def test_a_checkout_that_git_cannot_read_is_named(series: World, said: Said) -> None:
    shutil.rmtree(series.checkout / ".git" / "objects")
    for verb in ("apply", "refresh", "build"):
        assert series.run(verb) == 1
        assert "git cannot read vendor/vllm" in said()


def test_what_is_in_the_way_is_named(series: World, said: Said) -> None:
    (series.root / "dist").write_text("in the way")
    assert series.run("build") == 1
    assert f"{series.root / 'dist'}: file exists" in said()


def test_clean_needs_no_lock(series: World) -> None:
    (series.root / "series.lock").unlink()
    assert series.run("clean") == 0


def test_distclean_leaves_what_git_tracks(series: World) -> None:
    before = series.snapshot()
    assert series.run("clean", "--all") == 0
    assert not series.checkout.exists()
    assert not (series.cache / "downloads" / worlds.SDIST).exists()
    assert series.snapshot() == before


@pytest.mark.parametrize("work", ["edit", "untracked", "commit", "branch", "stash"])
def test_distclean_never_deletes_unsaved_work(series: World, said: Said, work: str) -> None:
    series.run("build")
    if work == "untracked":
        (series.checkout / "notes").write_text("mine")
    else:
        series.edit("vllm/b.py", "1", "2")
    if work == "stash":
        series.git("stash")
    if work in ("commit", "branch"):
        series.commit("Mine")
    if work == "branch":
        series.git("branch", "mine")
        series.git("reset", "-q", "--hard", "HEAD~1")
    assert series.run("clean", "--all") == 3
    assert "make refresh" in said()
    assert series.checkout.exists()
    assert (series.root / "dist").exists()  # nothing was deleted before the stop


# ---- the environment -------------------------------------------------------------------------


@pytest.fixture
def tiny_env(series: World, tmp_path: Path) -> World:
    info = "tinydep-1.0.dist-info"
    wheel = tmp_path / "tinydep-1.0-py3-none-any.whl"
    worlds.write_wheel(
        wheel,
        {
            "tinydep.py": b"value = 1\n",
            f"{info}/METADATA": b"Metadata-Version: 2.1\nName: tinydep\nVersion: 1.0\n",
            f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        },
        info,
    )
    (series.root / "ci" / "env.lock").write_text(f"tinydep @ file://{wheel}\n")
    return series


def test_environment_is_made_reused_and_repaired(tiny_env: World, said: Said) -> None:
    assert tiny_env.run("env") == 0
    env, cpu = [Path(line) for line in said().splitlines() if line.startswith("/")]
    assert (env / "bin" / "python").exists()
    assert (cpu / "vllm" / "_C_AVX2.abi3.so").read_bytes() == b"avx" * 500
    assert tiny_env.run("env") == 0
    message = said()
    assert "already made" in message
    assert "already unpacked" in message
    done = subprocess.run(
        [str(env / "bin" / "python"), "-c", "import tinydep, vllm.new; print(vllm.__file__)"],
        env={"PYTHONPATH": str(cpu)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.startswith(str(cpu))
    (env / ".complete").unlink()
    assert tiny_env.run("env", "--no-cpu") == 0
    assert "was left half-built; building it again" in said()


def test_environment_is_keyed_by_its_lock(tiny_env: World, said: Said) -> None:
    tiny_env.run("env", "--print", "--no-cpu")
    first = said()
    with (tiny_env.root / "ci" / "env.lock").open("a") as file:
        file.write("# more\n")
    tiny_env.run("env", "--print", "--no-cpu")
    assert said() != first


def test_environment_that_cannot_be_built(tiny_env: World, said: Said) -> None:
    (tiny_env.root / "ci" / "env.lock").write_text("tinydep @ file:///nonexistent.whl\n")
    assert tiny_env.run("env", "--no-cpu") == 1
    assert "the packages of ci/env.lock failed" in said()
    assert not list(tiny_env.cache.glob("env-*/.complete"))


def test_cpu_build_follows_the_lock_not_the_work(tiny_env: World, said: Said) -> None:
    tiny_env.run("env", "--print")
    before = said()
    tiny_env.edit("vllm/b.py", "1", "2")
    tiny_env.commit("Mine")
    tiny_env.run("env", "--print")
    assert said() == before
    tiny_env.run("refresh")
    said()
    tiny_env.run("env", "--print")
    assert said() != before


def test_two_processes_do_not_build_one_environment(tiny_env: World, said: Said) -> None:
    tiny_env.run("env", "--print", "--no-cpu")
    env = Path(said().strip())
    with files.only_one(env.with_suffix(".lock")):
        assert tiny_env.run("env") == 3
    assert "another process builds" in said()


def test_two_processes_do_not_unpack_at_once(tiny_env: World, said: Said) -> None:
    project = tiny_env.project
    with files.only_one(cpu.extensions(project).with_suffix(".lock")) as alone:
        assert alone
        assert tiny_env.run("env") == 3
        assert "another process unpacks vendor/cache/cpu-extensions-" in said()
    assert tiny_env.debris() == []
    assert not cpu.folder(project).exists()
    assert tiny_env.run("env") == 0


def test_build_unpacked_by_another_process_is_taken(
    tiny_env: World, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was not there when this process looked, and is when it holds the lock."""
    project = tiny_env.project
    real = checkout.need_locked

    def late(*args: Any) -> Any:
        monkeypatch.setattr(checkout, "need_locked", real)
        cpu.unpacked(project)
        return real(*args)

    monkeypatch.setattr(checkout, "need_locked", late)
    assert cpu.unpacked(project) == cpu.folder(project)
    assert "already unpacked" in said()
    assert tiny_env.debris() == []


# ---- shared parts ----------------------------------------------------------------------------


def test_git_sees_nothing_of_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_DIR", "/x")
    monkeypatch.setenv("GIT_SSL_CAINFO", "/ca")
    env = environment()
    assert "GIT_DIR" not in env
    assert env["GIT_CONFIG_GLOBAL"] == os.devnull
    network = environment(network=True)
    assert "GIT_DIR" not in network
    assert network["GIT_SSL_CAINFO"] == "/ca"
    assert "GIT_CONFIG_GLOBAL" not in network


def test_repository_survives_a_move(series: World, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    shutil.move(series.root, moved)
    assert World(moved, series.upstream).run("apply") == 0
    assert Git(moved / "vendor" / "vllm" / ".git").resolve("HEAD")


@pytest.mark.parametrize(
    "text",
    ["", "a/a.patch\n", "# h\n\na/a.patch\n", "a/a.patch  # why\n\n# b\nb/b.patch\n# end\n"],
)
def test_series_text_round_trip(text: str) -> None:
    parsed = series.parse(text)
    assert parsed.text() == text
    assert parsed.reordered(parsed.names).text() == text


def test_partial_file_leaves_nothing(tmp_path: Path) -> None:
    target = tmp_path / "x"
    with pytest.raises(RuntimeError), files.partial(target) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []
    (tmp_path / ".x.killed.part").write_text("half")
    assert files.write(target, b"whole")
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
    assert not files.write(target, b"whole")


def test_partial_file_of_another_process_is_left_alone(tmp_path: Path) -> None:
    target = tmp_path / "x"
    ready, go = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        with files.partial(target) as temporary:
            temporary.write_text("theirs")
            os.write(ready[1], b"x")
            os.read(go[0], 1)
        os._exit(0 if target.read_text() == "theirs" else 1)
    os.read(ready[0], 1)
    assert files.write(target, b"ours")
    assert target.read_text() == "ours"
    os.write(go[1], b"x")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert target.read_text() == "theirs"


def test_partial_file_of_a_killed_process_goes_at_once(tmp_path: Path) -> None:
    target = tmp_path / "x"
    child = os.fork()
    if child == 0:
        with files.partial(target):
            os._exit(0)
    os.waitpid(child, 0)
    assert [path.suffix for path in tmp_path.iterdir()] == [".part"]
    assert files.write(target, b"whole")
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_partial_file_taken_before_it_was_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = tempfile.mkstemp
    taken: list[str] = []

    def mkstemp(*args: Any, **rest: Any) -> tuple[int, str]:
        handle, name = real(*args, **rest)
        if not taken:
            taken.append(name)
            Path(name).unlink()
        return handle, name

    monkeypatch.setattr(tempfile, "mkstemp", mkstemp)
    with files.partial(tmp_path / "x") as temporary:
        assert taken
        assert temporary.name != Path(taken[0]).name


@pytest.mark.parametrize("folder", ["tests/harness", "tests/engine", "ci", "bench", "tools"])
def test_lint_looks_into_every_folder(bare: World, said: Said, folder: str) -> None:
    shutil.copy(ROOT / "pyproject.toml", bare.root)
    (bare.root / "tools").mkdir()
    (bare.root / "tools" / "__init__.py").write_text('"""Fine."""\n')
    (bare.root / folder).mkdir(parents=True, exist_ok=True)
    (bare.root / folder / "x.py").write_text('"""Fine, but for its import."""\n\nimport os\n')
    assert bare.run("lint") == 1
    assert f"{folder}/x.py" in said()


def test_lint_reports(bare: World, said: Said) -> None:
    folder = bare.root / "tools"
    folder.mkdir()
    shutil.copy(ROOT / "pyproject.toml", bare.root)
    (folder / "__init__.py").write_text('"""Fine."""\n')
    assert bare.run("lint") == 0
    (folder / "x.py").write_text("import os\ndef f(x): return x\n")
    assert bare.run("lint") == 1
    assert "ruff check, ruff format --check, mypy found something" in said()
    assert lint.CHECKS
