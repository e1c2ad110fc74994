from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import world as worlds
from world import World

from tools import overlay, wheels
from tools.errors import ToolError
from tools.wheels import Fresh

Said = Callable[[], str]
FULL = "1.2.0+gdnwindow.1"
NAME = f"dist/vllm-{FULL}-cp38-abi3-manylinux_2_28_x86_64.whl"
INFO = f"vllm-{FULL}.dist-info"
# The real module: this project's first patch delivers it.
PROVENANCE = Path(__file__).parents[2] / "patches" / "packaging" / "series-provenance.patch"


def built(world: World, *flags: str) -> zipfile.ZipFile:
    assert world.run("build", *flags) == 0
    (path,) = (world.root / "dist").glob("*.whl")
    return zipfile.ZipFile(path)


def test_name_and_metadata(series: World, said: Said) -> None:
    archive = built(series)
    path = series.root / NAME
    assert archive.filename == str(path)
    assert (
        archive.read(f"{INFO}/METADATA")
        == worlds.METADATA.replace("Version: 1.2.0\n\n", f"Version: {FULL}\n\n", 1).encode()
    )
    version = archive.read("vllm/_version.py").decode()
    assert f"__version__ = version = '{FULL}'" in version
    assert "version_tuple = (1, 2, 0, 'gdnwindow.1')" in version
    assert "Tag: cp38-abi3-manylinux_2_28_x86_64\n" in archive.read(f"{INFO}/WHEEL").decode()
    assert f"{worlds.sha256(path)}  {NAME}" in said()


def test_content_is_upstreams_plus_the_series(series: World) -> None:
    archive = built(series)
    names = set(archive.namelist())
    with zipfile.ZipFile(series.upstream / worlds.WHEEL) as upstream:
        theirs = {name for name in upstream.namelist() if ".dist-info/" not in name}
        assert {name for name in names if ".dist-info/" not in name} == (
            theirs - {"vllm/old.py"} | {"vllm/new.py"}
        )
        for name in theirs - {"vllm/old.py", "vllm/a.py", "vllm/_version.py"}:
            assert archive.read(name) == upstream.read(name)
            assert archive.getinfo(name).external_attr == upstream.getinfo(name).external_attr
    assert b"line_3 = 33\n" in archive.read("vllm/a.py")
    assert archive.namelist()[-1] == f"{INFO}/RECORD"
    assert archive.testzip() is None
    # Copied without the descriptor behind the data, so the header must hold the sizes.
    assert not [info.filename for info in archive.infolist() if info.flag_bits & 0x08]


def test_same_bytes_twice(series: World, monkeypatch: pytest.MonkeyPatch) -> None:
    built(series)
    first = worlds.sha256(series.root / NAME)
    other = worlds.copy(series, series.root.parent / "elsewhere")
    monkeypatch.setenv("TZ", "Pacific/Chatham")
    time.tzset()
    old = os.umask(0o077)
    try:
        built(other)
    finally:
        os.umask(old)
        monkeypatch.undo()
        time.tzset()
    assert worlds.sha256(other.root / NAME) == first


def test_empty_series_builds(empty: World) -> None:
    archive = built(empty)
    assert json.loads(archive.read(f"{INFO}/series.json"))["patches"] == []


def test_provenance_record(series: World) -> None:
    table = json.loads(built(series).read(f"{INFO}/series.json"))
    pin = series.project.pin
    assert table["upstream"]["sdist"]["sha256"] == pin.sdist.sha256
    assert table["upstream"]["wheel"]["sha256"] == pin.wheel.sha256
    assert (table["base_tree"], table["tree"]) == (pin.base_tree, series.tree())
    chain = "".join(
        f"{worlds.sha256(series.patch(row['name']))}  {row['name']}\n" for row in table["patches"]
    )
    assert table["series_id"] == hashlib.sha256(chain.encode()).hexdigest()
    assert set(table["files"]) == {"vllm/a.py", "vllm/new.py", "vllm/old.py"}
    assert table["files"]["vllm/old.py"] is None
    assert table["files"]["vllm/a.py"] == worlds.sha256(series.checkout / "vllm" / "a.py")


