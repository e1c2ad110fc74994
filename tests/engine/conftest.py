"""Runs of the engine, shared by the tests of a session.

The runs that the chosen tests ask for start together, two at a time, each a process of its own.
"""

from __future__ import annotations

import json
import os
import pathlib
import queue
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))

from lacking import lacks, record  # noqa: E402
from programs import PROGRAMS  # noqa: E402
from result import Result  # noqa: E402
from scenarios import SCENARIOS  # noqa: E402
from tinymodel.checkpoint import checkpoint  # noqa: E402

BUILD = "GDNWINDOW_CPU_BUILD"
SECONDS = pytest.StashKey[dict[str, tuple[int, int]]]()
AT_A_TIME = 2
TIMEOUT = 400


def build_folder() -> pathlib.Path:
    named = os.environ.get(BUILD, "")
    if not named or not (pathlib.Path(named) / "vllm" / "__init__.py").is_file():
        pytest.fail(
            f"{BUILD} must name the folder of the CPU build, the one that holds vllm/ "
            f"(now: {named!r})",
            pytrace=False,
        )
    return pathlib.Path(named).resolve()


def run_engine(
    scenario: dict[str, Any], result: pathlib.Path, build: pathlib.Path, cpu: int
) -> Result:
    request = result.with_suffix(".scenario.json")
    request.write_text(json.dumps(scenario))
    environment = os.environ | {
        "PYTHONPATH": f"{build}{os.pathsep}{TESTS}",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        # Each rank has a name for it.
        "VLLM_CPU_OMP_THREADS_BIND": "|".join(
            [str(cpu)] * scenario["engine"].get("tensor_parallel_size", 1)
        ),
    }
    job = subprocess.run(
        [sys.executable, "-m", "harness.drive", str(request), str(result)],
        env=environment,
        cwd=result.parent,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    if job.returncode or not result.exists():
        raise RuntimeError(
            f"the engine failed, exit status {job.returncode}\n"
            f"{job.stdout[-2000:]}\n{job.stderr[-6000:]}"
        )
    return Result.read(result)


def run_program(
    name: str, folder: pathlib.Path, build: pathlib.Path, model: pathlib.Path
) -> dict[str, Any]:
    """Return the report of a script of tests/, which passed."""
    script, *options = PROGRAMS[name](folder)
    out = folder / f"{name}.json"
    environment = os.environ | {
        "PYTHONPATH": f"{build}{os.pathsep}{TESTS}",
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        [sys.executable, str(TESTS / script), str(model), str(out), *options],
        env=environment, cwd=folder, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(
            f"{script}: exit status {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-4000:]}"
        )
    found: dict[str, Any] = json.loads(out.read_text())
    return found


class Runs(Mapping[str, Result]):
    """Results by scenario name; reading one waits for it. `reports` are those of PROGRAMS."""

    def __init__(self, names: list[str], programs: list[str], folder: pathlib.Path) -> None:
        build, model = build_folder(), checkpoint()
        cpus: queue.Queue[int] = queue.Queue()
        for cpu in sorted(os.sched_getaffinity(0))[:AT_A_TIME]:
            cpus.put(cpu)
        self.pool = ThreadPoolExecutor(cpus.qsize())

        def job(name: str) -> Result:
            cpu = cpus.get()
            try:
                scenario = SCENARIOS[name]() | dict(model=str(model))
                return run_engine(scenario, folder / f"{name}.json", build, cpu)
            finally:
                cpus.put(cpu)

        # The longest first, so that no core is idle at the end.
        self.reports: dict[str, Future[dict[str, Any]]] = {
            name: self.pool.submit(run_program, name, folder, build, model) for name in programs
        }
        self.futures: dict[str, Future[Result]] = {
            name: self.pool.submit(job, name) for name in names
        }

    def __getitem__(self, name: str) -> Result:
        return self.futures[name].result()

    def __iter__(self) -> Iterator[str]:
        return iter(self.futures)

    def __len__(self) -> int:
        return len(self.futures)


def named(item: pytest.Item) -> set[object]:
    """Names among which are those of the runs that a test looks at: fixtures and parameters."""
    found: set[object] = set(getattr(item, "fixturenames", ()))
    if callspec := getattr(item, "callspec", None):
        found |= set(callspec.params.values())
    return found


def asked(name: str) -> dict[str, Any]:
    """Return what a run asks of its engine, and the way it is run."""
    if name in SCENARIOS:
        scenario = SCENARIOS[name]()
        return {**scenario["engine"], "mode": scenario["mode"]}
    # A server caches prefixes unless it is told not to.
    return {"use_replayssm": True, "enable_prefix_caching": name != "tasks_report"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what a line's series has not, and say so."""
    if not os.environ.get(BUILD):
        return  # the runs will say it
    series = record(build_folder())
    for item in items:
        for name in named(item) & {*SCENARIOS, *PROGRAMS}:
            if why := lacks(asked(str(name)), series):
                item.add_marker(pytest.mark.skip(reason=why))
                break


@pytest.fixture(scope="session")
def runs(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Runs]:
    wanted: set[object] = set()
    for item in request.session.items:
        if not item.get_closest_marker("skip"):
            wanted |= named(item)
    started = Runs(
        [name for name in SCENARIOS if name in wanted],
        [name for name in PROGRAMS if name in wanted],
        tmp_path_factory.mktemp("engine"),
    )
    yield started
    started.pool.shutdown(cancel_futures=True)
    request.config.stash[SECONDS] = {
        name: future.result().seconds
        for name, future in started.futures.items()
        if not future.exception()
    }


def _fixture(name: str) -> Any:
    @pytest.fixture(scope="session", name=name)
    def result(runs: Runs) -> Result:
        return runs[name]

    return result


def _report(name: str) -> Any:
    @pytest.fixture(scope="session", name=name)
    def report(runs: Runs) -> dict[str, Any]:
        return runs.reports[name].result()

    return report


for _name in SCENARIOS:
    globals()[f"_run_{_name}"] = _fixture(_name)
for _name in PROGRAMS:
    globals()[f"_report_{_name}"] = _report(_name)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if seconds := config.stash.get(SECONDS, {}):
        terminalreporter.write_line(
            "engine runs, seconds to start and to play: "
            + ", ".join(f"{name} {start}+{play}" for name, (start, play) in seconds.items())
        )