@pytest.mark.parametrize(
    "path",
    ["csrc/kernel.cu", "setup.py", "vllm/extra.cpp", "vllm/x.so", "requirements/common.txt",
     "CMakeLists.txt", "vllm/_version.py", "tools/build_rust.py", "rust/x.rs", "pyproject.toml"],
)  # fmt: skip
def test_build_inputs_are_refused(series: World, said: Said, path: str) -> None:
    file = series.checkout / path
    file.parent.mkdir(exist_ok=True)
    file.write_text("changed\n")
    series.git("add", "-f", path)
    series.commit("Touch it")
    assert series.run("refresh") == 0
    assert series.run("build") == 1
    message = said()
    assert path in message
    assert "compiled code or metadata" in message
    assert not (series.root / "dist").exists()


def test_documents_and_tests_are_not_shipped(series: World) -> None:
    (series.checkout / "docs").mkdir()
    (series.checkout / "docs" / "x.md").write_text("x\n")
    series.edit("tests/test_a.py", "pass", "assert True")
    series.commit("Document it")
    assert series.run("refresh") == 0
    archive = built(series)
    assert not [name for name in archive.namelist() if name.startswith(("docs", "tests"))]


def test_symbolic_link_is_refused(series: World, said: Said) -> None:
    (series.checkout / "vllm" / "link.py").symlink_to("a.py")
    series.commit("Link it")
    assert series.run("refresh") == 0
    assert series.run("build") == 1
    assert "vllm/link.py is a symbolic link" in said()


def test_executable_bit_is_kept(series: World) -> None:
    (series.checkout / "vllm" / "run.py").write_text("# SPDX-License-Identifier: x\n")
    (series.checkout / "vllm" / "run.py").chmod(0o755)
    series.commit("Add a script")
    assert series.run("refresh") == 0
    info = built(series).getinfo("vllm/run.py")
    assert stat.S_IMODE(info.external_attr >> 16) == 0o755


def test_wheel_that_disagrees_with_the_sdist(series: World, said: Said, tmp_path: Path) -> None:
    info = f"vllm-{worlds.VERSION}.dist-info"
    package = {**worlds.PACKAGE, "vllm/b.py": "value = 'other'\n"}
    path = series.cache / "downloads" / worlds.WHEEL
    good = worlds.sha256(path)
    worlds.write_wheel(path, worlds.wheel_content(package, info, {}), info)
    pin = series.root / "vendor" / "upstream.toml"
    pin.write_text(pin.read_text().replace(good, worlds.sha256(path)))
    assert series.run("build") == 1
    message = said()
    assert "disagree on 1 file(s) (vllm/b.py)" in message
    del package["vllm/b.py"]
    bad = worlds.sha256(path)
    worlds.write_wheel(path, worlds.wheel_content(package, info, {}), info)
    pin.write_text(pin.read_text().replace(bad, worlds.sha256(path)))
    assert series.run("build") == 1
    assert "disagree on 1 file(s) (vllm/b.py)" in said()


@pytest.mark.parametrize(
    ("work", "code", "words"),
    [
        ("edit", 3, "edits that are not in patches/ (vllm/b.py)"),
        ("commit", 1, "`make refresh` if you have commits there"),
        ("patch", 1, "is not what series.lock names"),
        ("extra", 1, "patches/core/extra.patch is not what series.lock names"),
        ("gone", 1, "is not there; run `make apply`"),
    ],
)
def test_builds_only_what_is_in_patches(  # noqa: PLR0917, RUF100
    series: World, said: Said, work: str, code: int, words: str
) -> None:
    if work in ("edit", "commit"):
        series.edit("vllm/b.py", "1", "2")
    if work == "commit":
        series.commit("Mine")
    if work == "patch":
        series.patch("core/change-three.patch").write_text("x")
    if work == "extra":
        series.patch("core/extra.patch").write_text("x")
    if work == "gone":
        shutil.rmtree(series.checkout)
    assert series.run("build") == code
    assert words in said()


def test_file_list_is_asserted(series: World, monkeypatch: pytest.MonkeyPatch, said: Said) -> None:
    real = overlay.package_files

    def forget(*args: object) -> dict[str, Fresh | None]:
        found = real(*args)  # type: ignore[arg-type]
        found.pop("vllm/new.py")
        return found

    monkeypatch.setattr(overlay, "package_files", forget)
    assert series.run("build") == 1
    assert "would not hold the files it should (vllm/new.py)" in said()


def test_result_is_read_back(series: World, monkeypatch: pytest.MonkeyPatch, said: Said) -> None:
    real = wheels.record
    monkeypatch.setattr(
        wheels, "record", lambda plan, info: real(plan, info).replace(b"sha256=", b"sha256=A", 1)
    )
    assert series.run("build") == 1
    assert "is not a sound wheel" in said()


@pytest.mark.parametrize("count", [0, 2])
def test_one_line_is_replaced_or_none(count: int) -> None:
    with pytest.raises(ToolError, match=f"has {count} lines like"):
        overlay.stamp_metadata("Version: 1.2.0\n" * count + "\n\nbody", "1.2.0", "x")


def test_pip_installs_it(series: World, tmp_path: Path) -> None:
    built(series)
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index",
         "--target", str(tmp_path / "site"), "--platform", "manylinux_2_28_x86_64",
         "--python-version", "311", "--only-binary", ":all:", str(series.root / NAME)],
        check=True, capture_output=True,
    )  # fmt: skip
    assert (tmp_path / "site" / "vllm" / "new.py").is_file()


@pytest.fixture
def installed(series: World, tmp_path: Path) -> Path:
    """The wheel of a series that holds the provenance command, unpacked."""
    name = "packaging/series-provenance.patch"
    target = series.patch(name)
    target.parent.mkdir()
    shutil.copy(PROVENANCE, target)
    with (series.root / "series").open("a") as file:
        file.write(f"{name}\n")
    assert series.run("apply", "--relock") == 0
    built(series).extractall(tmp_path / "site")
    return tmp_path / "site"


def provenance(site: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "vllm.series_provenance"],
        cwd=site, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_provenance_command_matches(installed: Path) -> None:
    done = provenance(installed)
    assert done.returncode == 0, done.stdout + done.stderr
    assert FULL in done.stdout
    assert "core/change-three.patch" in done.stdout
    assert "0 mismatches" in done.stdout


@pytest.mark.parametrize("what", ["modified", "missing", "returned"])
def test_provenance_command_finds_a_changed_file(installed: Path, what: str) -> None:
    if what == "modified":
        with (installed / "vllm" / "a.py").open("a") as file:
            file.write("# edited\n")
    elif what == "missing":
        (installed / "vllm" / "new.py").unlink()
    else:
        (installed / "vllm" / "old.py").write_text("back = True\n")
    done = provenance(installed)
    assert done.returncode == 1
    assert "MISMATCH" in done.stdout


def test_provenance_command_on_an_unpatched_package(installed: Path) -> None:
    (installed / INFO / "series.json").unlink()
    done = provenance(installed)
    assert done.returncode == 1
    assert "no patch series" in done.stdout


def test_cpu_build_is_named_for_tests(series: World) -> None:
    archive = built(series, "--cpu")
    version = f"{FULL}.cpu.testonly"
    assert archive.filename
    assert archive.filename.endswith(f"vllm-{version}-cp38-abi3-linux_x86_64.whl")
    assert archive.read("vllm/_C.abi3.so") == b"cpu" * 500
    assert archive.read("vllm/_C_AVX2.abi3.so") == b"avx" * 500
    assert "vllm/vllm-rs" not in archive.namelist()
    assert b"line_3 = 33\n" in archive.read("vllm/a.py")
    assert f"'{version}'" in archive.read("vllm/_version.py").decode()
    assert f"\nVersion: {version}\n".encode() in archive.read(f"vllm-{version}.dist-info/METADATA")


FAKE_ENVIRONMENT = """\
#!{python}
# Stands in for `python -m build` with upstream's setup.py.
import os, pathlib, sys
sys.path[:0] = [{root!r}, {tests!r}]
import world
from tools import overlay
tree, out = pathlib.Path(sys.argv[-1]), pathlib.Path(sys.argv[-2])
assert os.environ["VLLM_VERSION_OVERRIDE"] == {full!r}
assert pathlib.Path(os.environ["VLLM_PRECOMPILED_WHEEL_LOCATION"]).is_file()
assert "VLLM_TRAP" not in os.environ
assert (tree / ".git").is_dir()
out.mkdir()
names = [p for p in tree.rglob("*") if p.is_file() and p.relative_to(tree).parts[0] == "vllm"]
package = {{str(p.relative_to(tree)): p.read_text() for p in names}}
version = overlay.stamp_version(package["vllm/_version.py"], "1.2.0", {full!r})
package["vllm/_version.py"] = version.replace("'gabc123456'", "None")
native = {{"vllm/_C.abi3.so": b"cuda" * 500, "vllm/vllm-rs": b"rust" * 500}}
content = world.wheel_content(package, {info!r}, native)
content[{info!r} + "/METADATA"] = world.METADATA.replace(
    "Version: 1.2.0\\n\\n", "Version: " + {full!r} + "\\n\\n").encode()
{spoil}
world.write_wheel(out / f"vllm-{{{full!r}}}-cp311-cp311-linux_x86_64.whl", content, {info!r})
"""


def fake_environment(folder: Path, spoil: str) -> Path:
    script = folder / "fake" / "bin" / "python"
    script.parent.mkdir(parents=True)
    script.write_text(
        FAKE_ENVIRONMENT.format(
            python=sys.executable,
            root=str(Path(__file__).parents[2]),
            tests=str(Path(__file__).parent),
            full=FULL,
            info=INFO,
            spoil=spoil,
        )
    )
    script.chmod(0o755)
    return folder / "fake"


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        ("", "setup.py and the overlay hold the same"),
        ("content['vllm/b.py'] = b'other'", "disagree on 1 file(s): vllm/b.py"),
        ("content['vllm/_version.py'] += b'x'", "disagree on 1 file(s): vllm/_version.py"),
        ("content['vllm/more.py'] = b''", "setup.py only: vllm/more.py"),
        ("del content['vllm/new.py']", "overlay only: vllm/new.py"),
        ("raise SystemExit('no torch')", "setup.py failed (no torch)"),
    ],
    ids=["same", "content", "version", "more", "less", "fails"],
)
def test_setup_route_compares_with_the_overlay(
    series: World, said: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoil: str,
    words: str,
) -> None:  # fmt: skip
    monkeypatch.setenv("VLLM_TRAP", "1")
    env = fake_environment(tmp_path, spoil)
    code = series.run("build", "--via", "setup", "--env", str(env))
    assert words in said()
    assert code == (1 if spoil else 0)
    wheel = series.root / "dist" / "setup" / Path(NAME).name
    assert wheel.is_file() == (not spoil)
    assert series.git("status", "--porcelain") == ""
    if not spoil:
        with zipfile.ZipFile(wheel) as archive:
            assert f"{INFO}/series.json" in archive.namelist()
            assert b"manylinux_2_28" in archive.read(f"{INFO}/WHEEL")


def test_setup_route_needs_an_environment(series: World, said: Said) -> None:
    assert series.run("build", "--via", "setup") == 1
    assert "make env" in said()


def test_setup_route_makes_no_cpu_wheel(series: World, said: Said) -> None:
    assert series.run("build", "--via", "setup", "--cpu") == 2
    message = said()
    assert "--via setup and --cpu exclude each other" in message
    assert len(message.splitlines()) == 1
    assert not (series.root / "dist").exists()
